/* policy_files.h: policy files of a test in a folder of their own, and what the loader says. */
#ifndef TESTS_UNIT_POLICY_FILES_H
#define TESTS_UNIT_POLICY_FILES_H

#include <check.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/policy/load/load.h"
#include "gateway/policy/policy.h"

/* 2026-11-30, whatever day the test runs. */
#define FILES_TODAY (UINT64_C(1796000000) * USEC_PER_SEC)

struct files {
    char top[64];      /* holds gateway.yaml and policy/ */
    char *report;      /* with the folder's path cut off */
    struct load_result result;
    struct policy policy;
};

static inline void files_path(const struct files *f, const char *name, char path[512]) {
    snprintf(path, 512, "%s/%s", f->top, name);
}

static inline void files_start(struct files *f) {
    char path[512];
    memset(f, 0, sizeof *f);
    snprintf(f->top, sizeof f->top, "/tmp/tidegate-policy-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(f->top));
    files_path(f, "policy", path);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    files_path(f, "policy/tools", path);
    ck_assert_int_eq(mkdir(path, 0755), 0);
}

static inline void files_put(const struct files *f, const char *name, const void *bytes,
                             size_t size) {
    char path[512];
    files_path(f, name, path);
    FILE *out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(bytes, 1, size, out), size);
    ck_assert_int_eq(fclose(out), 0);
}

static inline void files_write(const struct files *f, const char *name, const char *text) {
    files_put(f, name, text, strlen(text));
}

static inline const char *files_list(void) {
    const char *list = getenv("TIDEGATE_PUBLIC_SUFFIX_LIST"); /* when not run from the top folder */
    return list ? list : "conf/public_suffix_list.dat";
}

/* The folder's own name differs from run to run. */
static inline void files_cut(struct files *f) {
    size_t size = strlen(f->top);
    for (char *at = f->report; (at = strstr(at, f->top));) {
        size_t skip = size + (at[size] == '/');
        memmove(at, at + skip, strlen(at + skip) + 1);
    }
}

static inline void files_release(struct files *f) {
    load_result_free(&f->result);
    free(f->report);
    f->report = NULL;
}

/* Loads; `whole`: with gateway.yaml, else the folder alone. */
static inline int files_load(struct files *f, int whole) {
    char path[512];
    struct clock_fake fake = {.realtime = FILES_TODAY};
    struct clock clock = clock_fake_of(&fake);
    struct load_source source = {.public_suffix_list = files_list(), .clock = &clock};
    size_t size;
    files_release(f);
    files_path(f, whole ? "gateway.yaml" : "policy", path);
    if (whole) source.config = path;
    else source.directory = path;
    FILE *report = open_memstream(&f->report, &size);
    int result = load_policy(&source, report, &f->result);
    fclose(report);
    files_cut(f);
    if (result == 0) {
        ck_assert_uint_eq(f->result.faults, 0);
        ck_assert_int_eq(policy_open(&f->policy, f->result.image, f->result.size), 0);
    } else {
        ck_assert_int_eq(result, -EINVAL);
        ck_assert_uint_gt(f->result.faults, 0);
        ck_assert_ptr_null(f->result.image);
    }
    return result;
}

static inline int files_remove_one(const char *path, const struct stat *st, int kind,
                                   struct FTW *at) {
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static inline void files_end(struct files *f) {
    files_release(f);
    nftw(f->top, files_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#define FILES_GATEWAY                                                                              \
    "agents:\n"                                                                                    \
    "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"                          \
    "  - { interface: eth2, subnets: [10.77.2.0/24] }\n"                                           \
    "uplink: { interface: eth0 }\n"                                                                \
    "management: { interface: eth3, subnets: [192.168.5.0/24] }\n"                                 \
    "upstreams:\n"                                                                                 \
    "  - { address: 9.9.9.9 }\n"                                                                   \
    "  - { address: \"2620:fe::fe\", port: 5353 }\n"                                               \
    "policy: policy\n"

static inline struct addr files_addr(const char *text) {
    struct addr a;
    ck_assert_msg(addr_parse(text, &a) == 0, "%s", text);
    return a;
}

static inline struct name files_name(const char *text) {
    struct name n;
    ck_assert_msg(name_from_text(text, &n) == 0, "%s", text);
    return n;
}

#endif
