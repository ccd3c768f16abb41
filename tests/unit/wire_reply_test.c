/* wire_reply_test.c: replies to clients, read back by ldns as a second opinion. */
#include "resolver/wire/wire.h"

#include <errno.h>
#include <ldns/ldns.h>

#include "tests/unit/dns_message.h"

static struct wire_query query(const char *name, unsigned type, bool edns) {
    struct message m;
    struct wire_query q;
    put_header(&m, 0x4321, 0x0110, 1, 0, 0, edns);
    put_question(&m, name, type, 1);
    if (edns)
        put_opt(&m, 4096, 0x8000, "", 0);
    ck_assert_int_eq(wire_query_parse(m.bytes, m.size, &q), 0);
    ck_assert_int_eq(q.reason, REASON_ALLOWED);
    return q;
}

/* Into a block of exactly `limit` octets. Returns octets, or what went wrong. */
static int build(const struct wire_query *q, const struct wire_reply *r, size_t limit,
                 struct message *m) {
    uint8_t *out = malloc(limit ? limit : 1);
    int size = wire_build_reply(q, r, limit, out, limit);
    if (size > 0) {
        ck_assert_uint_le((size_t)size, limit);
        memcpy(m->bytes, out, (size_t)size);
        m->size = (size_t)size;
    }
    free(out);
    return size;
}

static ldns_pkt *read_back(const struct message *m) {
    ldns_pkt *p = NULL;
    ck_assert_int_eq(ldns_wire2pkt(&p, m->bytes, m->size), LDNS_STATUS_OK);
    ck_assert_uint_eq(ldns_pkt_id(p), 0x4321);
    ck_assert(ldns_pkt_qr(p) && ldns_pkt_rd(p) && ldns_pkt_ra(p) && ldns_pkt_cd(p));
    ck_assert(!ldns_pkt_aa(p) && !ldns_pkt_ad(p));
    ck_assert_uint_eq(ldns_pkt_get_opcode(p), LDNS_PACKET_QUERY);
    return p;
}

static void check_text(const ldns_rr *rr, const char *want) {
    char *text = ldns_rr2str(rr);
    ck_assert_str_eq(text, want);
    free(text);
}

static struct addr addr4(unsigned i) {
    uint8_t bytes[4] = {198, 51, (uint8_t)(i >> 8), (uint8_t)i};
    return addr_from4(bytes);
}

START_TEST(c16_chain_and_addresses_in_the_clients_case) {
    struct wire_query q = query("WwW.eXample.COM", 1, false);
    struct name first = name_of("cdn.example.com"), second = name_of("edge.example.net");
    struct wire_hop chain[] = {{&first, 5}, {&second, 9999}};
    struct addr addrs[] = {addr4(7), addr4(3)};
    struct wire_reply r = {.chain = chain, .chain_count = 2, .addrs = addrs, .addr_count = 2,
                           .ttl = 60, .ede = EDE_NONE};
    struct message m;
    ck_assert_int_gt(build(&q, &r, 512, &m), 0);
    ck_assert_mem_eq(m.bytes + 12, "\3WwW\7eXample\3COM", 17);
    ck_assert_mem_eq(m.bytes + 33, "\300\14", 2); /* the first owner points there */
    ldns_pkt *p = read_back(&m);
    ldns_rr_list *l = ldns_pkt_answer(p);
    ck_assert_uint_eq(ldns_rr_list_rr_count(l), 4);
    check_text(ldns_rr_list_rr(l, 0), "WwW.eXample.COM.\t60\tIN\tCNAME\tcdn.eXample.COM.\n");
    check_text(ldns_rr_list_rr(l, 1), "cdn.eXample.COM.\t60\tIN\tCNAME\tedge.example.net.\n");
    check_text(ldns_rr_list_rr(l, 2), "edge.example.net.\t60\tIN\tA\t198.51.0.7\n");
    check_text(ldns_rr_list_rr(l, 3), "edge.example.net.\t60\tIN\tA\t198.51.0.3\n");
    ck_assert_uint_eq(ldns_pkt_nscount(p), 0);
    ck_assert_uint_eq(ldns_pkt_arcount(p), 0);
    ck_assert(!ldns_pkt_edns(p) && !ldns_pkt_tc(p));
    ck_assert_int_eq(ldns_pkt_get_rcode(p), 0);
    ldns_pkt_free(p);
}
END_TEST

