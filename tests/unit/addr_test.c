/* addr_test.c: addresses, prefixes and special ranges. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/addr.h"
#include "gateway/base/clock.h"

static struct addr parsed(const char *text) {
    struct addr a;
    ck_assert_msg(addr_parse(text, &a) == 0, "%s does not parse", text);
    ck_assert(addr_valid(&a));
    return a;
}

static struct prefix prefix_parsed(const char *text) {
    struct prefix p;
    ck_assert_msg(prefix_parse(text, &p) == 0, "%s does not parse", text);
    ck_assert(prefix_valid(&p));
    return p;
}

START_TEST(parse_and_format) {
    static const struct { const char *in, *out; } rows[] = {
        {"0.0.0.0", "0.0.0.0"},
        {"203.0.113.7", "203.0.113.7"},
        {"255.255.255.255", "255.255.255.255"},
        {"::", "::"},
        {"2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"}, /* RFC 5952 section 4.2.3: first of two */
        {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"}, /* 4.2.2: no :: for one field */
        {"fe80:0:0:0:0:0:0:1", "fe80::1"},
        {"::ffff:192.0.2.1", "::ffff:192.0.2.1"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
    };
    char text[ADDR_TEXT_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct addr a = parsed(rows[i].in);
        ck_assert_str_eq(addr_format(&a, text), rows[i].out);
        ck_assert_uint_eq(a.family, strchr(rows[i].in, ':') ? 6 : 4);
    }
    struct addr none = {0};
    ck_assert_str_eq(addr_format(&none, text), "-");
}
END_TEST

START_TEST(parse_refuses) {
    static const char *const rows[] = {"",           "1.2.3",      "1.2.3.4.5", "1.2.3.256",
                                       "01.2.3.4",   "0x1.2.3.4",  "1.2.3.4 ",  " 1.2.3.4",
                                       "1.2.3.4/32", "fe80::1%lo", ":::",       "1::2::3",
                                       "12345::",    "localhost",  "1",         "[::1]"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct addr a = {.family = 9};
        ck_assert_msg(addr_parse(rows[i], &a) == -EINVAL, "\"%s\" parses", rows[i]);
        ck_assert_uint_eq(a.family, 9); /* untouched */
    }
}
END_TEST

START_TEST(prefixes_parse) {
    static const struct { const char *in, *out; int result; } rows[] = {
        {"10.77.1.0/24", "10.77.1.0/24", 0},
        {"10.77.1.16/28", "10.77.1.16/28", 0},
        {"10.77.1.17", "10.77.1.17/32", 0},
        {"0.0.0.0/0", "0.0.0.0/0", 0},
        {"FD77:1::/64", "fd77:1::/64", 0},
        {"fd77:1::1", "fd77:1::1/128", 0},
        {"fd77:1::/127", "fd77:1::/127", 0},
        {"::/0", "::/0", 0},
        {"10.77.1.1/24", NULL, -EDOM},
        {"10.77.1.16/27", NULL, -EDOM},
        {"fd77:1::1/127", NULL, -EDOM},
        {"1.0.0.0/0", NULL, -EDOM},
        {"10.77.1.0/33", NULL, -ERANGE},
        {"10.0.0.0/999", NULL, -ERANGE},
        {"fd77::/129", NULL, -ERANGE},
        {"10.0.0.0/", NULL, -EINVAL},
        {"10.0.0.0/08", NULL, -EINVAL},
        {"10.0.0.0/ 8", NULL, -EINVAL},
        {"10.0.0.0/-8", NULL, -EINVAL},
        {"10.0.0.0/8/8", NULL, -EINVAL},
        {"10.0.0.0/0008", NULL, -EINVAL},
        {"10.0.0/8", NULL, -EINVAL},
        {"/8", NULL, -EINVAL},
        {"", NULL, -EINVAL},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/8", NULL, -EINVAL},
    };
    char text[PREFIX_TEXT_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct prefix p = {.bits = 77};
        ck_assert_msg(prefix_parse(rows[i].in, &p) == rows[i].result, "%s", rows[i].in);
        if (rows[i].result == 0) {
            ck_assert(prefix_valid(&p));
            ck_assert_str_eq(prefix_format(&p, text), rows[i].out);
        } else {
            ck_assert_uint_eq(p.bits, 77);
        }
    }
}
END_TEST

