/* base_test.c: reasons, time, randomness, arena, buffer, log. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/base/arena.h"
#include "gateway/base/buf.h"
#include "gateway/base/clock.h"
#include "gateway/base/log.h"
#include "gateway/base/reason.h"

/* ---- reasons ------------------------------------------------------------------------------- */

START_TEST(reasons_hold_together) {
    for (uint32_t r = REASON_BASE + 1; r < REASON_END; r++) {
        ck_assert(reason_valid(r));
        ck_assert_uint_ge(r, 1000); /* above every errno */
        const char *tag = reason_tag(r);
        ck_assert_uint_eq(strspn(tag, "abcdefghijklmnopqrstuvwxyz-6"), strlen(tag));
        ck_assert_uint_gt(strlen(reason_text(r)), 0);
        for (uint32_t other = REASON_BASE + 1; other < r; other++)
            ck_assert_str_ne(reason_tag(other), tag);
    }
}
END_TEST

START_TEST(reasons_of_the_design) {
    ck_assert_str_eq(reason_tag(REASON_NOT_LISTED), "not-listed");
    ck_assert_int_eq(reason_answer(REASON_NOT_LISTED), ANSWER_DENY);
    ck_assert_int_eq(reason_ede(REASON_NOT_LISTED), 15);
    ck_assert_int_eq(reason_answer(REASON_UNKNOWN_CLIENT), ANSWER_REFUSED);
    ck_assert_int_eq(reason_ede(REASON_UNKNOWN_CLIENT), 18);
    ck_assert_int_eq(reason_answer(REASON_OPEN_LATE), ANSWER_FAIL);
    ck_assert_int_eq(reason_ede(REASON_UPSTREAM_TIMEOUT), 22);
    ck_assert_int_eq(reason_ede(REASON_UPSTREAM_NETWORK), 23);
    ck_assert_int_eq(reason_answer(REASON_TYPE_BYPASS), ANSWER_NODATA);
    ck_assert_int_eq(reason_answer(REASON_SPOOFED), ANSWER_NONE);
    ck_assert_int_eq(reason_answer(REASON_ALLOWED), ANSWER_OK);
}
END_TEST

START_TEST(other_values_are_no_reason) {
    static const uint32_t rows[] = {0, REASON_BASE, REASON_END, UINT32_MAX};
    for (size_t i = 0; i < 4; i++) {
        ck_assert(!reason_valid(rows[i]));
        ck_assert_str_eq(reason_tag(rows[i]), "unknown");
        ck_assert_str_eq(reason_text(rows[i]), "not a reason of this version");
        ck_assert_int_eq(reason_answer(rows[i]), ANSWER_FAIL);
        ck_assert_int_eq(reason_ede(rows[i]), EDE_NONE);
    }
}
END_TEST

/* ---- time and randomness ------------------------------------------------------------------- */

