/* wire_answer_test.c: what upstreams send. */
#include "resolver/wire/wire.h"

#include <errno.h>
#include <ldns/ldns.h>

#include "tests/unit/dns_message.h"

#define ID    0x2a2a
#define FLAGS 0x8180 /* QR, RD, RA */

static struct arena *arena;

static void arena_setup(void) {
    arena = arena_new(4u << 20);
    ck_assert_ptr_nonnull(arena);
}

static void arena_teardown(void) { arena = arena_free(arena); }

static int parse_as(const struct message *m, const char *name, uint16_t type,
                    struct wire_answer *a) {
    struct name n = name_of(name);
    uint8_t *bytes = exact(m->bytes, m->size);
    arena_reset(arena);
    int result = wire_answer_parse(bytes, m->size, ID, &n, type, arena, a);
    free(bytes); /* nothing of the result may point into it */
    return result;
}

static int parse(const struct message *m, struct wire_answer *a) {
    return parse_as(m, "www.example.com", 1, a);
}

static void answer(struct message *m, unsigned answers, unsigned authority, unsigned additional) {
    put_header(m, ID, FLAGS, 1, answers, authority, additional);
    put_question(m, "www.example.com", 1, 1);
}

static void check_name(const struct name *n, const char *want) {
    struct name w = name_of(want);
    ck_assert(name_valid(n));
    ck_assert(name_equal(n, &w));
}

/* A usual answer: CNAME over two zones, two addresses, NS and glue, OPT; compressed. */
static void usual(struct message *m) {
    put_header(m, ID, FLAGS, 1, 4, 1, 2);
    put_question(m, "www.example.com", 1, 1); /* www 12, example 16, com 24 */
    put_pointer(m, 12);
    size_t at = rdata_begin(m, 5, 1, 300);
    put(m, "\3CDN", 4);
    put_pointer(m, 16);
    rdata_end(m, at);
    size_t cdn = at;
    put_pointer(m, cdn);
    at = rdata_begin(m, 5, 1, 60);
    put_name(m, "Edge.Example.NET");
    rdata_end(m, at);
    size_t edge = at;
    for (unsigned i = 1; i <= 2; i++) {
        put_pointer(m, edge);
        at = rdata_begin(m, 1, 1, 30 + i);
        put32(m, 0xcb007100u + i);
        rdata_end(m, at);
    }
    put_pointer(m, edge + 5);
    at = rdata_begin(m, 2, 1, 86400);
    put(m, "\2ns", 3);
    put_pointer(m, edge + 5);
    rdata_end(m, at);
    size_t ns = at;
    put_pointer(m, ns);
    at = rdata_begin(m, 1, 1, 86400);
    put32(m, 0xcb0071ffu);
    rdata_end(m, at);
    put_opt(m, 1232, 0, "", 0);
}

START_TEST(usual_answer) {
    struct message m;
    struct wire_answer a;
    usual(&m);
    ck_assert_int_eq(parse(&m, &a), 0);
    ck_assert_uint_eq(a.id, ID);
    ck_assert_uint_eq(a.rcode, 0);
    ck_assert_uint_eq(a.extended_rcode, 0);
    ck_assert(!a.truncated && !a.has_soa);
    ck_assert_uint_eq(a.count, 4); /* the glue is not among them */
    check_name(&a.records[0].owner, "www.example.com");
    check_name(&a.records[0].target, "cdn.example.com");
    check_name(&a.records[1].owner, "cdn.example.com");
    check_name(&a.records[1].target, "edge.example.net");
    ck_assert_uint_eq(a.records[0].ttl, 300);
    ck_assert_uint_eq(a.records[0].addr.family, 0);
    ck_assert_mem_eq(a.records[0].rdata, "\3cdn\7example\3com", 17);
    ck_assert_uint_eq(a.records[0].rdata_size, 17);
    check_name(&a.records[3].owner, "edge.example.net");
    ck_assert_uint_eq(a.records[3].ttl, 32);
    ck_assert_uint_eq(a.records[3].class, 1);
    struct addr want = addr_from4((const uint8_t *)"\313\0\161\2");
    ck_assert(addr_equal(&a.records[3].addr, &want));
    ck_assert_uint_eq(a.records[3].target.length, 0);
}
END_TEST

