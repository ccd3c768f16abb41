/* name_test.c: domain names. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/addr.h"
#include "gateway/base/name.h"

static struct name parsed(const char *text) {
    struct name n;
    ck_assert_msg(name_from_text(text, &n) == 0, "%s does not parse", text);
    ck_assert_msg(name_valid(&n), "%s is not valid", text);
    return n;
}

/* `count` labels of `size` octets 'a', then text; NUL-terminated in a static buffer. */
static const char *labels(unsigned count, unsigned size, const char *text) {
    static char buffer[1200];
    size_t at = 0;
    for (unsigned i = 0; i < count; i++) {
        memset(buffer + at, 'a', size);
        at += size;
        buffer[at++] = '.';
    }
    memcpy(buffer + at, text, strlen(text) + 1);
    return buffer;
}

START_TEST(text_both_ways) {
    static const struct { const char *in, *out; } rows[] = {
        {".", "."},
        {"example.com", "example.com"},
        {"example.com.", "example.com"},
        {"WWW.Example.COM", "www.example.com"},
        {"a", "a"},
        {"_sip._tcp.example", "_sip._tcp.example"},
        {"a\\.b.example", "a\\.b.example"},
        {"a\\\\b.example", "a\\\\b.example"},
        {"a\\065b", "aab"}, /* escaped letters fold too: RFC 4343 section 4.1 */
        {"a\\032b", "a\\032b"},
        {"a\\ b", "a\\032b"},
        {"a\\\"b", "a\\034b"},
        {"a\"b", "a\\034b"},
        {"\\000\\255\\127", "\\000\\255\\127"},
        {"a\\@b", "a@b"},
        {"*.example", "*.example"},
        {"a;b(c)$", "a;b(c)$"},
    };
    char text[NAME_TEXT_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct name n = parsed(rows[i].in);
        ck_assert_int_eq(name_to_text(&n, text, sizeof text), (int)strlen(rows[i].out));
        ck_assert_str_eq(text, rows[i].out);
        struct name again = parsed(text);
        ck_assert(name_equal(&n, &again));
    }
}
END_TEST

START_TEST(text_refused) {
    static const char *const rows[] = {
        "",     "..",    ".a",     "a..b",   "a..",   "a b",    "a\tb",    "\xc3\xa4.example",
        "a\\",  "a\\1",  "a\\12",  "a\\1b3", "a\\12c", "a\\256", "a\\999", "a\x7f", "a\\\x7f",
        "a\\\x1f",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct name n = {.length = 7};
        ck_assert_msg(name_from_text(rows[i], &n) == -EINVAL, "\"%s\" parses", rows[i]);
        ck_assert_uint_eq(n.length, 7); /* untouched */
    }
}
END_TEST

START_TEST(text_lengths) {
    struct name n;
    ck_assert_int_eq(name_from_text(labels(1, 63, "x"), &n), 0);
    ck_assert_int_eq(name_from_text(labels(1, 64, "x"), &n), -EINVAL);
    /* 3 * 64 octets and a last label of 61 with its length octet and the root: 255. */
    char last[64];
    memset(last, 'b', sizeof last);
    last[61] = '\0';
    ck_assert_int_eq(name_from_text(labels(3, 63, last), &n), 0);
    ck_assert_uint_eq(n.length, 255);
    ck_assert(name_valid(&n));
    last[61] = '.', last[62] = '\0';
    ck_assert_int_eq(name_from_text(labels(3, 63, last), &n), 0);
    ck_assert_uint_eq(n.length, 255);
    last[61] = 'b';
    ck_assert_int_eq(name_from_text(labels(3, 63, last), &n), -EINVAL);
    last[62] = '.', last[63] = '\0'; /* a label of 62: 255 octets and no room for the root */
    ck_assert_int_eq(name_from_text(labels(3, 63, last), &n), -EINVAL);
    last[63] = '\0', last[62] = 'b';
    ck_assert_int_eq(name_from_text(labels(3, 63, last), &n), -EINVAL);
    /* 127 labels of one octet: 254 and the root. */
    ck_assert_int_eq(name_from_text(labels(127, 1, ""), &n), 0);
    ck_assert_uint_eq(name_labels(&n), NAME_LABELS_MAX);
    ck_assert_int_eq(name_from_text(labels(127, 1, "a"), &n), -EINVAL);
    ck_assert_int_eq(name_from_text(labels(128, 1, ""), &n), -EINVAL);
}
END_TEST

