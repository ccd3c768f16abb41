/* log_test.c: `tidegate log tail`: the last records, filters, hostile lines, following over
 * rotations.
 */
#include "tests/unit/recorder_setup.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "gateway/recorder/format.h"
#include "gateway/recorder/store.h"
#include "tools/tidegate/log.h"
#include "tools/tidegate/log_files.h"

static struct images images;
static struct record record;

struct log_writer {
    struct place place;
    struct store store;
    struct clock_fake fake;
    struct clock clock;
    uint64_t sequence;
};

static void writer_make(struct log_writer *w) {
    memset(w, 0, sizeof *w);
    w->place = place_make();
    w->fake = (struct clock_fake){.monotonic = 1, .realtime = TEST_TIME};
    w->clock = clock_fake_of(&w->fake);
    store_init(&w->store, w->place.fd, &w->clock);
    ck_assert_int_eq(store_open(&w->store, NULL, 0), 0);
}

static void writer_remove(struct log_writer *w) {
    store_close(&w->store);
    place_remove(&w->place);
}

static void writer_put(struct log_writer *w) {
    char text[4096];
    struct buf out = buf_over(text, sizeof text);
    size_t done;
    ck_assert_int_gt(record_write(&record, &out), 0);
    ck_assert_int_eq(store_append(&w->store, text, out.used, &done), 0);
}

static void put_query(struct log_writer *w, const char *name, uint32_t reason) {
    struct msg_query q = {0};
    struct msg_query_item item = {.kind = 1, .ttl = 30, .remote = address("203.0.113.7")};
    query_fill(&q, 1, name);
    q.reason = reason;
    if (reason == REASON_ALLOWED) q.rcode = RC_NOERROR;
    format_query(&record, &images, ++w->sequence, &q, &item, reason == REASON_ALLOWED);
    writer_put(w);
}

static void put_denial(struct log_writer *w) {
    struct denial d = {.reason = REASON_NO_OPENING, .interface = "eth1", .port = 25, .protocol = 6,
                       .has_protocol = 1, .has_ports = 1, .count = 9, .first = TEST_TIME,
                       .last = TEST_TIME};
    d.source = address("10.77.1.17");
    d.remote = address("2001:db8::7");
    format_denial(&record, &images, ++w->sequence, &d);
    writer_put(w);
}

/* ---- running it ---------------------------------------------------------------------------- */

struct run {
    pid_t pid;
    int out, error;
};

#define RUN_ARGUMENTS 16

static struct run run_start(const struct log_writer *w, const char *const *more) {
    int out[2], error[2];
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(error, O_CLOEXEC), 0);
    ck_assert_int_ge(fcntl(out[1], F_SETPIPE_SZ, 1 << 20), 0); /* it is read at the end only */
    fflush(NULL);
    struct run r = {.pid = fork(), .out = out[0], .error = error[0]};
    ck_assert_int_ge(r.pid, 0);
    if (r.pid == 0) {
        char *arguments[RUN_ARGUMENTS + 1] = {(char[]){"log"}, (char[]){"tail"}, (char[]){"-d"},
                                              strdup(w->place.path)};
        int count = 4;
        while (*more != NULL && count < RUN_ARGUMENTS) arguments[count++] = strdup(*more++);
        signal(SIGTERM, SIG_DFL); /* Check's handler would pass it on to the whole group */
        dup2(out[1], 1);
        dup2(error[1], 2);
        close(out[0]); /* else it would be its own reader */
        close(error[0]);
        int status = log_main(count, arguments, NULL);
        fflush(NULL);
        _exit(status);
    }
    close(out[1]);
    close(error[1]);
    return r;
}

/* What comes up to the end of the line that holds `last`. */
static char *read_until(int fd, const char *last) {
    static char text[1 << 20];
    size_t size = 0;
    struct pollfd more = {.fd = fd, .events = POLLIN};
    for (const char *found = NULL; found == NULL || strchr(found, '\n') == NULL;) {
        ck_assert_msg(poll(&more, 1, 20000) == 1, "%s does not come", last);
        ssize_t n = read(fd, text + size, sizeof text - 1 - size);
        ck_assert_int_gt(n, 0);
        size += (size_t)n;
        text[size] = '\0';
        found = strstr(text, last);
    }
    return text;
}

