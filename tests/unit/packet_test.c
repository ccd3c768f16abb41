/* packet_test.c: headers of denied packets, whole, cut short and mutated; and their aggregation. */
#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/clock.h"
#include "gateway/base/reason.h"
#include "gateway/recorder/denials.h"
#include "gateway/recorder/packet.h"

/* A packet under construction. */
struct made {
    uint8_t bytes[256];
    size_t size;
};

static void put(struct made *m, const void *bytes, size_t size) {
    ck_assert_uint_le(m->size + size, sizeof m->bytes);
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

#define PUT(m, ...) put(m, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static struct made ip4(uint8_t protocol, unsigned option_words, uint16_t fragment) {
    struct made m = {.size = 0};
    PUT(&m, (uint8_t)(0x45 + option_words), 0, 0, 60, 0, 1, (uint8_t)(fragment >> 8),
        (uint8_t)fragment, 64, protocol, 0, 0, 10, 77, 1, 17, 203, 0, 113, 7);
    for (unsigned i = 0; i < option_words; i++) PUT(&m, 1, 1, 1, 0);
    return m;
}

static struct made ip6(uint8_t next) {
    struct made m = {.size = 0};
    PUT(&m, 0x60, 0, 0, 0, 0, 60, next, 64);
    PUT(&m, 0xfd, 0x77, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x17);
    PUT(&m, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7);
    return m;
}

static struct packet parse(const struct made *m, unsigned version) {
    struct packet p;
    uint8_t *exact = malloc(m->size == 0 ? 1 : m->size); /* so that ASan sees a read past the end */
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, m->bytes, m->size);
    packet_parse(exact, m->size, version, &p);
    free(exact);
    return p;
}

static void expect_addresses(const struct packet *p, const char *source, const char *remote) {
    char text[ADDR_TEXT_MAX];
    ck_assert_str_eq(addr_format(&p->source, text), source);
    ck_assert_str_eq(addr_format(&p->remote, text), remote);
}

static void expect_ports(const struct packet *p, uint8_t protocol, uint16_t from, uint16_t to) {
    ck_assert_int_eq(p->note, PACKET_WHOLE);
    ck_assert(p->has_protocol && p->has_ports && !p->has_icmp);
    ck_assert_uint_eq(p->protocol, protocol);
    ck_assert_uint_eq(p->source_port, from);
    ck_assert_uint_eq(p->port, to);
}

/* ---- IPv4 ---------------------------------------------------------------------------------- */

START_TEST(v4_ports) {
    static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP, IPPROTO_DCCP,
                                        IPPROTO_UDPLITE};
    for (size_t i = 0; i < sizeof protocols; i++) {
        struct made m = ip4(protocols[i], 0, 0);
        PUT(&m, 0xc0, 0x01, 0x20, 0xfb, 0, 0, 0, 0);
        struct packet p = parse(&m, 4);
        expect_addresses(&p, "10.77.1.17", "203.0.113.7");
        expect_ports(&p, protocols[i], 0xc001, 8443);
    }
}
END_TEST

START_TEST(v4_options_are_stepped_over) {
    for (unsigned words = 1; words <= 10; words++) {
        struct made m = ip4(IPPROTO_UDP, words, 0);
        PUT(&m, 0, 53, 3, 85);
        struct packet p = parse(&m, 4);
        expect_ports(&p, IPPROTO_UDP, 53, 853);
    }
}
END_TEST

START_TEST(v4_icmp) {
    struct made m = ip4(IPPROTO_ICMP, 0, 0);
    PUT(&m, 8, 3, 0, 0);
    struct packet p = parse(&m, 4);
    ck_assert(p.has_icmp && !p.has_ports);
    ck_assert_uint_eq(p.icmp_type, 8);
    ck_assert_uint_eq(p.icmp_code, 3);
}
END_TEST

START_TEST(v4_fragment_has_no_ports) {
    struct made m = ip4(IPPROTO_UDP, 0, 0x2001); /* more fragments, offset 8 */
    PUT(&m, 0, 53, 3, 85);
    struct packet p = parse(&m, 4);
    ck_assert_int_eq(p.note, PACKET_FRAGMENT);
    ck_assert(p.has_protocol && !p.has_ports);
    m = ip4(IPPROTO_UDP, 0, 0x2000); /* the first one has */
    PUT(&m, 0, 53, 3, 85);
    p = parse(&m, 4);
    expect_ports(&p, IPPROTO_UDP, 53, 853);
}
END_TEST