START_TEST(longest_text_fits) {
    struct name n = {.length = 255};
    size_t at = 0;
    while (at + 1 < 254) {
        uint8_t size = (uint8_t)(254 - at - 1 < 63 ? 254 - at - 1 : 63);
        n.wire[at] = size;
        memset(n.wire + at + 1, 0xff, size);
        at += 1 + (size_t)size;
    }
    ck_assert(name_valid(&n));
    char text[NAME_TEXT_MAX];
    int length = name_to_text(&n, text, sizeof text);
    ck_assert_int_eq(length, 250 * 4 + 3);
    ck_assert_int_eq(name_to_text(&n, text, (size_t)length + 1), length);
    ck_assert_int_eq(name_to_text(&n, text, (size_t)length), -ENOSPC);
    ck_assert_int_eq(name_to_text(&n, text, 0), -ENOSPC);
    struct name again = parsed(text);
    ck_assert(name_equal(&again, &n));
}
END_TEST

START_TEST(wire_taken) {
    static const uint8_t root[] = {0, 9}, mixed[] = "\3WwW\7eXample\0rest";
    struct name n;
    memset(&n, 0xee, sizeof n);
    ck_assert_int_eq(name_from_wire(root, sizeof root, &n), 1);
    ck_assert(name_valid(&n));
    memset(&n, 0xee, sizeof n);
    ck_assert_int_eq(name_from_wire(mixed, sizeof mixed, &n), 13);
    ck_assert(name_valid(&n));
    struct name want = parsed("www.example");
    ck_assert(name_equal(&n, &want));
    ck_assert_int_eq(memcmp(&n, &want, sizeof n), 0); /* padding as well */
}
END_TEST