START_TEST(addresses_of_both_families_keep_their_order) {
    uint8_t six[16] = {0x20, 1, 0xd, 0xb8, [15] = 9};
    struct addr addrs[] = {addr_from6(six), addr4(1)};
    struct wire_query q = query(".", 28, true);
    struct wire_reply r = {.addrs = addrs, .addr_count = 2, .ttl = 1, .ede = EDE_NONE};
    struct message m;
    ck_assert_int_gt(build(&q, &r, 512, &m), 0);
    ldns_pkt *p = read_back(&m);
    check_text(ldns_rr_list_rr(ldns_pkt_answer(p), 0), ".\t1\tIN\tAAAA\t2001:db8::9\n");
    check_text(ldns_rr_list_rr(ldns_pkt_answer(p), 1), ".\t1\tIN\tA\t198.51.0.1\n");
    ck_assert(ldns_pkt_edns(p) && ldns_pkt_edns_do(p)); /* RFC 3225 section 3 */
    ck_assert_uint_eq(ldns_pkt_edns_udp_size(p), WIRE_UDP_SIZE);
    ck_assert_uint_eq(ldns_pkt_edns_version(p), 0);
    ck_assert_ptr_null(ldns_pkt_edns_data(p));
    ldns_pkt_free(p);
}
END_TEST