START_TEST(v4_malformed) {
    struct made m = ip4(IPPROTO_UDP, 0, 0);
    m.bytes[0] = 0x44; /* header of 16 bytes */
    struct packet p = parse(&m, 4);
    ck_assert_int_eq(p.note, PACKET_MALFORMED);
    ck_assert_uint_eq(p.source.family, 0);
    m.bytes[0] = 0x65;
    p = parse(&m, 4);
    ck_assert_int_eq(p.note, PACKET_MALFORMED);
    ck_assert(!p.has_protocol);
}
END_TEST

START_TEST(v4_other_protocols_have_no_ports) {
    struct made m = ip4(IPPROTO_GRE, 0, 0);
    PUT(&m, 0, 0, 8, 0);
    struct packet p = parse(&m, 4);
    ck_assert_int_eq(p.note, PACKET_WHOLE);
    ck_assert(p.has_protocol && !p.has_ports && !p.has_icmp);
    ck_assert_uint_eq(p.protocol, IPPROTO_GRE);
}
END_TEST

/* ---- IPv6 ---------------------------------------------------------------------------------- */

START_TEST(v6_ports) {
    struct made m = ip6(IPPROTO_TCP);
    PUT(&m, 0xc0, 0x01, 1, 0xbb);
    struct packet p = parse(&m, 6);
    expect_addresses(&p, "fd77:1::17", "2001:db8::7");
    expect_ports(&p, IPPROTO_TCP, 0xc001, 443);
}
END_TEST