static char *read_all(int fd) {
    static char text[2][1 << 20];
    static unsigned which;
    char *to = text[which++ % 2];
    size_t size = 0;
    for (ssize_t n; (n = read(fd, to + size, sizeof text[0] - 1 - size)) > 0;) size += (size_t)n;
    to[size] = '\0';
    close(fd);
    return to;
}

/* Runs to the end. Standard output and standard error stay valid until the next run. */
static int run_all(const struct log_writer *w, const char **ret_out, const char **ret_error,
                   const char *const *more) {
    struct run r = run_start(w, more);
    *ret_out = read_all(r.out);
    *ret_error = read_all(r.error);
    int status;
    ck_assert_int_eq(waitpid(r.pid, &status, 0), r.pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define RUN(w, ...) run_all(w, &out, &error, (const char *const[]){__VA_ARGS__, NULL})

static unsigned lines_of(const char *text) {
    unsigned n = 0;
    for (; *text != '\0'; text++) n += *text == '\n';
    return n;
}

/* ---- tests --------------------------------------------------------------------------------- */

START_TEST(last_records) {
    struct log_writer w;
    const char *out, *error;
    char name[32];
    writer_make(&w);
    for (unsigned i = 1; i <= 30; i++) {
        snprintf(name, sizeof name, "n%u.example", i);
        put_query(&w, name, i % 3 == 0 ? REASON_ALLOWED : REASON_NOT_LISTED);
    }
    ck_assert_int_eq(RUN(&w, "-n", "10"), 0);
    ck_assert_uint_eq(lines_of(out), 10);
    ck_assert_ptr_null(strstr(out, "n20.example"));
    const char *first = strstr(out, "n21.example"), *last = strstr(out, "n30.example");
    ck_assert(first != NULL && last > first);
    ck_assert_ptr_eq(strstr(out, "2026-11-30 13:37:00.123  "), out);
    ck_assert_ptr_nonnull(strstr(out, "A n30.example = 203.0.113.7"));
    ck_assert_ptr_nonnull(strstr(out, "A n29.example NXDOMAIN"));
    ck_assert_ptr_nonnull(strstr(out, "not-listed"));
    ck_assert_int_eq(RUN(&w, "-n", "all"), 0);
    ck_assert_uint_eq(lines_of(out), 30);
    ck_assert_int_eq(RUN(&w, "-n", "0"), 0);
    ck_assert_uint_eq(lines_of(out), 0);
    ck_assert_int_eq(RUN(&w, "--json", "-n", "2"), 0);
    json_decref(record_check(out, (size_t)(strchr(out, '\n') - out)));
    writer_remove(&w);
}
END_TEST

START_TEST(filters) {
    struct log_writer w;
    const char *out, *error;
    writer_make(&w);
    for (unsigned i = 1; i <= 20; i++) {
        put_query(&w, i % 2 ? "a.one.example" : "b.two.example", i % 4 ? REASON_NOT_LISTED : REASON_ALLOWED);
        put_denial(&w);
    }
    ck_assert_int_eq(RUN(&w, "--kind", "denied-packet", "-n", "100"), 0);
    ck_assert_uint_eq(lines_of(out), 20);
    ck_assert_ptr_nonnull(strstr(out, "tcp [2001:db8::7]:25 x9"));
    ck_assert_int_eq(RUN(&w, "--decision", "allow", "-n", "100"), 0);
    ck_assert_uint_eq(lines_of(out), 5);
    ck_assert_int_eq(RUN(&w, "--name", "*.ONE.example", "-n", "3"), 0);
    ck_assert_uint_eq(lines_of(out), 3);
    ck_assert_ptr_null(strstr(out, "two"));
    ck_assert_int_eq(RUN(&w, "--name", "b.two.example", "--decision", "deny", "-n", "100"), 0);
    ck_assert_uint_eq(lines_of(out), 5);
    ck_assert_int_eq(RUN(&w, "--agent", "nobody"), 0);
    ck_assert_uint_eq(lines_of(out), 0);
    writer_remove(&w);
}
END_TEST

START_TEST(over_rotated_files) {
    struct log_writer w;
    const char *out, *error;
    char name[32];
    writer_make(&w);
    w.store.segment_bytes = 3000;
    for (unsigned i = 1; i <= 100; i++) {
        snprintf(name, sizeof name, "n%03u.example", i);
        put_query(&w, name, REASON_NOT_LISTED);
    }
    ck_assert_int_eq(RUN(&w, "-n", "60"), 0);
    ck_assert_uint_eq(lines_of(out), 60);
    const char *at = out;
    for (unsigned i = 41; i <= 100; i++) { /* in order */
        snprintf(name, sizeof name, "n%03u.example", i);
        at = strstr(at, name);
        ck_assert_ptr_nonnull(at);
    }
    unlinkat(w.place.fd, STORE_FILE, 0); /* just rotated: there are only rotated ones */
    ck_assert_int_eq(RUN(&w, "-n", "1"), 0);
    ck_assert_uint_eq(lines_of(out), 1);
    writer_remove(&w);
}
END_TEST

START_TEST(lines_that_are_no_records) {
    struct log_writer w;
    const char *out, *error;
    writer_make(&w);
    put_query(&w, "a.example", REASON_NOT_LISTED);
    file_put(w.place.path, STORE_FILE, "\x1b[2Jgarbage\n[1,2]\n\n{\"kind\":7}\n");
    file_put(w.place.path, STORE_FILE,
             "{\"kind\":\"query\",\"time\":[],\"name\":\"\\u001b[31mred\\u202e\",\"port\":\"x\"}\n");
    file_put(w.place.path, STORE_FILE, "{\"kind\":\"query\",\"time\":\"unfinis");
    ck_assert_int_eq(RUN(&w, "-n", "10"), 1);
    ck_assert_uint_eq(lines_of(out), 2);
    ck_assert_ptr_null(strchr(out, '\x1b'));
    ck_assert_ptr_null(strchr(error, '\x1b'));
    ck_assert_uint_eq(lines_of(error), 3);
    ck_assert_ptr_nonnull(strstr(error, "tidegate.jsonl: not a record, skipped"));
    writer_remove(&w);
}
END_TEST

/* Every size of file around the block it is read by: each line is offered once, backwards. */
struct offered {
    unsigned next;
};

static bool offer(void *ctx, const char *file, const char *line, size_t size) {
    struct offered *o = ctx;
    unsigned number = 0;
    char copy[32] = "";
    (void)file;
    ck_assert_uint_lt(size, sizeof copy * 8);
    memcpy(copy, line, size < 31 ? size : 31);
    ck_assert_int_eq(sscanf(copy, "%u ", &number), 1);
    ck_assert_uint_eq(number, --o->next);
    return true;
}

START_TEST(backwards_over_blocks) {
    for (unsigned width = 3; width < 90; width += 7) {
        struct place p = place_make();
        struct log_files f;
        struct offered o = {.next = 5000};
        char path[128];
        snprintf(path, sizeof path, "%s/" LOG_CURRENT, p.path);
        FILE *out = fopen(path, "we");
        for (unsigned i = 0; i < 5000; i++) fprintf(out, "%u %*s\n", i, (int)width, "");
        fputs("torn", out);
        fclose(out);
        ck_assert_int_eq(log_files_open(&f, p.path), 0);
        ck_assert_int_eq(log_files_last(&f, SIZE_MAX, offer, &o), 0);
        ck_assert_uint_eq(o.next, 0);
        log_files_close(&f);
        place_remove(&p);
    }
}
END_TEST

START_TEST(usage) {
    struct log_writer w;
    const char *out, *error;
    writer_make(&w);
    ck_assert_int_eq(RUN(&w, "--kind", "nonsense"), 2);
    ck_assert_int_eq(RUN(&w, "--decision", "maybe"), 2);
    ck_assert_int_eq(RUN(&w, "-n", "-3"), 2);
    ck_assert_int_eq(RUN(&w, "-n", "3x"), 2);
    ck_assert_int_eq(RUN(&w, "--frobnicate"), 2);
    ck_assert_int_eq(RUN(&w, "extra"), 2);
    ck_assert_int_eq(RUN(&w, "-c", "/x"), 2);
    ck_assert_uint_gt(strlen(error), 0);
    ck_assert_int_eq(RUN(&w, "--help"), 0);
    ck_assert_ptr_nonnull(strstr(out, "usage: tidegate log tail"));
    writer_remove(&w);
}
END_TEST

START_TEST(no_log) {
    struct log_writer w;
    const char *out, *error;
    writer_make(&w);
    unlinkat(w.place.fd, STORE_FILE, 0);
    ck_assert_int_eq(RUN(&w, "--json"), 1);
    ck_assert_ptr_nonnull(strstr(error, "there is no log here"));
    writer_remove(&w);
    ck_assert_int_eq(RUN(&w, "--json"), 1);
}
END_TEST

/* A writer that rotates all the time, also twice between two looks: nothing is missed or doubled. */
START_TEST(follows_over_rotations) {
    struct log_writer w;
    char name[32];
    writer_make(&w);
    w.store.segment_bytes = 2500;
    for (unsigned i = 0; i < 10; i++) put_query(&w, "before.example", REASON_NOT_LISTED);
    struct run r = run_start(&w, (const char *const[]){"-f", "-n", "0", "--json", NULL});
    struct pollfd begun = {.fd = r.out, .events = POLLIN};
    unsigned waits = 0;
    do put_query(&w, "ready.example", REASON_NOT_LISTED); /* until it has begun to follow */
    while (poll(&begun, 1, 100) == 0 && ++waits < 200);
    ck_assert_int_eq(begun.revents, POLLIN);
    for (unsigned i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "n%u.example", i);
        put_query(&w, name, REASON_NOT_LISTED);
        usleep(i < 200 ? 5000 : 0);
    }
    char *out = read_until(r.out, "\"n299.example\"");
    kill(r.pid, SIGTERM);
    ck_assert_int_eq(waitpid(r.pid, NULL, 0), r.pid);
    ck_assert_str_eq(read_all(r.out), "");
    ck_assert_str_eq(read_all(r.error), "");
    unsigned ready = 0;
    for (const char *at = out; (at = strstr(at, "\"ready.example\"")) != NULL; at++) ready++;
    ck_assert_uint_eq(lines_of(out), 300 + ready);
    for (unsigned i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "\"n%u.example\"", i);
        char *found = strstr(out, name);
        ck_assert_msg(found != NULL && (i == 0 || found > out), "%s is missing or not in order", name);
        out = found;
    }
    writer_remove(&w);
}
END_TEST

/* `log tail -f | head -1` ends when head has, although nothing more comes. */
START_TEST(follows_no_longer_than_it_is_read) {
    struct log_writer w;
    writer_make(&w);
    put_query(&w, "one.example", REASON_NOT_LISTED);
    struct run r = run_start(&w, (const char *const[]){"-f", NULL});
    read_until(r.out, "one.example");
    close(r.out);
    int status;
    ck_assert_int_eq(waitpid(r.pid, &status, 0), r.pid);
    close(r.error);
    writer_remove(&w);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("log");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, last_records);
    tcase_add_test(t, filters);
    tcase_add_test(t, over_rotated_files);
    tcase_add_test(t, lines_that_are_no_records);
    tcase_add_test(t, backwards_over_blocks);
    tcase_add_test(t, usage);
    tcase_add_test(t, no_log);
    tcase_add_test(t, follows_over_rotations);
    tcase_add_test(t, follows_no_longer_than_it_is_read);
    Suite *s = suite_create("log");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