START_TEST(c32_negative_answers_carry_a_soa) {
    static const struct { unsigned rcode, soa_ttl, ttl, hops; } rows[] = {
        {RC_NXDOMAIN, 5, 60, 0}, {RC_NOERROR, 300, 60, 0}, {RC_NXDOMAIN, 5, 60, 1},
        {RC_NOERROR, 0, 60, 1}, {RC_NOERROR, 90, 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct wire_query q = query("No.Such.example", 1, i % 2);
        struct name target = name_of("gone.example");
        struct wire_hop chain[] = {{&target, 7}};
        struct wire_reply r = {.rcode = (uint8_t)rows[i].rcode, .synthetic_soa = true,
                               .soa_ttl = rows[i].soa_ttl, .ttl = rows[i].ttl,
                               .chain = chain, .chain_count = rows[i].hops, .ede = EDE_NONE};
        struct message m;
        char want[200];
        ck_assert_int_gt(build(&q, &r, 512, &m), 0);
        ldns_pkt *p = read_back(&m);
        ck_assert_uint_eq(ldns_pkt_get_rcode(p), rows[i].rcode);
        ck_assert_uint_eq(ldns_pkt_ancount(p), rows[i].hops);
        ck_assert_uint_eq(ldns_pkt_nscount(p), 1);
        snprintf(want, sizeof want, "%s\t%u\tIN\tSOA\t. . 1 3600 600 86400 %u\n",
                 rows[i].hops ? "gone.example." : "No.Such.example.", rows[i].soa_ttl,
                 rows[i].soa_ttl);
        check_text(ldns_rr_list_rr(ldns_pkt_authority(p), 0), want);
        for (unsigned k = 0; k < rows[i].hops; k++)
            ck_assert_uint_le(ldns_rr_ttl(ldns_rr_list_rr(ldns_pkt_answer(p), k)),
                              rows[i].soa_ttl);
        ldns_pkt_free(p);
    }
}
END_TEST

START_TEST(other_records_and_hinfo) {
    struct wire_query q = query("Mail.example", 15, false);
    struct wire_record records[] = {
        {.type = 15, .rdata = (const uint8_t *)"\0\12\2mx\7example\0", .rdata_size = 14},
        {.type = 15, .rdata = (const uint8_t *)"\0\24\0", .rdata_size = 3},
    };
    struct wire_reply r = {.others = records, .other_count = 2, .ttl = 30, .ede = EDE_NONE};
    struct message m;
    ck_assert_int_gt(build(&q, &r, 512, &m), 0);
    ldns_pkt *p = read_back(&m);
    check_text(ldns_rr_list_rr(ldns_pkt_answer(p), 0),
               "Mail.example.\t30\tIN\tMX\t10 mx.example.\n");
    check_text(ldns_rr_list_rr(ldns_pkt_answer(p), 1), "Mail.example.\t30\tIN\tMX\t20 .\n");
    ldns_pkt_free(p);

    q = query("Any.example", 255, true);
    r = (struct wire_reply){.hinfo = true, .ttl = 3600, .ede = EDE_NONE};
    ck_assert_int_gt(build(&q, &r, 512, &m), 0);
    p = read_back(&m);
    ck_assert_uint_eq(ldns_pkt_ancount(p), 1);
    check_text(ldns_rr_list_rr(ldns_pkt_answer(p), 0),
               "Any.example.\t3600\tIN\tHINFO\t\"RFC8482\" \"\"\n");
    ldns_pkt_free(p);
}
END_TEST

START_TEST(extended_errors_follow_rfc_8914) {
    struct wire_query q = query("a", 1, true);
    struct wire_reply r = {.rcode = RC_NXDOMAIN, .ede = EDE_BLOCKED, .ede_text = "denied"};
    struct message m;
    ck_assert_int_gt(build(&q, &r, 512, &m), 0);
    ck_assert_mem_eq(m.bytes + m.size - 23,
                     "\0\0\51\4\320\0\0\200\0\0\14\0\17\0\10\0\17denied", 23);
    r.ede_text = NULL;
    ck_assert_int_gt(build(&q, &r, 512, &m), 0);
    ck_assert_mem_eq(m.bytes + m.size - 17, "\0\0\51\4\320\0\0\200\0\0\6\0\17\0\2\0\17", 17);
    /* Code 0 is a code; no EDNS in the query, no EDNS in the reply. */
    r.ede = EDE_OTHER;
    ck_assert_int_gt(build(&q, &r, 512, &m), 0);
    ck_assert_mem_eq(m.bytes + m.size - 6, "\0\17\0\2\0\0", 6);
    q = query("a", 1, false);
    ck_assert_int_eq(build(&q, &r, 512, &m), 12 + 7);
}
END_TEST

START_TEST(long_texts_go_first) {
    static char text[3000];
    struct wire_query q = query("a", 1, true);
    struct wire_reply r = {.rcode = RC_SERVFAIL, .ede = EDE_NETWORK_ERROR, .ede_text = text};
    struct message m;
    memset(text, 't', sizeof text - 1);
    ck_assert_int_eq(build(&q, &r, WIRE_MAX, &m), 12 + 7 + 11 + 6);
    text[1024] = '\0';
    ck_assert_int_eq(build(&q, &r, WIRE_MAX, &m), 12 + 7 + 11 + 6 + 1024);
    ck_assert_int_eq(build(&q, &r, 12 + 7 + 11 + 6 + 1023, &m), 12 + 7 + 11 + 6);
    ck_assert_int_eq(m.bytes[2] & 2, 0);
    ck_assert_int_eq(build(&q, &r, 12 + 7 + 11 + 5, &m), 12 + 7 + 11);
    ck_assert_int_eq(m.bytes[2] & 2, 0);
    ck_assert_int_eq(build(&q, &r, 12 + 7 + 10, &m), -ENOSPC);
}
END_TEST

START_TEST(c27_badvers) {
    struct wire_query q = query("a", 1, true);
    struct wire_reply r = {.rcode = RC_BADVERS, .ede = EDE_NONE};
    struct message m;
    ck_assert_int_gt(build(&q, &r, 512, &m), 0);
    ldns_pkt *p = read_back(&m);
    ck_assert_uint_eq(ldns_pkt_get_rcode(p), 0);
    ck_assert_uint_eq(ldns_pkt_edns_extended_rcode(p), 1);
    ck_assert_uint_eq(ldns_pkt_edns_version(p), 0);
    ldns_pkt_free(p);
    q.edns = false;
    ck_assert_int_gt(build(&q, &r, 512, &m), 0);
    ck_assert_int_eq(m.bytes[3] & 15, RC_SERVFAIL);
}
END_TEST

START_TEST(refusals_echo_what_there_is) {
    struct wire_query q = {.id = 0x0102, .opcode = 4};
    struct addr addr = addr4(1);
    struct wire_reply r = {.rcode = RC_NOTIMP, .ede = EDE_NONE, .addrs = &addr, .addr_count = 1};
    struct message m;
    ck_assert_int_eq(build(&q, &r, 512, &m), 12);
    ck_assert_mem_eq(m.bytes, "\1\2\240\204\0\0\0\0\0\0\0\0", 12);
    q = query("Version.Bind", 16, false);
    q.class = 3;
    r = (struct wire_reply){.rcode = RC_REFUSED, .ede = EDE_NONE};
    ck_assert_int_eq(build(&q, &r, 512, &m), 12 + 14 + 4);
    ck_assert_mem_eq(m.bytes + 12, "\7Version\4Bind\0\0\20\0\3", 18);
    ck_assert_int_eq(m.bytes[3] & 15, RC_REFUSED);
}
END_TEST

/* ---- size ------------------------------------------------------------------------------------ */

START_TEST(c25_too_many_addresses_truncate_whole) {
    static struct addr addrs[4096];
    for (unsigned i = 0; i < 4096; i++)
        addrs[i] = addr4(i);
    for (int edns = 0; edns < 2; edns++) {
        struct wire_query q = query("many.example", 1, edns);
        struct wire_reply r = {.addrs = addrs, .ttl = 1, .ede = EDE_NONE};
        size_t limits[] = {512, WIRE_UDP_SIZE, WIRE_MAX, 100000};
        for (size_t k = 0; k < 4; k++) {
            size_t limit = limits[k] > WIRE_MAX ? WIRE_MAX : limits[k];
            size_t room = (limit - (12 + 18 + (edns ? 11 : 0))) / 16;
            if (room > 4096)
                room = 4096;
            struct message m;
            r.addr_count = (unsigned)room;
            ck_assert_int_eq(build(&q, &r, limits[k], &m),
                             (int)(12 + 18 + (edns ? 11 : 0) + 16 * room));
            ldns_pkt *p = read_back(&m);
            ck_assert_uint_eq(ldns_pkt_ancount(p), room);
            ck_assert(!ldns_pkt_tc(p));
            ldns_pkt_free(p);
            if (room == 4096)
                continue;
            r.addr_count++;
            ck_assert_int_eq(build(&q, &r, limits[k], &m), 12 + 18 + (edns ? 11 : 0));
            p = read_back(&m);
            ck_assert(ldns_pkt_tc(p));
            ck_assert_uint_eq(ldns_pkt_ancount(p), 0);
            ck_assert_uint_eq(ldns_pkt_nscount(p), 0);
            ck_assert_uint_eq(ldns_pkt_edns(p), (unsigned)edns);
            ldns_pkt_free(p);
        }
    }
}
END_TEST

/* At every limit: all of it, or TC and none of it, or no room for even that. */
START_TEST(every_limit) {
    struct wire_query q = query("Sub.Example.com", 1, true);
    struct name hops[3] = {name_of("a.example.com"), name_of("b.a.example.net"), name_of(".")};
    struct wire_hop chain[] = {{&hops[0], 1}, {&hops[1], 1}, {&hops[2], 1}};
    struct addr addrs[8];
    for (unsigned i = 0; i < 8; i++)
        addrs[i] = addr4(i);
    struct wire_reply r = {.chain = chain, .chain_count = 3, .addrs = addrs, .addr_count = 8,
                           .ttl = 9, .ede = EDE_BLOCKED, .ede_text = "some words"};
    struct message m;
    int whole = build(&q, &r, WIRE_MAX, &m);
    for (int limit = whole; limit >= 0; limit--) {
        int size = build(&q, &r, (size_t)limit, &m);
        if (limit < 12 + 21 + 11) {
            ck_assert_int_eq(size, -ENOSPC);
            continue;
        }
        ldns_pkt *p = read_back(&m);
        if (limit >= whole - 16) { /* text and option went before the answer did */
            ck_assert(!ldns_pkt_tc(p));
            ck_assert_uint_eq(ldns_pkt_ancount(p), 11);
        } else {
            ck_assert(ldns_pkt_tc(p));
            ck_assert_uint_eq(ldns_pkt_ancount(p), 0);
        }
        ldns_pkt_free(p);
    }
}
END_TEST

/* More than pointers can reach is not told wrongly, but not at all. */
START_TEST(pointers_reach_only_so_far) {
    static struct name names[100];
    static struct wire_hop chain[100];
    for (unsigned i = 0; i < 100; i++) {
        char text[300];
        memset(text, 'a' + (int)(i % 26), sizeof text);
        text[0] = text[249] = (char)('a' + (int)(i / 26)); /* no tail is shared */
        text[63] = text[127] = text[191] = '.';
        text[250] = '\0';
        names[i] = name_of(text);
        chain[i] = (struct wire_hop){&names[i], 1};
    }
    struct wire_query q = query("a.example", 1, true);
    struct wire_reply r = {.chain = chain, .ttl = 1, .ede = EDE_NONE};
    struct message m;
    for (unsigned hops = 50; hops <= 100; hops++) {
        r.chain_count = hops;
        int size = build(&q, &r, WIRE_MAX, &m);
        ldns_pkt *p = read_back(&m);
        ck_assert_uint_eq(ldns_pkt_ancount(p), hops < 64 ? hops : 0);
        ck_assert_int_eq(ldns_pkt_tc(p), hops >= 64);
        ck_assert_int_gt(size, 0);
        ldns_pkt_free(p);
    }
}
END_TEST

START_TEST(the_smaller_of_limit_and_room_counts) {
    struct wire_query q = query("a", 1, false);
    struct wire_reply r = {.ede = EDE_NONE};
    uint8_t *out = malloc(19);
    ck_assert_int_eq(wire_build_reply(&q, &r, 512, out, 18), -ENOSPC);
    ck_assert_int_eq(wire_build_reply(&q, &r, 18, out, 19), -ENOSPC);
    ck_assert_int_eq(wire_build_reply(&q, &r, 512, out, 19), 19);
    free(out);
}
END_TEST

/* ---- random chains --------------------------------------------------------------------------- */

static unsigned next(uint64_t *state, unsigned bound) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33) % bound;
}

