/* text_test.c: text of operators: UTF-8, what may be shown, which word was meant. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/policy/load/fault.h"
#include "gateway/policy/load/text.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

START_TEST(utf8) {
    static const struct { const char *bytes; size_t size; uint32_t point; } rows[] = {
        {"a", 1, 'a'},           {"\x7f", 1, 0x7f},       {"\xc2\x80", 2, 0x80},
        {"\xdf\xbf", 2, 0x7ff},  {"\xe0\xa0\x80", 3, 0x800}, {"\xef\xbf\xbf", 3, 0xffff},
        {"\xf0\x90\x80\x80", 4, 0x10000}, {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
        {"\x80", 0, 0},          {"\xc0\x80", 0, 0},      {"\xc1\xbf", 0, 0}, /* overlong */
        {"\xe0\x9f\xbf", 0, 0},  {"\xf0\x8f\xbf\xbf", 0, 0},
        {"\xed\xa0\x80", 0, 0},  {"\xed\xbf\xbf", 0, 0},  /* surrogates */
        {"\xf4\x90\x80\x80", 0, 0}, {"\xf5\x80\x80\x80", 0, 0}, {"\xff", 0, 0},
        {"\xe2\x82", 0, 0},      {"\xe2", 0, 0},          {"\xe2\x28\xa1", 0, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t point = 0;
        ck_assert_uint_eq(text_utf8(rows[i].bytes, &point), rows[i].size);
        ck_assert_uint_eq(point, rows[i].point);
    }
    static const uint32_t hidden[] = {0, 0x1b, 0x7f, 0x85, 0xa0, 0xad, 0x200b, 0x200f, 0x2028, 0x202e,
                                      0x2066, 0x61c, 0xfeff, 0xfff9, 0xe0001};
    for (size_t i = 0; i < COUNT(hidden); i++) ck_assert(!text_showable(hidden[i]));
    static const uint32_t plain[] = {' ', 'z', 0xe9, 0x430, 0x4e2d, 0x1f600};
    for (size_t i = 0; i < COUNT(plain); i++) ck_assert(text_showable(plain[i]));
}
END_TEST

START_TEST(showing) {
    ck_assert_str_eq(shown("plain").text, "plain");
    ck_assert_str_eq(shown("a\033[31mb\n").text, "a\\x1b[31mb\\x0a");
    ck_assert_str_eq(shown("b\xc3\xbc" "cher").text, "b\xc3\xbc" "cher");
    ck_assert_str_eq(shown("\xe2\x80\xae\xff").text, "\\xe2\\x80\\xae\\xff");
    char longest[300];
    memset(longest, '\001', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    ck_assert_uint_eq(strlen(shown(longest).text), 4 * 100 + 3);
}
END_TEST

START_TEST(distances) {
    static const struct { const char *a, *b; unsigned most, distance; } rows[] = {
        {"deny", "deny", 3, 0},     {"dney", "deny", 3, 1},      {"den", "deny", 3, 1},
        {"denyy", "deny", 3, 1},    {"dent", "deny", 3, 1},      {"", "deny", 3, 4},
        {"protcol", "protocol", 3, 1}, {"kitten", "sitting", 3, 3}, {"abc", "xyz", 2, 3},
        {"ab", "ba", 1, 1},         {"abcdef", "abcdefghij", 3, 4},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ck_assert_uint_eq(word_distance(rows[i].a, rows[i].b, rows[i].most), rows[i].distance);
        ck_assert_uint_eq(word_distance(rows[i].b, rows[i].a, rows[i].most), rows[i].distance);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text");
    TCase *c = tcase_create("text");
    tcase_add_test(c, utf8);
    tcase_add_test(c, showing);
    tcase_add_test(c, distances);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
