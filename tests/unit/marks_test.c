/* marks_test.c: numbers for agents and endpoints, their file, and what becomes of them. Policies are
 * loaded from YAML. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/core/marks.h"
#include "gateway/policy/load/load.h"

static char folder[64];
static int state = -1;

static void write_file(const char *name, const char *text, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
}

static void setup(void) {
    static const char *const parts[] = {"policy", "policy/tools", "state"};
    ck_assert_int_ge(sodium_init(), 0);
    snprintf(folder, sizeof folder, "/tmp/marks-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (unsigned i = 0; i < 3; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, parts[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
        if (i == 2) state = open(path, O_PATH | O_CLOEXEC);
    }
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void teardown(void) {
    close(state);
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A policy of `agents` agents a0.., and endpoints of names first..end-1. */
static struct policy policy_of(unsigned agents, unsigned first, unsigned end) {
    char *text = NULL, path[128];
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fprintf(f, "agents:\n");
    for (unsigned i = 0; i < agents; i++)
        fprintf(f, "  - { agent: a%u, sources: [10.%u.%u.1], tools: [t] }\n", i, 100 + i / 200,
                i % 200);
    fclose(f);
    write_file("policy/agents.yaml", text, size);
    free(text);
    f = open_memstream(&text, &size);
    fprintf(f, "tool: t\nversion: 1.0.0\nowner: a@example.com\npurpose: test\nendpoints:\n");
    for (unsigned i = first; i < end; i++)
        fprintf(f, "  - { name: n%u.example.com, protocol: https, data: public }\n", i);
    fclose(f);
    write_file("policy/tools/t.yaml", text, size);
    free(text);
    struct load_result r;
    struct policy p;
    snprintf(path, sizeof path, "%s/policy", folder);
    const struct load_source source = {.directory = path,
                                       .public_suffix_list = "conf/public_suffix_list.dat"};
    ck_assert_int_eq(load_policy(&source, stderr, &r), 0);
    ck_assert_int_eq(policy_open(&p, r.image, r.size), 0);
    return p;
}

static void policy_drop(struct policy *p) { free((void *)(uintptr_t)p->base); }

static uint32_t endpoint_of(const struct policy *p, const char *text) {
    struct name name;
    ck_assert_int_eq(name_from_text(text, &name), 0);
    for (uint32_t i = 0; i < policy_endpoint_count(p); i++)
        if (policy_pattern_matches(policy_pattern(p, policy_endpoint(p, i)->pattern), &name)) return i;
    return POLICY_NONE;
}

START_TEST(numbers_last) {
    struct marks *m = marks_new();
    struct policy one = policy_of(2, 0, 3), two = policy_of(3, 1, 5);
    const char *what = NULL;
    uint32_t agent, endpoint;
    ck_assert_int_eq(marks_assign(m, &one, &what), 0);
    uint32_t mark = marks_of(m, &one, 1, endpoint_of(&one, "n1.example.com"));
    ck_assert_uint_ne(mark, 0);
    ck_assert_uint_ne(mark, marks_of(m, &one, 0, endpoint_of(&one, "n1.example.com")));
    ck_assert_uint_ne(mark, marks_of(m, &one, 1, endpoint_of(&one, "n2.example.com")));
    ck_assert(!marks_read(m, &one, mark, &agent, &endpoint)); /* fresh */
    marks_settle(m);
    ck_assert(marks_read(m, &one, mark, &agent, &endpoint));
    ck_assert_uint_eq(agent, 1);
    ck_assert_uint_eq(endpoint, endpoint_of(&one, "n1.example.com"));
    uint32_t gone = marks_of(m, &one, 0, endpoint_of(&one, "n0.example.com"));
    /* Another policy: what stays keeps its number; what is gone is still known until given up. */
    ck_assert_int_eq(marks_assign(m, &two, &what), 0);
    ck_assert_uint_eq(marks_of(m, &two, 1, endpoint_of(&two, "n1.example.com")), mark);
    ck_assert(marks_read(m, &two, gone, &agent, &endpoint));
    ck_assert_uint_eq(agent, 0);
    ck_assert_uint_eq(endpoint, POLICY_NONE);
    ck_assert_uint_eq(marks_retain(m, &two), 1);
    ck_assert(!marks_read(m, &two, gone, &agent, &endpoint));
    ck_assert_uint_eq(marks_of(m, &one, 0, endpoint_of(&one, "n0.example.com")), 0);
    /* Values that no agent can have. */
    ck_assert(!marks_read(m, &two, 0, &agent, &endpoint));
    ck_assert(!marks_read(m, &two, UINT32_MAX, &agent, &endpoint));
    ck_assert(!marks_read(m, &two, mark & MARKS_ENDPOINT_MAX, &agent, &endpoint));
    ck_assert(!marks_read(m, &two, mark & ~MARKS_ENDPOINT_MAX, &agent, &endpoint));
    policy_drop(&one);
    policy_drop(&two);
    marks_free(m);
    ck_assert_ptr_null(marks_free(NULL));
}
END_TEST