/* Few labels, so that tails meet often and compression has something to get wrong. */
static struct name random_name(uint64_t *state) {
    static const char *const words[] = {"a", "b", "ab", "example", "com", "A", "x-y"};
    char text[300];
    size_t used = 0;
    unsigned labels = next(state, 50) == 0 ? 100 : next(state, 6) + 1;
    for (unsigned i = 0; i < labels && used < 230; i++) {
        const char *word = words[next(state, 7)];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "." : "", word);
    }
    return name_of(text);
}

START_TEST(what_is_built_is_what_was_meant) {
    uint64_t state = 20261130;
    for (unsigned round = 0; round < 3000; round++) {
        struct name names[9], read;
        struct wire_hop chain[8];
        struct addr addr = addr4(round);
        unsigned hops = next(&state, 9);
        for (unsigned i = 0; i <= hops; i++)
            names[i] = random_name(&state);
        for (unsigned i = 0; i < hops; i++)
            chain[i] = (struct wire_hop){&names[i + 1], 1};
        char text[NAME_TEXT_MAX];
        name_to_text(&names[0], text, sizeof text);
        struct wire_query q = query(text, 1, round % 2);
        struct wire_reply r = {.chain = chain, .chain_count = hops, .addrs = &addr,
                               .addr_count = 1, .ttl = 1, .ede = EDE_NONE};
        struct message m;
        ck_assert_int_gt(build(&q, &r, WIRE_MAX, &m), 0);
        ldns_pkt *p = read_back(&m);
        ldns_rr_list *l = ldns_pkt_answer(p);
        ck_assert_uint_eq(ldns_rr_list_rr_count(l), hops + 1);
        for (unsigned i = 0; i <= hops; i++) {
            const ldns_rdf *owner = ldns_rr_owner(ldns_rr_list_rr(l, i));
            ck_assert_int_eq(name_from_wire(ldns_rdf_data(owner), ldns_rdf_size(owner), &read),
                             names[i].length);
            ck_assert(name_equal(&read, &names[i]));
            if (i == hops)
                break;
            const ldns_rdf *target = ldns_rr_rdf(ldns_rr_list_rr(l, i), 0);
            ck_assert_int_eq(name_from_wire(ldns_rdf_data(target), ldns_rdf_size(target), &read),
                             names[i + 1].length);
            ck_assert(name_equal(&read, &names[i + 1]));
        }
        ldns_pkt_free(p);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("wire: replies");
    TCase *t = tcase_create("reply");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, c16_chain_and_addresses_in_the_clients_case);
    tcase_add_test(t, addresses_of_both_families_keep_their_order);
    tcase_add_test(t, c32_negative_answers_carry_a_soa);
    tcase_add_test(t, other_records_and_hinfo);
    tcase_add_test(t, extended_errors_follow_rfc_8914);
    tcase_add_test(t, long_texts_go_first);
    tcase_add_test(t, c27_badvers);
    tcase_add_test(t, refusals_echo_what_there_is);
    tcase_add_test(t, c25_too_many_addresses_truncate_whole);
    tcase_add_test(t, every_limit);
    tcase_add_test(t, pointers_reach_only_so_far);
    tcase_add_test(t, the_smaller_of_limit_and_room_counts);
    tcase_add_test(t, what_is_built_is_what_was_meant);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
