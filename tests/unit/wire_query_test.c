/* wire_query_test.c: what clients send, and what goes back to them and up. */
#include "resolver/wire/wire.h"

#include <errno.h>
#include <ldns/ldns.h>

#include "tests/unit/dns_message.h"

#define RD 0x0100

static int parse(const struct message *m, struct wire_query *q) {
    uint8_t *bytes = exact(m->bytes, m->size);
    int result = wire_query_parse(bytes, m->size, q);
    free(bytes);
    return result;
}

static enum reason reason_of(const struct message *m) {
    struct wire_query q;
    ck_assert_int_eq(parse(m, &q), 0);
    return q.reason;
}

static void query(struct message *m, const char *name, unsigned type, unsigned additional) {
    put_header(m, 0x1234, RD, 1, 0, 0, additional);
    put_question(m, name, type, 1);
}

START_TEST(c16_case_is_folded_and_kept) {
    struct message m;
    struct wire_query q;
    query(&m, "ExAmPlE.COM", 28, 0);
    ck_assert_int_eq(parse(&m, &q), 0);
    struct name want = name_of("example.com");
    ck_assert_int_eq(q.reason, REASON_ALLOWED);
    ck_assert(q.question);
    ck_assert(name_equal(&q.name, &want));
    ck_assert_mem_eq(q.raw, "\7ExAmPlE\3COM", 13);
    ck_assert_int_eq(q.id, 0x1234);
    ck_assert_int_eq(q.type, 28);
    ck_assert_int_eq(q.class, 1);
    ck_assert(q.rd && !q.cd && !q.edns && !q.dnssec_ok);
    ck_assert_int_eq(q.udp_size, 512);
}
END_TEST

START_TEST(flags_are_read) {
    struct message m;
    struct wire_query q;
    put_header(&m, 1, 0x0010, 1, 0, 0, 0);
    put_question(&m, "a", 1, 1);
    ck_assert_int_eq(parse(&m, &q), 0);
    ck_assert(!q.rd && q.cd);
    /* AA, TC, RA, Z, AD and an RCODE mean nothing in a query. */
    put_header(&m, 1, 0x07ef, 1, 0, 0, 0);
    put_question(&m, "a", 1, 1);
    ck_assert_int_eq(reason_of(&m), REASON_ALLOWED);
}
END_TEST

START_TEST(c27_udp_size) {
    static const struct { unsigned said, meant; } rows[] = {
        {0, 512}, {1, 512}, {511, 512}, {512, 512}, {513, 513}, {1231, 1231}, {1232, 1232},
        {1233, 1232}, {4096, 1232}, {65535, 1232},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct message m;
        struct wire_query q;
        query(&m, "example.com", 1, 1);
        put_opt(&m, rows[i].said, i % 2 ? 0x8000 : 0, "", 0);
        ck_assert_int_eq(parse(&m, &q), 0);
        ck_assert_int_eq(q.reason, REASON_ALLOWED);
        ck_assert(q.edns);
        ck_assert_int_eq(q.dnssec_ok, i % 2);
        ck_assert_uint_eq(q.udp_size, rows[i].meant);
    }
}
END_TEST

START_TEST(c27_options_of_the_client_are_ignored) {
    static const struct { const char *bytes; size_t size; } options[] = {
        {"\0\12\0\10abcdefgh", 12},                       /* COOKIE */
        {"\0\3\0\0", 4},                                  /* NSID */
        {"\0\10\0\7\0\1\30\0\300\0\2", 11},               /* ECS */
        {"\0\14\0\5\0\0\0\0\0\0\3\0\0", 13},              /* PADDING, NSID */
        {"\377\377\0\1x", 5},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        struct message m;
        query(&m, "example.com", 1, 1);
        put_opt(&m, 1232, 0, options[i].bytes, options[i].size);
        ck_assert_int_eq(reason_of(&m), REASON_ALLOWED);
    }
}
END_TEST

START_TEST(c27_edns_version) {
    struct message m;
    struct wire_query q;
    /* Options of a version we do not know cannot be malformed. */
    query(&m, "example.com", 1, 1);
    put_opt(&m, 4096, 1u << 16, "\0\3\0\377", 4);
    ck_assert_int_eq(parse(&m, &q), 0);
    ck_assert_int_eq(q.reason, REASON_BAD_VERSION);
    ck_assert(q.edns && q.question);
}
END_TEST

START_TEST(signatures_are_ignored) {
    struct message m;
    query(&m, "example.com", 1, 3);
    put_opt(&m, 1232, 0, "", 0);
    put_record(&m, "key", 250, 255, 0, "junk", 4);
    put_record(&m, ".", 24, 255, 0, "", 0);
    ck_assert_int_eq(reason_of(&m), REASON_ALLOWED);
}
END_TEST