START_TEST(file_keeps_them) {
    struct marks *m = marks_new(), *again = marks_new();
    struct policy p = policy_of(2, 0, 3), more = policy_of(2, 0, 4);
    const char *what;
    uint32_t agent, endpoint;
    ck_assert_int_eq(marks_load(again, state), -ENOENT);
    ck_assert_int_eq(marks_assign(m, &p, &what), 0);
    ck_assert_int_eq(marks_save(m, state), 0);
    ck_assert_int_eq(marks_load(again, state), 0);
    for (uint32_t a = 0; a < 2; a++) {
        for (uint32_t e = 0; e < 3; e++) {
            uint32_t mark = marks_of(m, &p, a, e);
            ck_assert_uint_eq(marks_of(again, &p, a, e), mark);
            ck_assert(marks_read(again, &p, mark, &agent, &endpoint)); /* known, not fresh */
            ck_assert_uint_eq(agent, a);
            ck_assert_uint_eq(endpoint, e);
        }
    }
    /* A number the file does not have is fresh: the kernel's use of it is somebody else's. */
    ck_assert_int_eq(marks_assign(again, &more, &what), 0);
    uint32_t fresh = marks_of(again, &more, 0, endpoint_of(&more, "n3.example.com"));
    ck_assert_uint_ne(fresh, 0);
    ck_assert(!marks_read(again, &more, fresh, &agent, &endpoint));
    policy_drop(&p);
    policy_drop(&more);
    marks_free(m);
    marks_free(again);
}
END_TEST

/* Every file that differs from one we wrote, by length or by a bit, is refused whole. */
START_TEST(torn_files) {
    struct marks *m = marks_new();
    struct policy p = policy_of(2, 0, 3);
    const char *what;
    char path[128];
    uint8_t bytes[1024];
    ck_assert_int_eq(marks_assign(m, &p, &what), 0);
    ck_assert_int_eq(marks_save(m, state), 0);
    snprintf(path, sizeof path, "%s/state/marks", folder);
    FILE *f = fopen(path, "r");
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    ck_assert_uint_gt(size, 100);
    for (size_t i = 0; i <= size; i++) { /* i == size: one byte more */
        struct marks *bad = marks_new();
        bytes[size] = 0;
        write_file("state/marks", (const char *)bytes, i == size ? size + 1 : i);
        ck_assert_int_eq(marks_load(bad, state), -EBADMSG);
        ck_assert_uint_eq(marks_of(bad, &p, 0, 0), 0);
        if (i < size) {
            bytes[i] ^= 0x40;
            write_file("state/marks", (const char *)bytes, size);
            ck_assert_int_eq(marks_load(bad, state), -EBADMSG);
            bytes[i] ^= 0x40;
        }
        marks_free(bad);
    }
    /* No file at all: a folder, a link, a pipe. */
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(marks_load(m, state), -EBADMSG);
    ck_assert_int_eq(marks_save(m, state), -EISDIR);
    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_int_eq(symlink("/etc/passwd", path), 0);
    ck_assert_int_eq(marks_load(m, state), -ELOOP);
    ck_assert_int_eq(marks_save(m, state), 0); /* replaces the link, not what it leads to */
    struct stat st;
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert(S_ISREG(st.st_mode));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(marks_load(m, state), -EBADMSG); /* and does not hang */
    policy_drop(&p);
    marks_free(m);
}
END_TEST

/* A number that was given up is given out again only when the file no longer has it. */
START_TEST(reuse_waits_for_the_file) {
    struct marks *m = marks_new();
    const unsigned many = MARKS_SUBJECT_MAX;
    const char *what = NULL;
    struct policy full = policy_of(many, 0, 1);
    ck_assert_int_eq(marks_assign(m, &full, &what), 0);
    marks_settle(m);
    /* The same agents under other names do not fit beside them. */
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fprintf(f, "agents: [ { agent: other, sources: [10.99.0.1], tools: [t] } ]\n");
    fclose(f);
    struct policy few = policy_of(1, 0, 1);
    policy_drop(&few);
    write_file("policy/agents.yaml", text, size);
    free(text);
    char path[128];
    snprintf(path, sizeof path, "%s/policy", folder);
    const struct load_source source = {.directory = path,
                                       .public_suffix_list = "conf/public_suffix_list.dat"};
    struct load_result r;
    ck_assert_int_eq(load_policy(&source, stderr, &r), 0);
    ck_assert_int_eq(policy_open(&few, r.image, r.size), 0);
    ck_assert_int_eq(marks_assign(m, &few, &what), -ENOSPC);
    ck_assert_str_eq(what, "agents");
    ck_assert_uint_eq(marks_of(m, &few, 0, 0), 0);
    ck_assert_uint_eq(marks_retain(m, &few), many);
    ck_assert_int_eq(marks_assign(m, &few, &what), -ENOSPC); /* the file may still have them */
    ck_assert_int_eq(marks_save(m, -1), -EBADF);
    ck_assert_int_eq(marks_assign(m, &few, &what), -ENOSPC);
    ck_assert_int_eq(marks_save(m, state), 0);
    ck_assert_int_eq(marks_assign(m, &few, &what), 0);
    ck_assert_uint_ne(marks_of(m, &few, 0, 0), 0);
    policy_drop(&full);
    policy_drop(&few);
    marks_free(m);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("marks");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, numbers_last);
    tcase_add_test(t, file_keeps_them);
    tcase_add_test(t, torn_files);
    tcase_add_test(t, reuse_waits_for_the_file);
    Suite *s = suite_create("marks");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