START_TEST(v6_extension_headers) {
    struct made m = ip6(IPPROTO_HOPOPTS);
    PUT(&m, IPPROTO_DSTOPTS, 0, 1, 4, 0, 0, 0, 0);
    PUT(&m, IPPROTO_ROUTING, 1, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    PUT(&m, IPPROTO_FRAGMENT, 0, 4, 0, 0, 0, 0, 0);
    PUT(&m, IPPROTO_AH, 0, 0, 1, 0, 0, 0, 9);
    PUT(&m, 139, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    PUT(&m, IPPROTO_UDP, 0, 0, 0, 0, 0, 0, 0);
    PUT(&m, 0, 53, 3, 85);
    struct packet p = parse(&m, 6);
    expect_ports(&p, IPPROTO_UDP, 53, 853);
}
END_TEST

START_TEST(v6_later_fragment) {
    struct made m = ip6(IPPROTO_FRAGMENT);
    PUT(&m, IPPROTO_UDP, 0, 0, 8, 0, 0, 0, 9);
    PUT(&m, 0, 53, 3, 85);
    struct packet p = parse(&m, 6);
    ck_assert_int_eq(p.note, PACKET_FRAGMENT);
    ck_assert_uint_eq(p.protocol, IPPROTO_UDP);
    ck_assert(!p.has_ports);
}
END_TEST

START_TEST(v6_endless_extension_headers) {
    struct made m = ip6(IPPROTO_DSTOPTS);
    for (unsigned i = 0; i < 20; i++) PUT(&m, IPPROTO_DSTOPTS, 0, 1, 4, 0, 0, 0, 0);
    struct packet p = parse(&m, 6);
    ck_assert_int_eq(p.note, PACKET_MALFORMED);
    ck_assert(!p.has_ports);
    expect_addresses(&p, "fd77:1::17", "2001:db8::7");
}
END_TEST

START_TEST(v6_icmp_esp_nothing) {
    struct made m = ip6(IPPROTO_ICMPV6);
    PUT(&m, 128, 0);
    struct packet p = parse(&m, 6);
    ck_assert(p.has_icmp);
    ck_assert_uint_eq(p.icmp_type, 128);
    m = ip6(IPPROTO_ESP);
    p = parse(&m, 6);
    ck_assert_int_eq(p.note, PACKET_WHOLE);
    m = ip6(IPPROTO_NONE);
    p = parse(&m, 6);
    ck_assert_int_eq(p.note, PACKET_WHOLE);
    m.bytes[0] = 0x45;
    p = parse(&m, 6);
    ck_assert_int_eq(p.note, PACKET_MALFORMED);
}
END_TEST

/* ---- hostile ------------------------------------------------------------------------------- */

static unsigned samples(struct made ret[12]) {
    unsigned n = 0;
    static const uint8_t v4[] = {IPPROTO_TCP, IPPROTO_ICMP, IPPROTO_SCTP};
    for (size_t i = 0; i < sizeof v4; i++) {
        ret[n] = ip4(v4[i], (unsigned)i * 3, 0);
        PUT(&ret[n], 0xc0, 1, 1, 0xbb, 0, 0, 0, 0);
        n++;
    }
    static const uint8_t v6[] = {IPPROTO_TCP, IPPROTO_HOPOPTS, IPPROTO_ROUTING, IPPROTO_DSTOPTS,
                                 IPPROTO_FRAGMENT, IPPROTO_AH, IPPROTO_MH};
    for (size_t i = 0; i < sizeof v6; i++) {
        ret[n] = ip6(v6[i]);
        for (unsigned k = 0; k < 4; k++)
            PUT(&ret[n], k < 3 ? v6[(i + k) % sizeof v6] : IPPROTO_UDP, 0, 0, 0, 0, 0, 0, 1);
        PUT(&ret[n], 0xc0, 1, 1, 0xbb);
        n++;
    }
    return n;
}

/* What must hold whatever the bytes: ports and ICMP only of protocols that have them, both not at
 * once, and nothing claimed of a packet whose addresses could not be read. */
static void expect_sane(const struct packet *p, const struct made *m, unsigned version) {
    size_t least = version == 4 ? 20 : 40;
    ck_assert(!(p->has_ports && p->has_icmp));
    ck_assert(p->source.family == p->remote.family);
    ck_assert(p->source.family == 0 || p->source.family == version);
    if (p->source.family == 0) ck_assert(!p->has_protocol && !p->has_ports && !p->has_icmp);
    if (m->size < least) ck_assert_int_eq(p->note, PACKET_TRUNCATED);
    if (p->has_ports || p->has_icmp) ck_assert_int_eq(p->note, PACKET_WHOLE);
    if (p->source.family != 0) ck_assert(addr_valid(&p->source) && addr_valid(&p->remote));
}

START_TEST(every_truncation) {
    struct made all[12];
    unsigned n = samples(all);
    for (unsigned i = 0; i < n; i++) {
        for (size_t size = 0; size <= all[i].size; size++) {
            struct made m = all[i];
            m.size = size;
            for (unsigned version = 4; version <= 6; version += 2) {
                struct packet p = parse(&m, version);
                expect_sane(&p, &m, version);
            }
        }
    }
}
END_TEST

START_TEST(every_byte_at_every_place) {
    struct made all[12];
    unsigned n = samples(all), version;
    for (unsigned i = 0; i < n; i++) {
        version = all[i].bytes[0] >> 4;
        for (size_t at = 0; at < all[i].size; at++) {
            for (unsigned value = 0; value < 256; value++) {
                struct made m = all[i];
                m.bytes[at] = (uint8_t)value;
                struct packet p = parse(&m, version);
                expect_sane(&p, &m, version);
            }
        }
    }
}
END_TEST

START_TEST(noise) {
    for (unsigned i = 0; i < 200000; i++) {
        struct made m = {.size = random_below(97)};
        random_bytes(m.bytes, m.size);
        unsigned version = i & 1 ? 4 : 6;
        if (m.size > 0) m.bytes[0] = (uint8_t)(version << 4 | (m.bytes[0] & 15));
        struct packet p = parse(&m, version);
        expect_sane(&p, &m, version);
    }
}
END_TEST

START_TEST(protocol_names) {
    char text[4];
    ck_assert_str_eq(protocol_name(IPPROTO_TCP, text), "tcp");
    ck_assert_str_eq(protocol_name(IPPROTO_ICMPV6, text), "icmpv6");
    ck_assert_str_eq(protocol_name(255, text), "255");
    ck_assert_str_eq(protocol_name(0, text), "0");
}
END_TEST

/* ---- aggregation --------------------------------------------------------------------------- */

static const char eth1[16] = "eth1", eth2[16] = "eth2";

static struct packet tcp_to(uint8_t host, uint16_t port) {
    struct packet p = {.has_protocol = true, .has_ports = true, .protocol = IPPROTO_TCP,
                       .source_port = 40000, .port = port};
    p.source = addr_from4((const uint8_t[]){10, 77, 1, host});
    p.remote = addr_from4((const uint8_t[]){203, 0, 113, 7});
    return p;
}

START_TEST(equal_ones_are_one_record) {
    struct denials *d = denials_new();
    struct packet p = tcp_to(17, 25);
    for (unsigned i = 0; i < 7; i++) {
        p.source_port = (uint16_t)(40000 + i); /* not part of what makes them equal */
        denials_add(d, &p, REASON_NO_OPENING, eth1, 1000 + i, i);
    }
    ck_assert_ptr_null(denials_due(d, DENIALS_WINDOW - 1));
    ck_assert_uint_eq(denials_next(d), DENIALS_WINDOW);
    const struct denial *e = denials_due(d, DENIALS_WINDOW);
    ck_assert_ptr_nonnull(e);
    ck_assert_uint_eq(e->count, 7);
    ck_assert_uint_eq(e->first, 1000);
    ck_assert_uint_eq(e->last, 1006);
    ck_assert_uint_eq(e->source_port, 40000);
    denials_drop(d);
    ck_assert_ptr_null(denials_due(d, UINT64_MAX));
    ck_assert_uint_eq(denials_next(d), UINT64_MAX);
    denials_free(d);
}
END_TEST

START_TEST(different_ones_are_told_apart) {
    struct denials *d = denials_new();
    struct packet p = tcp_to(17, 25), q = p;
    denials_add(d, &p, REASON_NO_OPENING, eth1, 1, 1);
    denials_add(d, &p, REASON_SPOOFED, eth1, 1, 1);
    denials_add(d, &p, REASON_NO_OPENING, eth2, 1, 1);
    q.port = 26;
    denials_add(d, &q, REASON_NO_OPENING, eth1, 1, 1);
    q = p, q.protocol = IPPROTO_UDP;
    denials_add(d, &q, REASON_NO_OPENING, eth1, 1, 1);
    q = p, q.remote.bytes[3] = 8;
    denials_add(d, &q, REASON_NO_OPENING, eth1, 1, 1);
    q = p, q.source.bytes[3] = 18;
    denials_add(d, &q, REASON_NO_OPENING, eth1, 1, 1);
    unsigned n = 0;
    for (const struct denial *e; (e = denials_due(d, UINT64_MAX)) != NULL; n++) {
        ck_assert_uint_eq(e->count, 1);
        denials_drop(d);
    }
    ck_assert_uint_eq(n, 7);
    denials_free(d);
}
END_TEST

/* A scan of many ports by many sources, many reasons: every packet is counted, records are few. */
START_TEST(flood_is_counted_and_bounded) {
    struct denials *d = denials_new();
    const unsigned packets = 300000;
    uint64_t counted = 0;
    unsigned records = 0;
    for (unsigned i = 0; i < packets; i++) {
        struct packet p = tcp_to((uint8_t)(i % 250), (uint16_t)(i * 7919));
        p.remote.bytes[0] = (uint8_t)random_below(256);
        denials_add(d, &p, i % 3 ? REASON_NO_OPENING : REASON_SPOOFED, eth1, i, 5);
    }
    for (const struct denial *e; (e = denials_due(d, UINT64_MAX)) != NULL; records++) {
        counted += e->count;
        denials_drop(d);
    }
    ck_assert_uint_eq(counted, packets);
    ck_assert_uint_le(records, DENIALS_EXACT + DENIALS_FOLDED + 2);
    ck_assert_uint_gt(records, DENIALS_EXACT);
    denials_free(d);
}
END_TEST

/* Against a plain list: adding and dropping in turn loses or doubles no entry. */
START_TEST(churn_agrees_with_a_list) {
    struct denials *d = denials_new();
    uint64_t in = 0, out = 0;
    for (usec_t now = 0; now < 40 * DENIALS_WINDOW; now += DENIALS_WINDOW / 100) {
        for (unsigned i = random_below(30); i > 0; i--) {
            struct packet p = tcp_to((uint8_t)random_below(4), (uint16_t)random_below(200));
            denials_add(d, &p, REASON_NO_OPENING, eth1, now, now);
            in++;
        }
        usec_t last_due = 0;
        for (const struct denial *e; (e = denials_due(d, now)) != NULL;) {
            ck_assert_uint_ge(e->due, last_due);
            ck_assert_uint_le(e->due, now);
            ck_assert_uint_lt(now, e->due + DENIALS_WINDOW / 50);
            last_due = e->due;
            out += e->count;
            denials_drop(d);
        }
    }
    for (const struct denial *e; (e = denials_due(d, UINT64_MAX)) != NULL;) {
        out += e->count;
        denials_drop(d);
    }
    ck_assert_uint_eq(in, out);
    denials_free(d);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("packet");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, v4_ports);
    tcase_add_test(t, v4_options_are_stepped_over);
    tcase_add_test(t, v4_icmp);
    tcase_add_test(t, v4_fragment_has_no_ports);
    tcase_add_test(t, v4_malformed);
    tcase_add_test(t, v4_other_protocols_have_no_ports);
    tcase_add_test(t, v6_ports);
    tcase_add_test(t, v6_extension_headers);
    tcase_add_test(t, v6_later_fragment);
    tcase_add_test(t, v6_endless_extension_headers);
    tcase_add_test(t, v6_icmp_esp_nothing);
    tcase_add_test(t, every_truncation);
    tcase_add_test(t, every_byte_at_every_place);
    tcase_add_test(t, noise);
    tcase_add_test(t, protocol_names);
    tcase_add_test(t, equal_ones_are_one_record);
    tcase_add_test(t, different_ones_are_told_apart);
    tcase_add_test(t, flood_is_counted_and_bounded);
    tcase_add_test(t, churn_agrees_with_a_list);
    Suite *s = suite_create("packet");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