START_TEST(classes_and_opcodes) {
    struct message m;
    struct wire_query q;
    for (unsigned class = 0; class <= 300; class++) {
        put_header(&m, 7, RD, 1, 0, 0, 0);
        put_question(&m, "version.bind", 16, class);
        ck_assert_int_eq(reason_of(&m), class == 1 ? REASON_ALLOWED : REASON_BAD_CLASS);
    }
    for (unsigned opcode = 1; opcode < 16; opcode++) {
        put_header(&m, 7, opcode << 11, 1, 1, 0, 0);
        put_question(&m, "example.com", 6, 1);
        ck_assert_int_eq(parse(&m, &q), 0);
        ck_assert_int_eq(q.reason, REASON_BAD_OPCODE);
        ck_assert_int_eq(q.opcode, opcode);
        ck_assert(q.question);
        put_header(&m, 7, opcode << 11, 0, 0, 0, 0);
        ck_assert_int_eq(parse(&m, &q), 0);
        ck_assert_int_eq(q.reason, REASON_BAD_OPCODE);
        ck_assert(!q.question);
    }
}
END_TEST

START_TEST(not_to_be_answered) {
    struct message m;
    struct wire_query q, before;
    memset(&q, 0x5a, sizeof q);
    before = q;
    query(&m, "example.com", 1, 0);
    for (m.size = 0; m.size < 12; m.size++)
        ck_assert_int_eq(parse(&m, &q), -EBADMSG);
    put_header(&m, 1, 0x8000 | RD, 1, 0, 0, 0);
    put_question(&m, "example.com", 1, 1);
    ck_assert_int_eq(parse(&m, &q), -EBADMSG);
    m.size = 65536;
    m.bytes[2] = 0;
    ck_assert_int_eq(parse(&m, &q), -EBADMSG);
    ck_assert_mem_eq(&q, &before, sizeof q);
}
END_TEST

/* ---- malformed ------------------------------------------------------------------------------- */

static void no_question(struct message *m) { put_header(m, 1, RD, 0, 0, 0, 0); }
static void two_questions(struct message *m) {
    put_header(m, 1, RD, 2, 0, 0, 0);
    put_question(m, "a", 1, 1);
    put_question(m, "b", 1, 1);
}
static void answer_in_query(struct message *m) {
    put_header(m, 1, RD, 1, 1, 0, 0);
    put_question(m, "a", 1, 1);
    put_record(m, "a", 1, 1, 0, "\1\2\3\4", 4);
}
static void authority_in_query(struct message *m) {
    put_header(m, 1, RD, 1, 0, 1, 0);
    put_question(m, "a", 1, 1);
    put_record(m, "a", 1, 1, 0, "\1\2\3\4", 4);
}
static void two_opts(struct message *m) {
    query(m, "a", 1, 2);
    put_opt(m, 1232, 0, "", 0);
    put_opt(m, 1232, 0, "", 0);
}
static void opt_with_owner(struct message *m) {
    query(m, "a", 1, 1);
    put_record(m, "a", 41, 1232, 0, "", 0);
}
static void opt_owner_points(struct message *m) {
    query(m, "a", 1, 1);
    put_pointer(m, 12);
    rdata_begin(m, 41, 1232, 0);
}
static void option_header_cut(struct message *m) {
    query(m, "a", 1, 1);
    put_opt(m, 1232, 0, "\0\3\0", 3);
}
static void option_runs_over(struct message *m) {
    query(m, "a", 1, 1);
    put_opt(m, 1232, 0, "\0\3\0\0\0\3\0\1", 8);
}
static void trailing(struct message *m) {
    query(m, "a", 1, 0);
    put8(m, 0);
}
static void trailing_after_opt(struct message *m) {
    query(m, "a", 1, 1);
    put_opt(m, 1232, 0, "", 0);
    put8(m, 0);
}
static void rdlength_runs_over(struct message *m) {
    query(m, "a", 1, 1);
    put_opt(m, 1232, 0, "", 0);
    m->bytes[m->size - 1] = 1;
}
static void additional_missing(struct message *m) { query(m, "a", 1, 1); }
static void additional_many(struct message *m) {
    query(m, "a", 1, 1025);
    for (unsigned i = 0; i < 1025; i++)
        put_record(m, ".", 1, 1, 0, "", 0);
}
static void question_to_itself(struct message *m) {
    put_header(m, 1, RD, 1, 0, 0, 0);
    put_pointer(m, 12);
    put32(m, 0x00010001);
}
static void question_to_header(struct message *m) {
    put_header(m, 1, RD, 1, 0, 0, 0);
    put_pointer(m, 5);
    put32(m, 0x00010001);
}
static void question_forward(struct message *m) {
    put_header(m, 1, RD, 1, 0, 0, 0);
    put_pointer(m, 18);
    put32(m, 0x00010001);
    put8(m, 0);
}
static void label_type_40(struct message *m) {
    put_header(m, 1, RD, 1, 0, 0, 0);
    put8(m, 0x41);
    put(m, "aaaaaaaa", 8);
    put32(m, 0x00010001);
}
static void label_type_80(struct message *m) {
    put_header(m, 1, RD, 1, 0, 0, 0);
    put8(m, 0x80);
    put32(m, 0);
    put32(m, 0x00010001);
}
static void name_of_256(struct message *m) {
    char text[300];
    memset(text, 'a', sizeof text);
    text[63] = text[127] = text[191] = '.';
    text[254] = '\0'; /* 64 + 64 + 64 + 63 + 1 */
    query(m, text, 1, 0);
    ck_assert_uint_eq(m->size, 12 + 256 + 4);
}
static void name_without_end(struct message *m) {
    put_header(m, 1, RD, 1, 0, 0, 0);
    put(m, "\3abc", 4);
}
static void question_cut(struct message *m) {
    put_header(m, 1, RD, 1, 0, 0, 0);
    put_name(m, "a");
    put16(m, 1);
    put8(m, 0);
}