START_TEST(wire_refused) {
    static const struct { const char *wire; size_t size; } rows[] = {
        {"", 0},
        {"\3www", 4},              /* no root */
        {"\3ww", 3},               /* label past the end */
        {"\3www\xc0\x0c", 6},      /* compression */
        {"\x40" "aaaa", 5},        /* extended label type, RFC 6891 section 5 */
        {"\x80" "aaaa", 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t *exact = malloc(rows[i].size); /* so that a read past the end is seen */
        if (rows[i].size > 0) memcpy(exact, rows[i].wire, rows[i].size);
        struct name n = {.length = 7};
        ck_assert_int_eq(name_from_wire(exact, rows[i].size, &n), -EBADMSG);
        ck_assert_uint_eq(n.length, 7);
        free(exact);
    }
    uint8_t wire[300];
    memset(wire, 1, sizeof wire); /* labels of one octet, without end */
    struct name n;
    ck_assert_int_eq(name_from_wire(wire, sizeof wire, &n), -EBADMSG);
    wire[254] = 0;
    ck_assert_int_eq(name_from_wire(wire, sizeof wire, &n), 255);
    wire[254] = 1, wire[256] = 0; /* 257 octets */
    ck_assert_int_eq(name_from_wire(wire, sizeof wire, &n), -EBADMSG);
}
END_TEST

START_TEST(validity) {
    struct name good = parsed("www.example"), n = good;
    n.length = 0;
    ck_assert(!name_valid(&n));
    n.length = (uint8_t)(good.length - 1); /* ends within the last label */
    ck_assert(!name_valid(&n));
    n.length = (uint8_t)(good.length + 1);
    ck_assert(!name_valid(&n));
    n = good, n.wire[1] = 'W';
    ck_assert(!name_valid(&n));
    n = good, n.wire[254] = 1; /* padding */
    ck_assert(!name_valid(&n));
    n = good, n.wire[0] = 64;
    ck_assert(!name_valid(&n));
    n = good, n.wire[0] = 63; /* past the end */
    ck_assert(!name_valid(&n));
    n = good, n.wire[0] = 2; /* labels no longer end at the root */
    ck_assert(!name_valid(&n));
    memset(&n, 1, sizeof n), n.length = 255; /* labels fill all 255 octets without a root */
    ck_assert(!name_valid(&n));
    ck_assert(name_valid(&good));
}
END_TEST

START_TEST(within) {
    static const struct { const char *name, *base; bool in; } rows[] = {
        {"example.com", "example.com", true},
        {"a.example.com", "example.com", true},
        {"a.b.example.com", "example.com", true},
        {"example.com", "a.example.com", false},
        {"badexample.com", "example.com", false},
        {"example.com.evil", "example.com", false},
        {"a\\.example.com", "example.com", false}, /* one label "a.example" */
        {"a.example.org", "example.com", false},
        {"example.com", ".", true},
        {".", ".", true},
        {".", "com", false},
        {"a\\007example.com", "example.com", false}, /* a label's octet looks like a length */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct name n = parsed(rows[i].name), base = parsed(rows[i].base);
        ck_assert_msg(name_within(&n, &base) == rows[i].in, "%s %s", rows[i].name, rows[i].base);
    }
}
END_TEST

START_TEST(equality_and_labels) {
    struct name a = parsed("a.b"), b = parsed("A.B."), c = parsed("a.c"), d = parsed("a\\.b");
    ck_assert(name_equal(&a, &b) && !name_equal(&a, &c) && !name_equal(&a, &d));
    struct name root = parsed(".");
    ck_assert(!name_equal(&a, &root));
    ck_assert_uint_eq(name_labels(&root), 0);
    ck_assert_uint_eq(name_labels(&a), 2);
    ck_assert_uint_eq(name_labels(&d), 1);
}
END_TEST

START_TEST(hosts) {
    static const struct { const char *name; bool host; } rows[] = {
        {"api-1.example.com", true}, {"_dmarc.example", true}, {"0.az", true},
        {"*.example", false},        {"a\\.b", false},         {"a@b", false},
        {".", false},                {"a{", false},            {"ok.b/c", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct name n = parsed(rows[i].name);
        ck_assert_msg(name_is_host(&n) == rows[i].host, "%s", rows[i].name);
    }
}
END_TEST

START_TEST(reverse) {
    static const struct { const char *name, *addr; } rows[] = {
        {"7.113.0.203.in-addr.arpa", "203.0.113.7"},
        {"255.255.255.255.IN-ADDR.arpa", "255.255.255.255"},
        {"0.0.0.0.in-addr.arpa", "0.0.0.0"},
        {"b.a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.B.D.0.1.0.0.2.ip6.arpa",
         "2001:db8::ab"},
        {"113.0.203.in-addr.arpa", NULL},
        {"1.7.113.0.203.in-addr.arpa", NULL},
        {"256.113.0.203.in-addr.arpa", NULL},
        {"07.113.0.203.in-addr.arpa", NULL},
        {"0007.113.0.203.in-addr.arpa", NULL},
        {"x.113.0.203.in-addr.arpa", NULL},
        {"1x.113.0.203.in-addr.arpa", NULL},
        {"7.113.0.203.in-addr.example", NULL},
        {"in-addr.arpa", NULL},
        {"8.b.d.0.1.0.0.2.ip6.arpa", NULL},
        {"bb.a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", NULL},
        {"g.a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", NULL},
        {"b.-.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", NULL},
        {"b.aa.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct name n = parsed(rows[i].name);
        struct addr a = {.family = 9}, want;
        int result = name_to_reverse_addr(&n, &a);
        if (rows[i].addr) {
            ck_assert_int_eq(addr_parse(rows[i].addr, &want), 0);
            ck_assert_msg(result == 0 && addr_equal(&a, &want), "%s", rows[i].name);
        } else {
            ck_assert_msg(result == -EINVAL && a.family == 9, "%s", rows[i].name);
        }
    }
}
END_TEST

int main(void) {
    TCase *t = tcase_create("name");
    tcase_add_test(t, text_both_ways);
    tcase_add_test(t, text_refused);
    tcase_add_test(t, text_lengths);
    tcase_add_test(t, longest_text_fits);
    tcase_add_test(t, wire_taken);
    tcase_add_test(t, wire_refused);
    tcase_add_test(t, validity);
    tcase_add_test(t, within);
    tcase_add_test(t, equality_and_labels);
    tcase_add_test(t, hosts);
    tcase_add_test(t, reverse);
    Suite *s = suite_create("name");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
