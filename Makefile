# Tidegate: one Makefile. `make help` lists the targets.
#
#   make            programs in build/bin
#   make SAN=1      the same under AddressSanitizer and UBSan, in build-asan/bin (tests use these)
#   make COV=1      the same with coverage counters, in build-cov
#   BUILD=dir       another build folder

SHELL := /bin/bash
.DEFAULT_GOAL := all

VERSION := 0.1.0
CC ?= cc
PREFIX ?= /usr
SYSCONFDIR ?= /etc
DESTDIR ?=
LIBEXECDIR := $(PREFIX)/libexec/tidegate
DATADIR := $(PREFIX)/share/tidegate

ifdef SAN
BUILD ?= build-asan
MODE_CFLAGS := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
MODE_LDFLAGS := -fsanitize=address,undefined
else ifdef COV
BUILD ?= build-cov
MODE_CFLAGS := -O0 --coverage
MODE_LDFLAGS := --coverage
else
BUILD ?= build
MODE_CFLAGS := -O2 -D_FORTIFY_SOURCE=2
MODE_LDFLAGS :=
endif

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
        -Wformat=2 -Wpointer-arith -Wundef -Wno-format-nonliteral
HARDEN := -fstack-protector-strong -fstack-clash-protection -fcf-protection -fPIE
CPPFLAGS += -I. -D_GNU_SOURCE -DTIDEGATE_VERSION='"$(VERSION)"' \
            -DTIDEGATE_LIBEXECDIR='"$(LIBEXECDIR)"' -DTIDEGATE_DATADIR='"$(DATADIR)"' \
            -DTIDEGATE_SYSCONFDIR='"$(SYSCONFDIR)"'
ALL_CFLAGS := -std=gnu11 -g $(MODE_CFLAGS) $(WARN) $(HARDEN) -MMD -MP $(CFLAGS)
ALL_LDFLAGS := -pie -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed $(MODE_LDFLAGS) $(LDFLAGS)

# ---- modules: every folder is an archive; main.c stays out of it -------------------------------

MODULES := gateway/base gateway/proto gateway/policy gateway/policy/load gateway/supervisor \
           gateway/core gateway/recorder gateway/control resolver/wire resolver/vet \
           resolver/cache resolver/flow resolver/front resolver/upstream resolver/opening \
           resolver tools/tidegate

