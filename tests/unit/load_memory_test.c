/* load_memory_test.c: the loader when memory runs out: each allocation fails in turn. */
#include <dlfcn.h>
#include <stdbool.h>

#include "tests/unit/policy_files.h"

/* These take the place of the C library's, or the sanitizer's, which they call. */
static unsigned long allocations, fail_at; /* 0: none fails */
static bool fail_on;                       /* and all after it */

static bool fails(void) {
    if (fail_at == 0) return false;
    allocations++;
    return allocations == fail_at || (fail_on && allocations > fail_at);
}

static void *next(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

void *malloc(size_t size) {
    static void *(*real)(size_t);
    if (!real) *(void **)&real = next("malloc");
    return fails() ? NULL : real(size);
}

void *calloc(size_t count, size_t size) {
    static void *(*real)(size_t, size_t);
    if (!real) *(void **)&real = next("calloc");
    return fails() ? NULL : real(count, size);
}

void *realloc(void *old, size_t size) {
    static void *(*real)(void *, size_t);
    if (!real) *(void **)&real = next("realloc");
    return fails() ? NULL : real(old, size);
}

static struct files files;

static void setup(void) {
    files_start(&files);
    /* A short list, as the whole one takes ten times the allocations. */
    static char list[16384] = "com\n*.ck\n!www.ck\n";
    size_t used = strlen(list);
    for (unsigned i = 0; i < 1100; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "t%u\n", i);
    files_write(&files, "list.dat", list);
    files_write(&files, "gateway.yaml", FILES_GATEWAY);
}

static void teardown(void) { files_end(&files); }

static const char good_tool[] =
    "tool: search\nversion: 1.4.2\nowner: a@example.com\npurpose: search\nexpires: 2099-01-01\n"
    "digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"
    "endpoints:\n"
    "  - { name: api.search.example, protocol: https, data: public }\n"
    "  - { name: \"**.w.search.example\", protocol: tcp, port: [25, 1000-1010], data: internal }\n"
    "  - { name: \"m\xc3\xbcnchen.example\", types: [MX, A, AAAA], protocol: quic, data: public }\n"
    "  - { name: in.example, protocol: https, data: public, ranges: [private] }\n"
    "  - { address: 203.0.112.0/24, protocol: udp, port: 55, data: public }\n"
    "  - { address: 203.0.112.9/32, protocol: udp, port: 56-60, data: public }\n";
static const char good_agents[] =
    "agents:\n  - { agent: one, sources: [10.77.1.16/28, \"fd77:1::10/124\"], tools: [search, git] }\n"
    "  - { agent: two, sources: [10.77.2.17], tools: [git@1] }\n"
    "deny: [ \"*.bad.example\", \"**.worse.example\" ]\n";
static const char good_git[] = "tool: git\nversion: 1\nowner: a@example.com\npurpose: code\nendpoints:\n"
                               "  - { name: code.example, protocol: tcp, port: 22, data: public }\n";
static const char approvers[] = "approvers: [ { name: analyst, key: "
                                "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3 } ]\n"
                                "quorum: 1\n";

/* One load; the report is in `text`. */
static int load(struct load_result *ret, char *text, size_t size, unsigned long at, bool on) {
    static char buffer[8192];
    char config[512], list[512];
    struct clock_fake fake = {.realtime = FILES_TODAY};
    struct clock clock = clock_fake_of(&fake);
    files_path(&files, "gateway.yaml", config);
    files_path(&files, "list.dat", list);
    const struct load_source source = {.config = config, .public_suffix_list = list, .clock = &clock};
    memset(text, 0, size);
    FILE *report = fmemopen(text, size, "w");
    ck_assert_ptr_nonnull(report);
    setvbuf(report, buffer, _IOFBF, sizeof buffer);
    allocations = 0;
    fail_on = on;
    fail_at = at;
    int result = load_policy(&source, report, ret);
    fail_at = 0;
    fclose(report);
    return result;
}

/* Each allocation fails in turn, alone or with all that follow: the policy is the one it always is, or
 * there is none and a line says why. */
static void each_allocation_fails(bool on, int expected) {
    static char text[65536], usual[65536];
    struct load_result reference, result;
    ck_assert_msg(load(&reference, usual, sizeof usual, 0, false) == expected, "%s", usual);
    unsigned long at = 1;
    unsigned refused = 0;
    for (;; at++) {
        int got = load(&result, text, sizeof text, at, on);
        if (allocations < at) break; /* it needed no more than that */
        if (got == 0) {
            ck_assert_msg(expected == 0 && result.size == reference.size &&
                              memcmp(result.image, reference.image, result.size) == 0,
                          "another policy after allocation %lu failed", at);
        } else {
            ck_assert_int_eq(got, -EINVAL);
            ck_assert_ptr_null(result.image);
            ck_assert_uint_gt(result.faults, 0);
            ck_assert_msg(strchr(text, '\n') != NULL, "nothing was said about allocation %lu", at);
            refused += strstr(text, "memory") != NULL;
        }
        load_result_free(&result);
        ck_assert_uint_lt(at, 100000);
    }
    ck_assert_uint_gt(refused, 20);
    ck_assert_str_eq(text, usual);
    load_result_free(&result);
    load_result_free(&reference);
}

START_TEST(good_policy) {
    files_write(&files, "policy/agents.yaml", good_agents);
    files_write(&files, "policy/approvers.yaml", approvers);
    files_write(&files, "policy/tools/search.yaml", good_tool);
    files_write(&files, "policy/tools/git.yaml", good_git);
    each_allocation_fails(_i, 0);
}
END_TEST

START_TEST(policy_with_faults) {
    files_write(&files, "policy/agents.yaml",
                "agents:\n  - { agent: one, sources: [10.77.1.16/28], tools: [serch, git@9], x: 1 }\n"
                "  - { agent: one, sources: [10.77.1.16/30, nonsense], tools: [git] }\n"
                "deny: [ \"*\", \".example\", 7 ]\n");
    files_write(&files, "policy/tools/search.yaml", good_tool);
    files_write(&files, "policy/tools/again.yaml", good_tool);
    files_write(&files, "policy/tools/git.yaml", "tool: git\nversion: 1\nendpoints: [ { name: [ }\n");
    each_allocation_fails(_i, -EINVAL);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("memory");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, good_policy, 0, 2);
    tcase_add_loop_test(t, policy_with_faults, 0, 2);
    Suite *s = suite_create("loader without memory");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