START_TEST(malformed) {
    static const struct { const char *what; void (*make)(struct message *); } rows[] = {
        {"no question", no_question}, {"two questions", two_questions},
        {"answer", answer_in_query}, {"authority", authority_in_query}, {"two OPTs", two_opts},
        {"OPT with owner", opt_with_owner}, {"OPT owner points", opt_owner_points},
        {"option header", option_header_cut}, {"option over", option_runs_over},
        {"trailing", trailing}, {"trailing after OPT", trailing_after_opt},
        {"RDLENGTH", rdlength_runs_over}, {"no additional", additional_missing},
        {"many", additional_many}, {"to itself", question_to_itself},
        {"to header", question_to_header}, {"forward", question_forward},
        {"0x40", label_type_40}, {"0x80", label_type_80}, {"256", name_of_256},
        {"no end", name_without_end}, {"question cut", question_cut},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static struct message m;
        rows[i].make(&m);
        ck_assert_msg(reason_of(&m) == REASON_MALFORMED, "%s", rows[i].what);
    }
}
END_TEST

START_TEST(c20_unusual_names_are_names) {
    struct wire_query q;
    char text[NAME_TEXT_MAX];
    static const struct { const char *wire; size_t size; const char *text; } rows[] = {
        {"\0", 1, "."},
        {"\3a.b\0", 5, "a\\.b"},
        {"\1a\1b\0", 5, "a.b"},
        {"\4a\0b\\\0", 6, "a\\000b\\\\"},
        {"\6_dmARC\0", 8, "_dmarc"},
        {"\2\377\200\0", 4, "\\255\\128"},
        {"\1*\7example\0", 11, "*.example"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct message m;
        put_header(&m, 1, RD, 1, 0, 0, 0);
        put(&m, rows[i].wire, rows[i].size);
        put32(&m, 0x00010001);
        ck_assert_int_eq(parse(&m, &q), 0);
        ck_assert_int_eq(q.reason, REASON_ALLOWED);
        name_to_text(&q.name, text, sizeof text);
        ck_assert_str_eq(text, rows[i].text);
    }
    /* 255 octets, of the longest labels and of the shortest. */
    for (unsigned label = 1; label <= 61; label += 60) {
        struct message m;
        put_header(&m, 1, RD, 1, 0, 0, 0);
        for (size_t used = 0; used + label + 2 <= 255; used += label + 1) {
            put8(&m, label);
            for (unsigned i = 0; i < label; i++)
                put8(&m, 'Q');
        }
        size_t rest = 12 + 254 - m.size; /* what the last label must fill */
        if (rest > 0) {
            put8(&m, (unsigned)rest - 1);
            for (size_t i = 1; i < rest; i++)
                put8(&m, 'q');
        }
        put8(&m, 0);
        put32(&m, 0x00010001);
        ck_assert_uint_eq(m.size, 12 + 255 + 4);
        ck_assert_int_eq(parse(&m, &q), 0);
        ck_assert_int_eq(q.reason, REASON_ALLOWED);
        ck_assert_uint_eq(q.name.length, 255);
        ck_assert(name_valid(&q.name));
    }
}
END_TEST

/* ---- hostile in quantity --------------------------------------------------------------------- */

/* Whatever was accepted, or refused with a word, must lead to a reply that others can read. */
static void reply_is_sound(const struct wire_query *q, int expected_rcode) {
    static const struct addr addr = {.family = 4, .bytes = {192, 0, 2, 1}};
    struct wire_reply r = {.rcode = (uint8_t)expected_rcode, .ede = EDE_OTHER, .ede_text = "text"};
    if (q->reason == REASON_ALLOWED) {
        r.addrs = &addr;
        r.addr_count = 1;
        r.ttl = 30;
    }
    uint8_t *out = malloc(q->udp_size);
    int size = wire_build_reply(q, &r, q->udp_size, out, q->udp_size);
    ck_assert_int_ge(size, 12);
    ldns_pkt *p = NULL;
    ck_assert_int_eq(ldns_wire2pkt(&p, out, (size_t)size), LDNS_STATUS_OK);
    ck_assert(ldns_pkt_qr(p));
    ck_assert_uint_eq(ldns_pkt_id(p), q->id);
    ck_assert_uint_eq(ldns_pkt_qdcount(p), q->question);
    ck_assert_uint_eq(ldns_pkt_edns(p), q->edns);
    ldns_pkt_free(p);
    free(out);
}

static void try_query(const uint8_t *bytes, size_t size, bool whole) {
    struct wire_query q;
    uint8_t *copy = exact(bytes, size);
    int result = wire_query_parse(copy, size, &q);
    free(copy);
    if (result < 0) {
        ck_assert_int_eq(result, -EBADMSG);
        return;
    }
    if (!whole)
        ck_assert_int_ne(q.reason, REASON_ALLOWED);
    if (q.question)
        ck_assert(name_valid(&q.name));
    ck_assert_uint_ge(q.udp_size, 512);
    ck_assert_uint_le(q.udp_size, WIRE_UDP_SIZE);
    reply_is_sound(&q, q.reason == REASON_BAD_VERSION && q.edns ? RC_BADVERS : RC_FORMERR);
}

START_TEST(every_truncation_and_mutation) {
    struct message set[3];
    query(&set[0], "WwW.example.com", 1, 0);
    query(&set[1], "WwW.example.com", 28, 1);
    put_opt(&set[1], 4096, 0x8000, "\0\12\0\10abcdefgh\0\3\0\0", 16);
    query(&set[2], "_sip._tcp.example", 33, 2);
    put_opt(&set[2], 1232, 0, "\0\14\0\1x", 5);
    put_record(&set[2], "key", 250, 255, 0, "junk", 4);
    for (size_t k = 0; k < sizeof set / sizeof *set; k++) {
        struct message *m = &set[k];
        ck_assert_int_eq(reason_of(m), REASON_ALLOWED);
        for (size_t size = 0; size < m->size; size++)
            try_query(m->bytes, size, false);
        for (size_t at = 0; at < m->size; at++) {
            uint8_t was = m->bytes[at];
            for (unsigned value = 0; value < 256; value++) {
                m->bytes[at] = (uint8_t)value;
                try_query(m->bytes, m->size, true);
            }
            m->bytes[at] = was;
        }
    }
}
END_TEST

/* ---- upstream query -------------------------------------------------------------------------- */

START_TEST(upstream_holds_nothing_of_the_client) {
    struct message want;
    struct name name = name_of("WWW.Example.COM");
    put_header(&want, 0xbeef, RD, 1, 0, 0, 1);
    put_question(&want, "www.example.com", 28, 1);
    put_opt(&want, 1232, 0, "", 0);
    for (size_t size = 0; size <= want.size + 1; size++) {
        uint8_t *out = malloc(size ? size : 1);
        int built = wire_build_upstream(0xbeef, &name, 28, out, size);
        if (size < want.size) {
            ck_assert_int_eq(built, -ENOSPC);
        } else {
            ck_assert_int_eq(built, (int)want.size);
            ck_assert_mem_eq(out, want.bytes, want.size);
        }
        free(out);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("wire: queries");
    TCase *t = tcase_create("query");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, c16_case_is_folded_and_kept);
    tcase_add_test(t, flags_are_read);
    tcase_add_test(t, c27_udp_size);
    tcase_add_test(t, c27_options_of_the_client_are_ignored);
    tcase_add_test(t, c27_edns_version);
    tcase_add_test(t, signatures_are_ignored);
    tcase_add_test(t, classes_and_opcodes);
    tcase_add_test(t, not_to_be_answered);
    tcase_add_test(t, malformed);
    tcase_add_test(t, c20_unusual_names_are_names);
    tcase_add_test(t, every_truncation_and_mutation);
    tcase_add_test(t, upstream_holds_nothing_of_the_client);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