sources = $(filter-out %/main.c,$(wildcard $(1)/*.c))
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(call sources,$(1)))
archive = $(BUILD)/lib/$(subst /,-,$(1)).a

define module_rule
$(call archive,$(1)): $(call objects,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	@ar rcs $$@ $$^
endef
$(foreach m,$(MODULES),$(eval $(call module_rule,$(m))))

# Compiled in: make PREFIX=... after make without it must not leave the old folders in the programs.
$(BUILD)/settings: export SETTINGS = $(CC) $(CPPFLAGS) $(ALL_CFLAGS)
$(BUILD)/settings: FORCE
	@mkdir -p $(@D)
	@echo "$$SETTINGS" | cmp -s - $@ || echo "$$SETTINGS" >$@
.PHONY: FORCE

$(BUILD)/obj/%.o: %.c $(BUILD)/settings
	@mkdir -p $(@D)
	@echo "  CC  $<"
	@$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

# ---- programs: main.c, its modules, its libraries ----------------------------------------------
# program(name, folder of main.c, modules from the top down, libraries)

PROGRAMS :=
define program_rule
PROGRAMS += $(BUILD)/bin/$(1)
$(BUILD)/bin/$(1): $(BUILD)/obj/$(2)/main.o $(foreach m,$(3),$(call archive,$(m)))
	@mkdir -p $$(@D)
	@echo "  LD  $$@"
	@$(CC) $(ALL_CFLAGS) -o $$@ $(BUILD)/obj/$(2)/main.o \
	  -Wl,--start-group $(foreach m,$(3),$(call archive,$(m))) -Wl,--end-group \
	  $(ALL_LDFLAGS) $(4)
endef

BASE := gateway/proto gateway/policy gateway/base
$(eval $(call program_rule,tidegated,gateway/supervisor,gateway/supervisor $(BASE),\
    -lseccomp -lcap-ng))
$(eval $(call program_rule,tidegate-core,gateway/core,gateway/core $(BASE),\
    -lnftables -lmnl -luv -lsodium -lseccomp -lcap-ng))
$(eval $(call program_rule,tidegate-loader,gateway/policy/load,gateway/policy/load $(BASE),\
    -lyaml -lidn2 -lpsl -lsodium -lseccomp -lcap-ng))
$(eval $(call program_rule,tidegate-resolver,resolver,resolver resolver/front resolver/upstream \
    resolver/opening resolver/flow resolver/cache resolver/vet resolver/wire $(BASE),\
    -lldns -luv -lseccomp -lcap-ng))
$(eval $(call program_rule,tidegate-recorder,gateway/recorder,gateway/recorder $(BASE),\
    -luv -lseccomp -lcap-ng))
$(eval $(call program_rule,tidegate-control,gateway/control,gateway/control $(BASE),\
    -ljansson -luv -lseccomp -lcap-ng))
$(eval $(call program_rule,tidegate,tools/tidegate,tools/tidegate gateway/control \
    gateway/policy/load $(BASE),\
    -ljansson -lyaml -lidn2 -lpsl -lsodium -lseccomp -lcap-ng))

# ---- targets -----------------------------------------------------------------------------------

all: $(PROGRAMS) ## build every program into build/bin

# One program per tests/unit/*_test.c, linked against all modules.
UNIT_SOURCES := $(wildcard tests/unit/*_test.c)
UNIT_PROGRAMS := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(UNIT_SOURCES))
TEST_LIBS := -lcheck -lsubunit -lrt -lm -lpthread -lnftables -lmnl -luv -lsodium -lseccomp \
             -lcap-ng -lyaml -lidn2 -lpsl -lldns -ljansson
$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(foreach m,$(MODULES),$(call archive,$(m)))
	@mkdir -p $(@D)
	@$(CC) $(ALL_CFLAGS) -o $@ $< \
	  -Wl,--start-group $(foreach m,$(MODULES),$(call archive,$(m))) -Wl,--end-group \
	  $(ALL_LDFLAGS) $(TEST_LIBS)

# This one drives the real program.
$(BUILD)/unit/recorder_program_test: | $(BUILD)/bin/tidegate-recorder

# These run programs of bin/.
$(BUILD)/unit/supervisor_test: | $(BUILD)/bin/tidegated
$(BUILD)/unit/cli_test: | $(BUILD)/bin/tidegate

# The runner of tests/scenario: the engine of resolver/flow alone, and the real policy loader.
SCENARIO_MODULES := resolver/flow resolver/opening resolver/cache resolver/vet resolver/wire \
                    gateway/policy/load $(BASE)
SCENARIO_RUNNER := $(BUILD)/scenario/runner
$(SCENARIO_RUNNER): $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/scenario/*.c)) \
                    $(foreach m,$(SCENARIO_MODULES),$(call archive,$(m)))
	@mkdir -p $(@D)
	@$(CC) $(ALL_CFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) \
	  -Wl,--end-group $(ALL_LDFLAGS) -lldns -lyaml -lidn2 -lpsl -lsodium

# Pages written by hand are in conf/man; tidegate-log(5) is printed from the recorder's tables.
MANPAGE := $(BUILD)/tools/manpage
$(MANPAGE): $(BUILD)/obj/tools/manpage/main.o $(call archive,gateway/recorder) \
            $(call archive,gateway/proto) $(call archive,gateway/base)
	@mkdir -p $(@D)
	@$(CC) $(ALL_CFLAGS) -o $@ $^ $(ALL_LDFLAGS)
$(BUILD)/man/tidegate-log.5: $(MANPAGE)
	@mkdir -p $(@D)
	@$(MANPAGE) > $@.new && mv $@.new $@
$(BUILD)/man/%: conf/man/%
	@mkdir -p $(@D)
	@cp $< $@
MAN_PAGES := $(patsubst conf/man/%,$(BUILD)/man/%,$(wildcard conf/man/*.[158])) \
             $(BUILD)/man/tidegate-log.5
man: $(MAN_PAGES) ## build the man pages into build/man

# ---- install ------------------------------------------------------------------------------------

SBIN_PROGRAMS := tidegated
BIN_PROGRAMS := tidegate
LIBEXEC_PROGRAMS := tidegate-core tidegate-loader tidegate-resolver tidegate-recorder \
                    tidegate-control
UNITS := tidegate.service tidegate-closed.service
MAN_SECTIONS := 1 5 8
INSTALL := install -D

# Files of $(SYSCONFDIR) are examples: installed where there is none yet, never removed.
install: all man ## install below $(DESTDIR)$(PREFIX) and $(DESTDIR)$(SYSCONFDIR)
	@for p in $(SBIN_PROGRAMS); do \
	  $(INSTALL) -m 755 $(BUILD)/bin/$$p $(DESTDIR)$(PREFIX)/sbin/$$p || exit 1; done
	@for p in $(BIN_PROGRAMS); do \
	  $(INSTALL) -m 755 $(BUILD)/bin/$$p $(DESTDIR)$(PREFIX)/bin/$$p || exit 1; done
	@for p in $(LIBEXEC_PROGRAMS); do \
	  $(INSTALL) -m 755 $(BUILD)/bin/$$p $(DESTDIR)$(LIBEXECDIR)/$$p || exit 1; done
	@for u in $(UNITS); do $(INSTALL) -d $(DESTDIR)$(PREFIX)/lib/systemd/system && \
	  sed 's|/usr/sbin/tidegated|$(PREFIX)/sbin/tidegated|; s|/etc/tidegate|$(SYSCONFDIR)/tidegate|; s|/usr/share/tidegate|$(DATADIR)|' \
	    conf/systemd/$$u > $(DESTDIR)$(PREFIX)/lib/systemd/system/$$u || exit 1; done
	@for d in sysusers tmpfiles; do $(INSTALL) -m 644 conf/$$d.d/tidegate.conf \
	  $(DESTDIR)$(PREFIX)/lib/$$d.d/tidegate.conf || exit 1; done
	@$(INSTALL) -m 644 conf/sysctl.d/60-tidegate.conf $(DESTDIR)$(PREFIX)/lib/sysctl.d/60-tidegate.conf
	@for f in closed.nft public_suffix_list.dat; do \
	  $(INSTALL) -m 644 conf/$$f $(DESTDIR)$(DATADIR)/$$f || exit 1; done
	@for s in $(MAN_SECTIONS); do for m in $(BUILD)/man/*.$$s; do \
	  $(INSTALL) -m 644 $$m $(DESTDIR)$(PREFIX)/share/man/man$$s/$$(basename $$m) || exit 1; \
	  done; done
	@cd conf && find gateway.yaml policy -type f | while read -r f; do \
	  t=$(DESTDIR)$(SYSCONFDIR)/tidegate/$$f; \
	  test -e $$t || $(INSTALL) -m 644 $$f $$t || exit 1; done

uninstall: ## remove what install put there, except configuration, state and log
	@rm -f $(SBIN_PROGRAMS:%=$(DESTDIR)$(PREFIX)/sbin/%) $(BIN_PROGRAMS:%=$(DESTDIR)$(PREFIX)/bin/%) \
	  $(LIBEXEC_PROGRAMS:%=$(DESTDIR)$(LIBEXECDIR)/%) \
	  $(UNITS:%=$(DESTDIR)$(PREFIX)/lib/systemd/system/%) \
	  $(DESTDIR)$(PREFIX)/lib/{sysusers,tmpfiles}.d/tidegate.conf \
	  $(DESTDIR)$(PREFIX)/lib/sysctl.d/60-tidegate.conf \
	  $(DESTDIR)$(DATADIR)/{closed.nft,public_suffix_list.dat} \
	  $(DESTDIR)$(PREFIX)/share/man/man1/tidegate.1 \
	  $(DESTDIR)$(PREFIX)/share/man/man5/tidegate{.yaml,-log}.5 \
	  $(DESTDIR)$(PREFIX)/share/man/man8/tidegated.8
	@rmdir --ignore-fail-on-non-empty $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(DATADIR) 2>/dev/null || true

# ---- tests and checks --------------------------------------------------------------------------
# They use build folders of their own: build-asan, build-cov, or inside BUILD when that is given.

given := $(filter command,$(firstword $(origin BUILD)))
SAN_BUILD := $(if $(given),$(BUILD)/asan,build-asan)
COV_BUILD := $(if $(given),$(BUILD)/cov,build-cov)
COV_PATHS := gateway/policy gateway/proto resolver/vet \
             gateway/core/ledger.c gateway/core/names.c gateway/core/slab.c
COV_OTHERS := $(filter-out $(COV_PATHS),$(MODULES))

asan: ## build every program under the sanitizers, into build-asan/bin
	@$(MAKE) --no-print-directory SAN=1 BUILD=$(SAN_BUILD) all

unit: ## run the unit tests under the sanitizers
	@$(MAKE) --no-print-directory SAN=1 BUILD=$(SAN_BUILD) unit-run

cov: ## run unit tests and scenarios with coverage counters, print the branches taken
	@command -v gcovr >/dev/null || { echo "cov: gcovr is missing: make deps SET=check" >&2; exit 1; }
	@find $(COV_BUILD) -name '*.gcda' -delete 2>/dev/null || true
	@$(MAKE) --no-print-directory COV=1 BUILD=$(COV_BUILD) unit-run scenario-run
	@tools/coverage $(COV_BUILD) $(COV_PATHS) -- $(COV_OTHERS)

lint: all ## check the rules that no compiler checks
	@tools/lint/lint --self-test
	@tools/lint/lint $(BUILD)

SET ?= build
deps: ## install the Debian packages that are missing (SET=build, demo or check)
	@tools/deps $(SET)

format: ## rewrite the C sources by .clang-format
	clang-format -i $$(git ls-files '*.c' '*.h')

unit-run: $(UNIT_PROGRAMS)
	@tools/unit $(UNIT_PROGRAMS)

scenario: ## replay the scenarios on the resolver's engine, under the sanitizers
	@$(MAKE) --no-print-directory SAN=1 BUILD=$(SAN_BUILD) scenario-run

scenario-run: $(SCENARIO_RUNNER)
	@$(SCENARIO_RUNNER) $(sort $(wildcard tests/scenario/*.scn))

.PHONY: asan unit unit-run scenario scenario-run cov lint deps format

# ---- fuzz targets ------------------------------------------------------------------------------
# tests/fuzz/NAME_fuzz.c, seeds in tests/fuzz/corpus/NAME. Under clang with libFuzzer, or, by any
# compiler, over files: build-asan/fuzz/NAME FILE|FOLDER...

FUZZ_SECONDS ?= 60
FUZZ_NAMES := $(patsubst tests/fuzz/%_fuzz.c,%,$(wildcard tests/fuzz/*_fuzz.c))
FUZZ_BUILD := $(if $(given),$(BUILD)/fuzzing,build-fuzz)
FUZZ_CHECKS := address,undefined -fno-sanitize-recover=all

$(BUILD)/fuzz/%: $(BUILD)/obj/tests/fuzz/%_fuzz.o \
    $(if $(FUZZ),,$(BUILD)/obj/tests/fuzz/replay_main.o) $(foreach m,$(MODULES),$(call archive,$(m)))
	@mkdir -p $(@D)
	@$(CC) $(ALL_CFLAGS) -o $@ $(filter %.o,$^) \
	  -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(ALL_LDFLAGS) $(TEST_LIBS)

fuzz-smoke: ## replay the corpora of the fuzz targets under the sanitizers
	@$(MAKE) --no-print-directory SAN=1 BUILD=$(SAN_BUILD) fuzz-replay

fuzz-replay: $(FUZZ_NAMES:%=$(BUILD)/fuzz/%)
	@set -e; for n in $(FUZZ_NAMES); do $(BUILD)/fuzz/$$n tests/fuzz/corpus/$$n; done

# gcc is the judge of warnings: clang has others.
fuzz: ## fuzz each target for FUZZ_SECONDS=60 (clang); FUZZ_NAMES=... picks some
	@$(MAKE) --no-print-directory FUZZ=1 CC=clang WARN=-w BUILD=$(FUZZ_BUILD) fuzz-run \
	  MODE_CFLAGS='-O1 -fsanitize=fuzzer-no-link,$(FUZZ_CHECKS)' \
	  MODE_LDFLAGS='-fsanitize=fuzzer,$(FUZZ_CHECKS)'

# What is found is kept in the build folder: findings as NAME-crash-..., new inputs below corpus/.
fuzz-run: $(FUZZ_NAMES:%=$(BUILD)/fuzz/%)
	@set -e; for n in $(FUZZ_NAMES); do mkdir -p $(BUILD)/corpus/$$n; \
	  $(BUILD)/fuzz/$$n -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -print_final_stats=1 \
	    -artifact_prefix=$(BUILD)/$$n- $(BUILD)/corpus/$$n tests/fuzz/corpus/$$n; done

fuzz-clean:
	rm -rf build-fuzz
clean: fuzz-clean

.PHONY: fuzz fuzz-run fuzz-smoke fuzz-replay fuzz-clean

# ---- the lab -------------------------------------------------------------------------------------

# Parts of `make net` by name: make net K="c53 c49".
net: asan ## run the net tests in the lab: real programs (sanitized), kernel and peers; as root
	@ASAN_OPTIONS=detect_leaks=0 TIDEGATE_BIN=$(SAN_BUILD)/bin tests/net/run $(K:%=-k %)

demo: ## install what is missing, build, show the main job in namespaces; as root
	@tools/deps demo
	@$(MAKE) --no-print-directory all
	@TIDEGATE_BIN=$(BUILD)/bin tools/lab/demo

lab: all ## bring a lab up and leave it up to explore; as root
	@tools/deps demo
	@TIDEGATE_BIN=$(CURDIR)/$(BUILD)/bin tools/lab/lab up

man-lint: man ## check the man pages
	@mandoc -Tlint -W warning $(MAN_PAGES)

check: ## install what is missing, run every test; as root
	@tools/deps check
	@$(MAKE) --no-print-directory all asan
	@tools/check lint man-lint unit scenario fuzz-smoke net

# What must be right for "denied stays denied". The preprocessor knows best what a comment is.
TRUSTED := $(wildcard $(foreach d,core supervisor policy base proto,gateway/$(d)/*.[ch]))
trusted: ## count the lines of the trusted base
	@echo "$$(cat $(TRUSTED) | wc -l) lines in $(words $(TRUSTED)) files," \
	  "$$(for f in $(TRUSTED); do $(CC) -fpreprocessed -dD -E -P -x c $$f; done | grep -c '[^[:space:]]')" \
	  "without comments and blank lines"

clean: ## remove the build folders
	rm -rf build build-asan build-cov

help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/' | \
	  awk -F: '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: all man install uninstall net demo lab man-lint check trusted clean help
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