START_TEST(time_text) {
    static const struct { uint64_t seconds; const char *text; } rows[] = {
        {0, "1970-01-01T00:00:00.000007Z"},
        {951782399, "2000-02-28T23:59:59.000007Z"},
        {951782400, "2000-02-29T00:00:00.000007Z"},
        {951868800, "2000-03-01T00:00:00.000007Z"},
        {1709164800, "2024-02-29T00:00:00.000007Z"},
        {1735689599, "2024-12-31T23:59:59.000007Z"},
        {1735689600, "2025-01-01T00:00:00.000007Z"},
        {1796045820, "2026-11-30T13:37:00.000007Z"},
        {4107542399, "2100-02-28T23:59:59.000007Z"},
        {4107542400, "2100-03-01T00:00:00.000007Z"}, /* 2100 is no leap year */
        {253402300799, "9999-12-31T23:59:59.000007Z"},
        {253402300800, "010000-01-01T00:00:00.000007Z"},
    };
    char text[TIME_TEXT_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_str_eq(time_format(rows[i].seconds * USEC_PER_SEC + 7, text), rows[i].text);
    ck_assert_str_eq(time_format(UINT64_MAX, text), "586524-01-19T08:01:49.551615Z");
}
END_TEST

/* Every day of 800 years follows the one before, as a calendar has it. */
START_TEST(time_text_of_every_day) {
    static const unsigned lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned year = 1970, month = 1, day = 1;
    for (uint64_t days = 0; year < 2770; days++) {
        char text[TIME_TEXT_MAX], want[48];
        struct buf b = buf_over(want, sizeof want);
        buf_format(&b, "%04u-%02u-%02uT", year, month, day);
        ck_assert_msg(memcmp(time_format(days * 86400 * USEC_PER_SEC, text), want, b.used) == 0,
                      "%s is not %s", text, want);
        bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        if (++day > lengths[month - 1] + (month == 2 && leap)) day = 1, month++;
        if (month > 12) month = 1, year++;
    }
}
END_TEST

START_TEST(clocks) {
    usec_t a = clock_now(&clock_system), b = clock_now(&clock_system);
    ck_assert_uint_gt(a, 0);
    ck_assert_uint_ge(b, a);
    ck_assert_uint_gt(clock_realtime(&clock_system), UINT64_C(1700000000) * USEC_PER_SEC);

    struct clock_fake f = {.monotonic = 5, .realtime = 6};
    struct clock c = clock_fake_of(&f);
    ck_assert_uint_eq(clock_now(&c), 5);
    ck_assert_uint_eq(clock_realtime(&c), 6);
    f.monotonic += USEC_PER_MSEC;
    ck_assert_uint_eq(clock_now(&c), 1005);
}
END_TEST

START_TEST(randomness) {
    uint8_t a[512] = {0}, b[512] = {0}; /* more than one getrandom() gives without interruption */
    random_bytes(a, sizeof a);
    random_bytes(b, sizeof b);
    ck_assert_int_ne(memcmp(a, b, sizeof a), 0);
    random_bytes(a, 0);

    unsigned seen[3] = {0};
    for (unsigned i = 0; i < 3000; i++) {
        ck_assert_uint_eq(random_below(1), 0);
        uint32_t value = random_below(3);
        ck_assert_uint_lt(value, 3);
        seen[value]++;
        ck_assert_uint_lt(random_below(0x80000001u), 0x80000001u); /* half of all draws are unfair */
    }
    for (unsigned i = 0; i < 3; i++) ck_assert_uint_gt(seen[i], 800); /* 1000 expected, 7 sigma */
}
END_TEST

/* ---- arena --------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *at, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (at[i] != 0) return false;
    return true;
}

START_TEST(arena_gives_and_forgets) {
    struct arena *a = arena_new(100000);
    ck_assert_ptr_nonnull(a);
    for (unsigned round = 0; round < 3; round++) {
        uint8_t *before = NULL;
        for (size_t size = 1; size < 300; size += 7) { /* over several chunks */
            uint8_t *at = arena_alloc(a, size);
            ck_assert_ptr_nonnull(at);
            ck_assert_uint_eq((uintptr_t)at % _Alignof(max_align_t), 0);
            ck_assert(is_zero(at, size)); /* also where an earlier round wrote */
            ck_assert_ptr_ne(at, before);
            memset(at, 0xaa, size);
            before = at;
        }
        uint8_t *large = arena_alloc(a, 50000); /* more than a chunk */
        ck_assert_ptr_nonnull(large);
        memset(large, 0xbb, 50000);
        arena_reset(a);
    }
    ck_assert_ptr_null(arena_free(a));
    ck_assert_ptr_null(arena_free(NULL));
}
END_TEST

START_TEST(arena_is_bounded) {
    struct arena *a = arena_new(64);
    ck_assert_ptr_null(arena_alloc(a, 65));
    ck_assert_ptr_null(arena_alloc(a, SIZE_MAX));
    ck_assert_ptr_nonnull(arena_alloc(a, 40));
    ck_assert_ptr_null(arena_alloc(a, 17));
    ck_assert_ptr_nonnull(arena_alloc(a, 16));
    ck_assert_ptr_null(arena_alloc(a, 1));
    arena_reset(a);
    ck_assert_ptr_nonnull(arena_alloc(a, 64));
    arena_free(a);

    a = arena_new(SIZE_MAX); /* rounding up must not wrap */
    ck_assert_ptr_null(arena_alloc(a, SIZE_MAX - 3));
    arena_free(a);
    a = arena_new(10); /* not a multiple of the alignment */
    ck_assert_ptr_null(arena_alloc(a, 10));
    arena_free(a);
}
END_TEST

/* ---- buffer -------------------------------------------------------------------------------- */

START_TEST(buffer_writes) {
    char text[64];
    struct buf b = buf_over(text, sizeof text);
    buf_put_text(&b, "a");
    buf_put_char(&b, '=');
    buf_put_u64(&b, 0);
    buf_put_char(&b, ' ');
    buf_put_u64(&b, UINT64_MAX);
    buf_format(&b, " %s%d", "x", -5);
    buf_put(&b, NULL, 0);
    static const char want[] = "a=0 18446744073709551615 x-5";
    ck_assert(!b.overflow);
    ck_assert_uint_eq(b.used, strlen(want));
    ck_assert_mem_eq(text, want, strlen(want));
}
END_TEST