START_TEST(validity) {
    struct addr a = parsed("192.0.2.1");
    a.bytes[4] = 1;
    ck_assert(!addr_valid(&a));
    a = parsed("192.0.2.1");
    a.zero[2] = 1;
    ck_assert(!addr_valid(&a));
    for (unsigned family = 0; family < 256; family++) {
        struct addr f = {.family = (uint8_t)family};
        ck_assert_int_eq(addr_valid(&f), family == 4 || family == 6);
    }

    struct prefix p = prefix_parsed("10.0.0.0/8");
    p.bits = 33;
    ck_assert(!prefix_valid(&p));
    p.bits = 6;
    ck_assert(!prefix_valid(&p)); /* 10 has bits in 6..7 */
    p.bits = 8;
    for (unsigned i = 0; i < 3; i++) {
        p.zero[i] = 1;
        ck_assert(!prefix_valid(&p));
        p.zero[i] = 0;
    }
    ck_assert(prefix_valid(&p));
    p.addr.family = 5;
    ck_assert(!prefix_valid(&p));
    p = prefix_parsed("::/0");
    p.bits = 129;
    ck_assert(!prefix_valid(&p));
}
END_TEST

START_TEST(comparison) {
    struct addr a = parsed("10.0.0.1"), b = parsed("10.0.0.2"), c = parsed("::");
    ck_assert(addr_equal(&a, &a) && !addr_equal(&a, &b));
    ck_assert_int_lt(addr_compare(&a, &b), 0);
    ck_assert_int_gt(addr_compare(&b, &a), 0);
    ck_assert_int_eq(addr_compare(&b, &b), 0);
    ck_assert_int_lt(addr_compare(&b, &c), 0); /* IPv4 before IPv6 */
}
END_TEST