START_TEST(c16_question_compares_without_case) {
    struct message m;
    struct wire_answer a;
    put_header(&m, ID, FLAGS, 1, 0, 0, 0);
    put_question(&m, "wWw.EXAMPLE.com", 1, 1);
    ck_assert_int_eq(parse(&m, &a), 0);
    ck_assert_uint_eq(a.count, 0);
}
END_TEST

START_TEST(c33_answers_to_something_else) {
    static const struct {
        const char *what; unsigned id, flags, questions; const char *name; unsigned type, class;
    } rows[] = {
        {"id", ID + 1, FLAGS, 1, "www.example.com", 1, 1},
        {"query", ID, 0x0100, 1, "www.example.com", 1, 1},
        {"opcode", ID, FLAGS | 0x2000, 1, "www.example.com", 1, 1},
        {"no question", ID, FLAGS, 0, "www.example.com", 1, 1},
        {"two questions", ID, FLAGS, 2, "www.example.com", 1, 1},
        {"name", ID, FLAGS, 1, "ww.example.com", 1, 1},
        {"longer name", ID, FLAGS, 1, "www.example.com.a", 1, 1},
        {"type", ID, FLAGS, 1, "www.example.com", 28, 1},
        {"class", ID, FLAGS, 1, "www.example.com", 1, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct message m;
        struct wire_answer a, before;
        memset(&a, 0x5a, sizeof a);
        before = a;
        put_header(&m, rows[i].id, rows[i].flags, rows[i].questions, 1, 0, 0);
        put_question(&m, rows[i].name, rows[i].type, rows[i].class);
        put_record(&m, "www.example.com", 1, 1, 60, "\1\2\3\4", 4);
        ck_assert_msg(parse(&m, &a) == -EPROTO, "%s", rows[i].what);
        ck_assert_mem_eq(&a, &before, sizeof a);
    }
}
END_TEST

START_TEST(truncated_is_not_read) {
    struct message m;
    struct wire_answer a;
    put_header(&m, ID, FLAGS | 0x0200, 1, 40, 1, 1);
    put_question(&m, "www.example.com", 1, 1);
    put_record(&m, "www.example.com", 1, 1, 60, "\1\2\3\4", 4);
    put(&m, "\300\14\0\1\0", 5); /* cut off in mid-record */
    ck_assert_int_eq(parse(&m, &a), 0);
    ck_assert(a.truncated);
    ck_assert_uint_eq(a.count, 0);
    ck_assert_ptr_null(a.records);
}
END_TEST

START_TEST(negative_ttl_is_the_soas) {
    static const struct { uint32_t ttl, minimum, want; } rows[] = {
        {3600, 60, 60}, {60, 3600, 60}, {0, 60, 0}, {0x80000000u, 60, 0}, {60, 0xffffffffu, 60},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct message m;
        struct wire_answer a;
        put_header(&m, ID, FLAGS | RC_NXDOMAIN, 1, 0, 3, 0);
        put_question(&m, "www.example.com", 1, 1);
        put_named(&m, "example.com", 2, 60, "ns.example.com");
        put_soa(&m, "Example.com", rows[i].ttl, rows[i].minimum);
        put_soa(&m, "com", 1, 1);
        ck_assert_int_eq(parse(&m, &a), 0);
        ck_assert_uint_eq(a.rcode, RC_NXDOMAIN);
        ck_assert(a.has_soa);
        check_name(&a.soa_owner, "example.com");
        ck_assert_uint_eq(a.soa_ttl, rows[i].want);
    }
    struct message m;
    struct wire_answer a;
    put_header(&m, ID, FLAGS, 1, 0, 1, 0);
    put_question(&m, "www.example.com", 1, 1);
    put_record(&m, "example.com", 6, 3, 60, "\0\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5", 22);
    ck_assert_int_eq(parse(&m, &a), 0);
    ck_assert(!a.has_soa); /* another class: not our business */
}
END_TEST

START_TEST(ttl_top_bit_means_zero) {
    struct message m;
    struct wire_answer a;
    answer(&m, 2, 0, 0);
    put_record(&m, "www.example.com", 1, 1, 0x7fffffffu, "\1\2\3\4", 4);
    put_record(&m, "www.example.com", 1, 1, 0x80000001u, "\1\2\3\5", 4);
    ck_assert_int_eq(parse(&m, &a), 0);
    ck_assert_uint_eq(a.records[0].ttl, 0x7fffffffu);
    ck_assert_uint_eq(a.records[1].ttl, 0);
}
END_TEST

START_TEST(extended_rcode) {
    struct message m;
    struct wire_answer a;
    put_header(&m, ID, FLAGS | 3, 1, 0, 0, 1);
    put_question(&m, "www.example.com", 1, 1);
    put_opt(&m, 1232, 0x01000000u, "\0\17\0\2\0\26", 6);
    ck_assert_int_eq(parse(&m, &a), 0);
    ck_assert_uint_eq(a.rcode, 3);
    ck_assert_uint_eq(a.extended_rcode, 19); /* not NXDOMAIN */
}
END_TEST

START_TEST(memory_is_bounded) {
    struct message m;
    struct wire_answer a;
    struct name n = name_of("www.example.com");
    usual(&m);
    int error = -ENOMEM;
    for (size_t limit = 0; error != 0; limit += 64) {
        ck_assert_uint_lt(limit, 1u << 16);
        struct arena *small = arena_new(limit);
        error = small ? wire_answer_parse(m.bytes, m.size, ID, &n, 1, small, &a) : -ENOMEM;
        ck_assert(error == 0 || error == -ENOMEM);
        arena_free(small);
    }
}
END_TEST

/* ---- malformed ------------------------------------------------------------------------------- */

/* One record each, its octets right after the question; `placed`: its pointers mean that place. */
static const struct { const char *what, *bytes; size_t size; bool placed; } bad_records[] = {
    {"nothing", "", 0, false},
    {"pointer cut", "\300", 1, false},
    {"owner to itself", "\300\41\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 16, true},
    {"owner forward", "\300\43\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 16, true},
    {"owner beyond", "\377\377\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 16, false},
    {"owner to header", "\300\13\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 16, false},
    {"owner 0x40", "\101a\0\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 17, false},
    {"owner loops", "\1a\300\41\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 18, true},
    {"no type", "\300\14\0", 3, false},
    {"no RDLENGTH", "\300\14\0\1\0\1\0\0\0\1\0", 11, false},
    {"RDLENGTH over", "\300\14\0\1\0\1\0\0\0\1\0\5\1\2\3\4", 16, false},
    {"A of 3", "\300\14\0\1\0\1\0\0\0\1\0\3\1\2\3", 15, false},
    {"A of 5", "\300\14\0\1\0\1\0\0\0\1\0\5\1\2\3\4\5", 17, false},
    {"A of 0", "\300\14\0\1\0\1\0\0\0\1\0\0", 12, false},
    {"AAAA of 15", "\300\14\0\34\0\1\0\0\0\1\0\17\0\1\2\3\4\5\6\7\0\1\2\3\4\5\6", 27, false},
    {"AAAA of 17", "\300\14\0\34\0\1\0\0\0\1\0\21\0\1\2\3\4\5\6\7\0\1\2\3\4\5\6\7\0", 29, false},
    {"CNAME of 0", "\300\14\0\5\0\1\0\0\0\1\0\0", 12, false},
    {"CNAME past RDLENGTH", "\300\14\0\5\0\1\0\0\0\1\0\3\1a\1b\0", 17, false},
    {"CNAME pointer cut by RDLENGTH", "\300\14\0\5\0\1\0\0\0\1\0\1\300\14", 14, false},
    {"CNAME and more", "\300\14\0\5\0\1\0\0\0\1\0\3\300\14x", 15, false},
    {"CNAME to itself", "\300\14\0\5\0\1\0\0\0\1\0\2\300\55", 14, true},
    {"CNAME into its header", "\300\14\0\5\0\1\0\0\0\1\0\2\300\54", 14, true},
    {"DNAME and more", "\300\14\0\47\0\1\0\0\0\1\0\2\0x", 14, false},
    {"MX of 2", "\300\14\0\17\0\1\0\0\0\1\0\2\0\1", 14, false},
    {"MX of 1", "\300\14\0\17\0\1\0\0\0\1\0\1\0", 13, false},
    {"MX and more", "\300\14\0\17\0\1\0\0\0\1\0\4\0\1\0x", 16, false},
    {"TXT of 0", "\300\14\0\20\0\1\0\0\0\1\0\0", 12, false},
    {"TXT string over", "\300\14\0\20\0\1\0\0\0\1\0\3\3ab", 15, false},
    {"SRV past RDLENGTH", "\300\14\0\41\0\1\0\0\0\1\0\7\0\1\0\2\0\3\300\14", 20, false},
    {"SVCB with pointer", "\300\14\0\100\0\1\0\0\0\1\0\4\0\1\300\14", 16, false},
    {"NSEC with pointer", "\300\14\0\57\0\1\0\0\0\1\0\4\300\14\0\0", 16, false},
    {"SOA short",
     "\300\14\0\6\0\1\0\0\0\1\0\25\0\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0", 33, false},
    {"OPT in answer", "\0\0\51\4\320\0\0\0\0\0\0", 11, false},
    {"TSIG MAC over", "\0\0\372\0\1\0\0\0\1\0\13\0\0\0\0\0\0\0\0\0\0\5", 22, false},
    {"TSIG MAC length cut", "\0\0\372\0\1\0\0\0\1\0\12\0\0\0\0\0\0\0\0\0\0", 21, false},
    {"HIP short", "\0\0\67\0\1\0\0\0\1\0\3\1\2\0", 14, false},
    {"HIP over", "\0\0\67\0\1\0\0\0\1\0\6\1\2\0\2\1\1", 17, false},
};

START_TEST(bad_record_spoils_the_answer) {
    for (size_t i = 0; i < sizeof bad_records / sizeof *bad_records; i++) {
        struct message m;
        struct wire_answer a;
        answer(&m, 1, 0, 0);
        put(&m, bad_records[i].bytes, bad_records[i].size);
        ck_assert_msg(parse(&m, &a) == -EBADMSG, "alone: %s", bad_records[i].what);
        /* c05: after a good one */
        /* in the parts nothing is taken from */
        answer(&m, 0, 1, 0);
        put(&m, bad_records[i].bytes, bad_records[i].size);
        ck_assert_msg(parse(&m, &a) == -EBADMSG, "authority: %s", bad_records[i].what);
        if (strcmp(bad_records[i].what, "OPT in answer") != 0) {
            answer(&m, 0, 0, 1);
            put(&m, bad_records[i].bytes, bad_records[i].size);
            ck_assert_msg(parse(&m, &a) == -EBADMSG, "additional: %s", bad_records[i].what);
        }
        if (bad_records[i].placed)
            continue;
        answer(&m, 2, 0, 0);
        put_record(&m, "www.example.com", 1, 1, 1, "\1\2\3\4", 4);
        put(&m, bad_records[i].bytes, bad_records[i].size);
        ck_assert_msg(parse(&m, &a) == -EBADMSG, "after: %s", bad_records[i].what);
    }
}
END_TEST

START_TEST(bad_counts_and_sections) {
    struct message m;
    struct wire_answer a;
    for (size_t field = 6; field <= 10; field += 2) {
        static const unsigned counts[] = {1, 2, 1025, 65535};
        for (size_t i = 0; i < 4; i++) {
            answer(&m, 0, 0, 0);
            m.bytes[field] = (uint8_t)(counts[i] >> 8);
            m.bytes[field + 1] = (uint8_t)counts[i];
            ck_assert_int_eq(parse(&m, &a), -EBADMSG);
            if (i > 0) {
                put_record(&m, "x", 65280, 1, 0, "\0", 1);
                ck_assert_int_eq(parse(&m, &a), -EBADMSG);
            }
        }
        /* 1,025 that are there, in whichever section */
        static struct message big;
        answer(&big, 0, 0, 0);
        big.bytes[field] = 4;
        for (unsigned i = 0; i < 1024; i++)
            put_record(&big, ".", 65280, 1, 0, "", 0);
        ck_assert_int_eq(parse(&big, &a), 0);
        big.bytes[field + 1] = 1;
        put_record(&big, ".", 65280, 1, 0, "", 0);
        ck_assert_int_eq(parse(&big, &a), -EBADMSG);
    }
    answer(&m, 0, 0, 0);
    put8(&m, 0);
    ck_assert_int_eq(parse(&m, &a), -EBADMSG); /* trailing */
    answer(&m, 0, 0, 2);
    put_opt(&m, 1232, 0, "", 0);
    put_opt(&m, 1232, 0, "", 0);
    ck_assert_int_eq(parse(&m, &a), -EBADMSG);
    answer(&m, 0, 0, 1);
    put_record(&m, "a", 41, 1232, 0, "", 0);
    ck_assert_int_eq(parse(&m, &a), -EBADMSG);
    answer(&m, 0, 1, 0);
    put_opt(&m, 1232, 0, "", 0);
    ck_assert_int_eq(parse(&m, &a), -EBADMSG);
    answer(&m, 0, 1, 0);
    put_record(&m, "example.com", 6, 1, 60, "\0\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5\0", 23);
    ck_assert_int_eq(parse(&m, &a), -EBADMSG);
    answer(&m, 0, 1, 1);
    put_soa(&m, "example.com", 60, 60);
    put(&m, "\300\14\0\1\0\1\0\0\0\1\0\5\1\2\3\4", 16);
    ck_assert_int_eq(parse(&m, &a), -EBADMSG);
    put_header(&m, ID, FLAGS, 1, 0, 0, 0);
    put(&m, "\3www\7example\3com\0\0\1\0", 20);
    ck_assert_int_eq(parse(&m, &a), -EBADMSG); /* question cut */
    put_header(&m, ID, FLAGS, 1, 0, 0, 0);
    put(&m, "\300\14\0\1\0\1", 6);
    ck_assert_int_eq(parse(&m, &a), -EBADMSG);
    m.size = 11;
    ck_assert_int_eq(parse(&m, &a), -EBADMSG);
    static struct message huge;
    answer(&huge, 0, 0, 0);
    huge.size = 65536;
    ck_assert_int_eq(parse(&huge, &a), -EBADMSG);
}
END_TEST

/* Pointer to pointer: as many as labels can be, no more; and names that grow past 255 octets. */
START_TEST(c33_compression_is_bounded) {
    for (unsigned steps = 120; steps < 135; steps++) {
        static struct message m;
        struct wire_answer a;
        answer(&m, 2, 0, 0);
        put_name(&m, ".");
        size_t at = rdata_begin(&m, 65280, 1, 0);
        size_t last = 12;
        for (unsigned i = 0; i < steps; i++) {
            size_t here = m.size;
            put_pointer(&m, last);
            last = here;
        }
        rdata_end(&m, at);
        put_pointer(&m, last);
        at = rdata_begin(&m, 1, 1, 1);
        put32(&m, 1);
        rdata_end(&m, at);
        ck_assert_int_eq(parse(&m, &a), steps + 1 <= 127 ? 0 : -EBADMSG);
        if (steps + 1 <= 127)
            check_name(&a.records[1].owner, "www.example.com");
    }
    static struct message m;
    struct wire_answer a;
    answer(&m, 1, 0, 0);
    for (unsigned label = 0; label < 4; label++) {
        put8(&m, 59 + (label == 0));
        for (unsigned i = 0; i < 59 + (label == 0); i++)
            put8(&m, 'a');
    }
    size_t first = m.size - 4 * 60 - 1;
    put_pointer(&m, 16); /* 241 + example.com 13 = 254 */
    rdata_begin(&m, 65280, 1, 0);
    ck_assert_int_eq(parse(&m, &a), 0);
    ck_assert_uint_eq(a.records[0].owner.length, 254);
    m.bytes[7] = 2;
    put(&m, "\1b", 2);
    put_pointer(&m, first); /* 256 */
    rdata_begin(&m, 65280, 1, 0);
    ck_assert_int_eq(parse(&m, &a), -EBADMSG);
}
END_TEST

START_TEST(rdata_size_is_bounded) {
    static struct message m;
    struct wire_answer a;
    static uint8_t octets[5000];
    for (size_t size = 4094; size < 4100; size++) {
        answer(&m, 1, 0, 0);
        put_record(&m, "www.example.com", 65280, 1, 0, octets, size);
        ck_assert_int_eq(parse(&m, &a), size <= WIRE_RDATA_MAX ? 0 : -EBADMSG);
    }
    /* Names too: a HIP with 16 and with 17 rendezvous servers of 250 octets. */
    for (unsigned servers = 16; servers <= 17; servers++) {
        answer(&m, 1, 0, 0);
        put_name(&m, "www.example.com");
        size_t at = rdata_begin(&m, 55, 1, 0);
        put(&m, "\1\2\0\1hk", 6);
        for (unsigned i = 0; i < servers; i++) {
            for (unsigned label = 0; label < 3; label++) {
                put8(&m, 63);
                put(&m, octets, 63);
            }
            put8(&m, 56);
            put(&m, octets, 56);
            put8(&m, 0);
        }
        rdata_end(&m, at);
        ck_assert_int_eq(parse(&m, &a), servers == 16 ? 0 : -EBADMSG);
    }
    /* More strings than one octet can count. */
    answer(&m, 1, 0, 0);
    put_record(&m, "www.example.com", 16, 1, 0, octets, 1000);
    ck_assert_int_eq(parse(&m, &a), 0);
    ck_assert_uint_eq(a.records[0].rdata_size, 1000);
}
END_TEST

/* ---- types, with ldns as the second opinion -------------------------------------------------- */

static void unfold(uint8_t *wire, size_t size) {
    for (size_t at = 0; at < size && wire[at]; at += wire[at] + 1u)
        for (size_t i = at + 1; i <= at + wire[at]; i++)
            wire[i] = (uint8_t)(wire[i] >= 'A' && wire[i] <= 'Z' ? wire[i] + 32 : wire[i]);
}

/* What ldns makes of the first answer: its fields one after the other, names folded if `folds`. */
static size_t ldns_rdata(const struct message *m, bool folds, uint8_t *out) {
    ldns_pkt *p = NULL;
    size_t used = 0;
    ck_assert_int_eq(ldns_wire2pkt(&p, m->bytes, m->size), LDNS_STATUS_OK);
    const ldns_rr *rr = ldns_rr_list_rr(ldns_pkt_answer(p), 0);
    for (size_t i = 0; i < ldns_rr_rd_count(rr); i++) {
        const ldns_rdf *field = ldns_rr_rdf(rr, i);
        memcpy(out + used, ldns_rdf_data(field), ldns_rdf_size(field));
        if (folds && ldns_rdf_get_type(field) == LDNS_RDF_TYPE_DNAME)
            unfold(out + used, ldns_rdf_size(field));
        used += ldns_rdf_size(field);
    }
    ldns_pkt_free(p);
    return used;
}

START_TEST(every_type_ldns_knows) {
    static const struct { const char *text; bool folds; } rows[] = {
        {"x. 1 IN A 192.0.2.1", true}, {"x. 1 IN AAAA 2001:db8::1", true},
        {"x. 1 IN NS Ns.Example.", true}, {"x. 1 IN CNAME Target.Example.", true},
        {"x. 1 IN DNAME Target.Example.", true}, {"x. 1 IN PTR Host.Example.", true},
        {"x. 1 IN SOA Ns.Example. Root.Example. 1 2 3 4 5", true},
        {"x. 1 IN MX 10 Mail.Example.", true}, {"x. 1 IN TXT \"One\" \"\" \"Three\"", true},
        {"x. 1 IN SRV 1 2 443 Srv.Example.", true}, {"x. 1 IN KX 1 Kx.Example.", true},
        {"x. 1 IN NAPTR 1 2 \"S\" \"SIP+D2U\" \"\" Sip.Example.", true},
        {"x. 1 IN RP Who.Example. Txt.Example.", true}, {"x. 1 IN AFSDB 1 Afs.Example.", true},
        {"x. 1 IN HINFO \"Cpu\" \"Os\"", true}, {"x. 1 IN MINFO R.Example. E.Example.", true},
        {"x. 1 IN PX 1 A.Example. B.Example.", true},
        {"x. 1 IN CAA 0 issue \"Ca.Example\"", true}, {"x. 1 IN SSHFP 1 1 0102030405", true},
        {"x. 1 IN TLSA 3 1 1 0102030405", true}, {"x. 1 IN DS 1 8 2 0102030405", true},
        {"x. 1 IN DNSKEY 256 3 8 AwEAAQ==", true}, {"x. 1 IN URI 1 2 \"https://X.Example/\"", true},
        {"x. 1 IN NSEC Next.Example. A MX", false},
        {"x. 1 IN NSEC3 1 0 1 ab 2t7b4g4vsa5smi47k61mv5bv1a22bojr A", true},
        {"x. 1 IN NSEC3PARAM 1 0 1 -", true}, {"x. 1 IN LOC 1 N 2 E 3m", true},
        {"x. 1 IN RRSIG A 8 1 60 20300101000000 20200101000000 1 Signer.Example. AwEAAQ==", true},
        {"x. 1 IN EUI48 01-02-03-04-05-06", true},
        {"x. 1 IN EUI64 01-02-03-04-05-06-07-08", true}, {"x. 1 IN L32 1 192.0.2.1", true},
        {"x. 1 IN L64 1 2001:0DB8:1140:1000", true}, {"x. 1 IN LP 1 Lp.Example.", false},
        {"x. 1 IN APL 1:192.0.2.0/24 !2:2001:db8::/32", true},
        {"x. 1 IN OPENPGPKEY AwEAAQ==", true}, {"x. 1 IN CSYNC 1 3 A NS", true},
        {"x. 1 IN SVCB 1 Svc.Example.", false}, {"x. 1 IN HTTPS 0 Svc.Example.", false},
        {"x. 1 IN TYPE65280 \\# 3 010203", true}, {"x. 1 IN TYPE65280 \\# 0", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ldns_rr *rr = NULL;
        static struct message m;
        struct wire_answer a;
        uint8_t *wire, want[WIRE_RDATA_MAX];
        size_t size;
        ck_assert_msg(ldns_rr_new_frm_str(&rr, rows[i].text, 0, NULL, NULL) == LDNS_STATUS_OK,
                      "%s", rows[i].text);
        ck_assert_int_eq(ldns_rr2wire(&wire, rr, LDNS_SECTION_ANSWER, &size), LDNS_STATUS_OK);
        answer(&m, 1, 0, 0);
        put(&m, wire, size);
        ck_assert_msg(parse(&m, &a) == 0, "%s", rows[i].text);
        ck_assert_uint_eq(a.records[0].type, ldns_rr_get_type(rr));
        size = ldns_rdata(&m, rows[i].folds, want);
        ck_assert_msg(a.records[0].rdata_size == size, "%s", rows[i].text);
        ck_assert_msg(memcmp(a.records[0].rdata, want, size) == 0, "%s", rows[i].text);
        free(wire);
        ldns_rr_free(rr);
    }
}
END_TEST

START_TEST(names_in_rdata_are_decompressed) {
    struct message m;
    struct wire_answer a;
    answer(&m, 1, 0, 0);
    put_pointer(&m, 12);
    size_t at = rdata_begin(&m, 15, 1, 1);
    put16(&m, 10);
    put(&m, "\4MAIL", 5);
    put_pointer(&m, 16);
    rdata_end(&m, at);
    ck_assert_int_eq(parse(&m, &a), 0);
    ck_assert_uint_eq(a.records[0].rdata_size, 20);
    ck_assert_mem_eq(a.records[0].rdata, "\0\12\4mail\7example\3com", 20);
}
END_TEST

/* ---- hostile in quantity --------------------------------------------------------------------- */

/* Whatever comes of it: names are names, and no address that is not in the message. */
static void try_answer(const uint8_t *bytes, size_t size, const char *name, uint16_t type,
                       bool whole) {
    struct wire_answer a;
    struct name n = name_of(name);
    uint8_t *copy = exact(bytes, size);
    arena_reset(arena);
    int result = wire_answer_parse(copy, size, ID, &n, type, arena, &a);
    free(copy);
    if (result < 0) {
        ck_assert(result == -EBADMSG || result == -EPROTO || result == -ENOMEM);
        return;
    }
    ck_assert(whole || a.truncated);
    for (unsigned i = 0; i < a.count; i++) {
        const struct wire_record *r = &a.records[i];
        ck_assert(name_valid(&r->owner));
        ck_assert(r->target.length == 0 || name_valid(&r->target));
        ck_assert_uint_le(r->ttl, 0x7fffffffu);
        if (r->addr.family == 0)
            continue;
        ck_assert(addr_valid(&r->addr));
        ck_assert_ptr_nonnull(memmem(bytes, size, r->addr.bytes, r->addr.family == 4 ? 4 : 16));
    }
}

static void every_change(struct message *m, const char *name, uint16_t type) {
    struct wire_answer a;
    ck_assert_int_eq(parse_as(m, name, type, &a), 0);
    for (size_t size = 0; size < m->size; size++)
        try_answer(m->bytes, size, name, type, false);
    for (size_t at = 0; at < m->size; at++) {
        uint8_t was = m->bytes[at];
        for (unsigned value = 0; value < 256; value++) {
            m->bytes[at] = (uint8_t)value;
            try_answer(m->bytes, m->size, name, type, true);
        }
        m->bytes[at] = was;
    }
}

START_TEST(every_truncation_and_mutation) {
    struct message m;
    usual(&m);
    every_change(&m, "www.example.com", 1);

    put_header(&m, ID, FLAGS | RC_NXDOMAIN, 1, 1, 1, 1);
    put_question(&m, "no.example.com", 28, 1);
    put_named(&m, "no.example.com", 5, 60, "gone.example.com");
    put_soa(&m, "example.com", 3600, 60);
    put_opt(&m, 512, 0, "\0\17\0\2\0\26", 6);
    every_change(&m, "no.example.com", 28);

    put_header(&m, ID, FLAGS, 1, 3, 0, 0);
    put_question(&m, "a.old.example", 28, 1);
    put_named(&m, "old.example", 39, 60, "new.example");
    put_named(&m, "a.old.example", 5, 60, "a.new.example");
    put_record(&m, "a.new.example", 28, 1, 60, "\40\1\15\270\0\0\0\0\0\0\0\0\0\0\0\1", 16);
    every_change(&m, "a.old.example", 28);

    put_header(&m, ID, FLAGS, 1, 3, 0, 0);
    put_question(&m, "m.example", 15, 1);
    put_record(&m, "m.example", 15, 1, 60, "\0\12\2mx\300\16", 7);
    put_record(&m, "m.example", 16, 1, 60, "\3abc\0\2xy", 8);
    put_record(&m, "m.example", 35, 1, 60, "\0\1\0\2\1S\0\0\300\14", 10);
    every_change(&m, "m.example", 15);
}
END_TEST

int main(void) {
    Suite *s = suite_create("wire: answers");
    TCase *t = tcase_create("answer");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, arena_setup, arena_teardown);
    tcase_add_test(t, usual_answer);
    tcase_add_test(t, c16_question_compares_without_case);
    tcase_add_test(t, c33_answers_to_something_else);
    tcase_add_test(t, truncated_is_not_read);
    tcase_add_test(t, negative_ttl_is_the_soas);
    tcase_add_test(t, ttl_top_bit_means_zero);
    tcase_add_test(t, extended_rcode);
    tcase_add_test(t, memory_is_bounded);
    tcase_add_test(t, bad_record_spoils_the_answer);
    tcase_add_test(t, bad_counts_and_sections);
    tcase_add_test(t, c33_compression_is_bounded);
    tcase_add_test(t, rdata_size_is_bounded);
    tcase_add_test(t, every_type_ldns_knows);
    tcase_add_test(t, names_in_rdata_are_decompressed);
    tcase_add_test(t, every_truncation_and_mutation);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