START_TEST(buffer_overflows) {
    uint8_t text[8];
    memset(text, '#', sizeof text);
    struct buf b = buf_over(text, 4);
    buf_put_text(&b, "abc");
    buf_put_text(&b, "de"); /* does not fit: not even a part of it */
    ck_assert(b.overflow);
    buf_put_char(&b, 'x'); /* would fit, yet nothing more is written */
    buf_format(&b, "x");
    buf_put_u64(&b, 1);
    buf_put_json(&b, "x", 1);
    ck_assert_uint_eq(b.used, 3);
    ck_assert_mem_eq(text, "abc#####", 8);

    b = buf_over(text, 4);
    buf_put_text(&b, "abcd"); /* fits exactly */
    ck_assert(!b.overflow);
    buf_put(&b, "", 0);
    ck_assert(!b.overflow);

    b = buf_over(text, 4);
    buf_format(&b, "%s", "abc");
    ck_assert(!b.overflow && b.used == 3);
    buf_format(&b, "%s", "d");
    ck_assert(b.overflow && b.used == 3);
}
END_TEST

START_TEST(buffer_json) {
    static const struct { const char *in; size_t size; const char *out; } rows[] = {
        {"", 0, "\"\""},
        {"plain text/", 11, "\"plain text/\""},
        {"a\"b\\c", 5, "\"a\\\"b\\\\c\""},
        {"\0\n\x1b[31m\x7f", 8, "\"\\u0000\\u000a\\u001b[31m\\u007f\""},
        {"\xc3\xa4", 2, "\"\\u00c3\\u00a4\""},
        {"\"", 1, "\"\\\"\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        struct buf b = buf_over(text, sizeof text);
        buf_put_json(&b, rows[i].in, rows[i].size);
        ck_assert_uint_eq(b.used, strlen(rows[i].out));
        ck_assert_mem_eq(text, rows[i].out, b.used);
    }
}
END_TEST

/* ---- log ----------------------------------------------------------------------------------- */

/* What log_line() writes with standard error on a pipe. */
static const char *logged(int debug, enum log_level level, const char *text) {
    static char line[2048];
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    int saved = dup(STDERR_FILENO);
    dup2(fds[1], STDERR_FILENO);
    close(fds[1]);
    log_start("core", debug);
    errno = ENOENT;
    log_line(level, "%s", text);
    ck_assert_int_eq(errno, ENOENT);
    dup2(saved, STDERR_FILENO);
    close(saved);
    ssize_t size = read(fds[0], line, sizeof line - 1);
    close(fds[0]);
    ck_assert_int_ge(size, 0);
    line[size] = '\0';
    return line;
}

START_TEST(log_lines) {
    ck_assert_str_eq(logged(0, LOG_WARN, "late"), "<4>core: late\n");
    ck_assert_str_eq(logged(0, LOG_DEBUG, "late"), "");
    ck_assert_str_eq(logged(1, LOG_DEBUG, "late"), "<7>core: late\n");
    ck_assert_str_eq(logged(0, LOG_ERROR, "a\nb\x1b[1m\xff\x7f"),
                     "<3>core: a\\x0ab\\x1b[1m\\xff\\x7f\n");
    char long_text[1500];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    const char *line = logged(0, LOG_NOTE, long_text);
    ck_assert_uint_le(strlen(line), 1000);
    ck_assert_uint_gt(strlen(line), 980);
    ck_assert_int_eq(line[strlen(line) - 1], '\n');
    memset(long_text, '\n', sizeof long_text - 1); /* each becomes four bytes */
    line = logged(0, LOG_NOTE, long_text);
    ck_assert_uint_le(strlen(line), 1000);
    ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("base");
    tcase_add_test(t, reasons_hold_together);
    tcase_add_test(t, reasons_of_the_design);
    tcase_add_test(t, other_values_are_no_reason);
    tcase_add_test(t, time_text);
    tcase_add_test(t, time_text_of_every_day);
    tcase_add_test(t, clocks);
    tcase_add_test(t, randomness);
    tcase_add_test(t, arena_gives_and_forgets);
    tcase_add_test(t, arena_is_bounded);
    tcase_add_test(t, buffer_writes);
    tcase_add_test(t, buffer_overflows);
    tcase_add_test(t, buffer_json);
    tcase_add_test(t, log_lines);
    Suite *s = suite_create("base");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