START_TEST(contains) {
    static const struct { const char *prefix, *addr; bool in; } rows[] = {
        {"10.77.1.16/28", "10.77.1.16", true}, {"10.77.1.16/28", "10.77.1.31", true},
        {"10.77.1.16/28", "10.77.1.32", false}, {"10.77.1.16/28", "10.77.1.15", false},
        {"0.0.0.0/0", "255.1.2.3", true}, {"0.0.0.0/0", "::", false},
        {"::/0", "ffff::", true}, {"::/0", "0.0.0.0", false},
        {"fd77:1::/64", "fd77:1::ffff:ffff:ffff:ffff", true},
        {"fd77:1::/64", "fd77:1:0:1::", false},
        {"2001:db8::/33", "2001:db8:7fff::", true}, {"2001:db8::/33", "2001:db8:8000::", false},
        {"10.77.1.17/32", "10.77.1.17", true}, {"10.77.1.17/32", "10.77.1.16", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct prefix p = prefix_parsed(rows[i].prefix);
        struct addr a = parsed(rows[i].addr);
        ck_assert_msg(prefix_contains(&p, &a) == rows[i].in, "%s %s", rows[i].prefix, rows[i].addr);
    }
}
END_TEST

START_TEST(covers) {
    static const struct { const char *p, *q; bool covers; } rows[] = {
        {"10.0.0.0/8", "10.0.0.0/8", true},   {"10.0.0.0/8", "10.1.0.0/16", true},
        {"10.1.0.0/16", "10.0.0.0/8", false}, {"10.0.0.0/8", "11.0.0.0/16", false},
        {"::/0", "10.0.0.0/8", false},        {"::/0", "fd77::/16", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct prefix p = prefix_parsed(rows[i].p), q = prefix_parsed(rows[i].q);
        ck_assert_msg(prefix_covers(&p, &q) == rows[i].covers, "%s %s", rows[i].p, rows[i].q);
    }
}
END_TEST

START_TEST(every_length_clears_host_bits) {
    uint8_t ones[16];
    memset(ones, 0xff, sizeof ones);
    struct addr families[] = {addr_from4(ones), addr_from6(ones)};
    for (unsigned f = 0; f < 2; f++) {
        unsigned most = f == 0 ? 32 : 128;
        for (unsigned bits = 0; bits <= most; bits++) {
            struct prefix p = prefix_of(&families[f], (uint8_t)bits);
            ck_assert(prefix_valid(&p));
            unsigned set = 0;
            for (unsigned i = 0; i < 16; i++)
                for (unsigned b = 0; b < 8; b++) set += p.addr.bytes[i] >> b & 1;
            ck_assert_uint_eq(set, bits);
            ck_assert(prefix_contains(&p, &families[f]));
        }
    }
}
END_TEST

START_TEST(socket_addresses) {
    static const char *const rows[] = {"198.51.100.53", "2001:db8::53"};
    for (size_t i = 0; i < 2; i++) {
        struct addr a = parsed(rows[i]), b;
        struct sockaddr_storage s;
        uint16_t port = 0;
        socklen_t size = addr_to_sockaddr(&a, 853, &s);
        ck_assert_uint_eq(size, i == 0 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        ck_assert_int_eq(addr_from_sockaddr((struct sockaddr *)&s, &b, &port), 0);
        ck_assert(addr_equal(&a, &b));
        ck_assert_uint_eq(port, 853);
    }
    struct addr mapped = parsed("::ffff:192.0.2.9"), plain = parsed("192.0.2.9"), got;
    struct sockaddr_storage s;
    uint16_t port;
    addr_to_sockaddr(&mapped, 1, &s);
    ck_assert_int_eq(addr_from_sockaddr((struct sockaddr *)&s, &got, &port), 0);
    ck_assert(addr_equal(&got, &plain));

    struct sockaddr local = {.sa_family = AF_UNIX};
    ck_assert_int_eq(addr_from_sockaddr(&local, &got, &port), -EAFNOSUPPORT);
    ck_assert(addr_equal(&got, &plain)); /* untouched */
}
END_TEST

START_TEST(ranges) {
    static const struct { const char *addr, *range; } rows[] = {
        {"0.0.0.0", "unspecified"}, {"0.255.255.255", "unspecified"}, {"1.0.0.0", "public"},
        {"9.255.255.255", "public"}, {"10.0.0.0", "private"}, {"10.255.255.255", "private"},
        {"11.0.0.0", "public"}, {"100.63.255.255", "public"}, {"100.64.0.0", "private"},
        {"100.127.255.255", "private"}, {"100.128.0.0", "public"}, {"127.0.0.1", "loopback"},
        {"127.255.255.255", "loopback"}, {"128.0.0.0", "public"}, {"169.253.255.255", "public"},
        {"169.254.169.254", "link-local"}, {"169.255.0.0", "public"},
        {"172.15.255.255", "public"}, {"172.16.0.0", "private"}, {"172.31.255.255", "private"},
        {"172.32.0.0", "public"}, {"192.0.0.8", "reserved"}, {"192.0.1.0", "public"},
        {"192.0.2.255", "documentation"}, {"192.0.3.0", "public"}, {"192.31.196.1", "public"},
        {"192.88.99.1", "reserved"}, {"192.167.255.255", "public"}, {"192.168.0.0", "private"},
        {"192.169.0.0", "public"}, {"198.17.255.255", "public"}, {"198.18.0.0", "documentation"},
        {"198.19.255.255", "documentation"}, {"198.20.0.0", "public"},
        {"198.51.100.1", "documentation"}, {"203.0.113.1", "documentation"},
        {"223.255.255.255", "public"}, {"224.0.0.0", "multicast"}, {"239.255.255.255", "multicast"},
        {"240.0.0.0", "multicast"}, {"255.255.255.255", "multicast"}, {"8.8.8.8", "public"},

        {"::", "unspecified"}, {"::1", "loopback"}, {"::2", "embedded"},
        {"::127.0.0.1", "embedded"}, {"::ffff:8.8.8.8", "embedded"}, {"::1:0:0", "reserved"},
        {"::ffff:0:a00:1", "embedded"}, {"64:ff9b::a00:1", "embedded"},
        {"64:ff9b:0:0:0:1::", "reserved"}, {"64:ff9b:1::1", "embedded"},
        {"64:ff9b:1:ffff::", "embedded"}, {"64:ff9b:2::", "reserved"}, {"100::1", "reserved"},
        {"1fff:ffff::", "reserved"}, {"2000::", "public"}, {"2001::1", "embedded"},
        {"2001:0:ffff::", "embedded"}, {"2001:1::1", "reserved"}, {"2001:2::1", "documentation"},
        {"2001:2:1::1", "reserved"}, {"2001:1ff:ffff::", "reserved"}, {"2001:200::", "public"},
        {"2001:db7:ffff::", "public"}, {"2001:db8::1", "documentation"}, {"2001:db9::", "public"},
        {"2002:a00:1::", "embedded"}, {"2003::", "public"}, {"2606:4700::1111", "public"},
        {"3ffe:ffff::", "public"}, {"3fff::1", "documentation"}, {"3fff:fff:ffff::", "documentation"},
        {"3fff:1000::", "public"}, {"4000::", "reserved"}, {"5f00::1", "reserved"},
        {"fbff::", "reserved"}, {"fc00::", "private"}, {"fdff:ffff::", "private"},
        {"fe00::", "reserved"}, {"fe80::1", "link-local"}, {"febf::", "link-local"},
        {"fec0::1", "reserved"}, {"ff02::1", "multicast"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct addr a = parsed(rows[i].addr);
        ck_assert_msg(strcmp(addr_range_name(addr_range(&a)), rows[i].range) == 0, "%s is %s",
                      rows[i].addr, addr_range_name(addr_range(&a)));
    }
    struct addr none = {0}, odd = {.family = 5};
    ck_assert_int_eq(addr_range(&none), RANGE_RESERVED); /* never public */
    ck_assert_int_eq(addr_range(&odd), RANGE_RESERVED);
    ck_assert_str_eq(addr_range_name((enum addr_range)99), "unknown");
}
END_TEST

#define BIT(range) (UINT32_C(1) << RANGE_##range)

START_TEST(ranges_of_prefixes) {
    static const struct { const char *prefix; uint32_t ranges; } rows[] = {
        {"8.8.8.0/24", BIT(PUBLIC)},
        {"10.0.0.0/8", BIT(PRIVATE)},
        {"10.1.2.3/32", BIT(PRIVATE)},
        {"192.0.0.0/23", BIT(RESERVED) | BIT(PUBLIC)},
        {"192.0.0.0/22", BIT(RESERVED) | BIT(DOCUMENTATION) | BIT(PUBLIC)},
        {"224.0.0.0/3", BIT(MULTICAST) | BIT(PUBLIC)},
        {"0.0.0.0/0", BIT(PUBLIC) | BIT(UNSPECIFIED) | BIT(LOOPBACK) | BIT(PRIVATE) |
                          BIT(LINK_LOCAL) | BIT(MULTICAST) | BIT(DOCUMENTATION) | BIT(RESERVED)},
        {"2606:4700::/32", BIT(PUBLIC)},
        {"2001:db8:5::/48", BIT(DOCUMENTATION)},
        {"2001:db8::/31", BIT(DOCUMENTATION) | BIT(PUBLIC)},
        {"::/127", BIT(UNSPECIFIED) | BIT(LOOPBACK) | BIT(EMBEDDED)},
        {"4000::/2", BIT(RESERVED)},
        {"fc00::/6", BIT(PRIVATE) | BIT(LINK_LOCAL) | BIT(MULTICAST) | BIT(RESERVED)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct prefix p = prefix_parsed(rows[i].prefix);
        /* More than it touches may be told, never less, and never without the exact ones here. */
        ck_assert_msg((prefix_ranges(&p) & rows[i].ranges) == rows[i].ranges, "%s", rows[i].prefix);
    }
    for (unsigned round = 0; round < 50000; round++) { /* near the special blocks, any length */
        static const char *const starts[] = {"10.0.0.0", "192.0.0.0", "100.64.0.0", "224.0.0.0",
                                             "::", "64:ff9b::", "2001::", "3fff::", "fe80::"};
        struct addr start = parsed(starts[random_below(9)]), inside;
        struct prefix p = prefix_of(&start, (uint8_t)random_below(start.family == 4 ? 33 : 129));
        random_bytes(inside.bytes, 16);
        inside = start.family == 4 ? addr_from4(inside.bytes) : addr_from6(inside.bytes);
        for (unsigned i = 0; i < p.bits; i++) { /* the prefix, then random bits */
            uint8_t bit = (uint8_t)(0x80 >> i % 8);
            inside.bytes[i / 8] = (uint8_t)((inside.bytes[i / 8] & ~bit) | (p.addr.bytes[i / 8] & bit));
        }
        ck_assert(prefix_contains(&p, &inside));
        ck_assert((prefix_ranges(&p) >> addr_range(&inside) & 1) == 1);
    }
    struct prefix exact = prefix_parsed("8.8.8.8/32");
    ck_assert_uint_eq(prefix_ranges(&exact), BIT(PUBLIC));
    exact = prefix_parsed("2606:4700::/32");
    ck_assert_uint_eq(prefix_ranges(&exact), BIT(PUBLIC));
    exact = prefix_parsed("10.77.0.0/16");
    ck_assert_uint_eq(prefix_ranges(&exact), BIT(PRIVATE));
}
END_TEST

int main(void) {
    TCase *t = tcase_create("addr");
    tcase_add_test(t, parse_and_format);
    tcase_add_test(t, parse_refuses);
    tcase_add_test(t, prefixes_parse);
    tcase_add_test(t, validity);
    tcase_add_test(t, comparison);
    tcase_add_test(t, contains);
    tcase_add_test(t, covers);
    tcase_add_test(t, every_length_clears_host_bits);
    tcase_add_test(t, socket_addresses);
    tcase_add_test(t, ranges);
    tcase_add_test(t, ranges_of_prefixes);
    Suite *s = suite_create("addr");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
