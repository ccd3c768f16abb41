/* vet_test.c: which answers pass, what is kept of them, and which are refused. */
#include "resolver/vet/vet.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/scarce.h"

#define RECORDS_MAX 400

/* ---- answers as text --------------------------------------------------------------------------
 * "owner ttl TYPE value; owner ttl TYPE value"; CH:TYPE for another class. */

struct built {
    struct wire_answer answer;
    struct wire_record records[RECORDS_MAX];
    char text[4096]; /* rdata of other types points into it */
};

static struct name name_of(const char *text) {
    struct name n;
    ck_assert_msg(name_from_text(text, &n) == 0, "%s", text);
    return n;
}

static uint16_t type_of(const char *text) {
    static const struct { const char *text; uint16_t type; } types[] = {
        {"A", 1}, {"NS", 2}, {"CNAME", 5}, {"SOA", 6}, {"PTR", 12}, {"MX", 15}, {"TXT", 16},
        {"SIG", 24}, {"AAAA", 28}, {"NXT", 30}, {"SRV", 33}, {"DNAME", 39}, {"OPT", 41},
        {"RRSIG", 46}, {"NSEC", 47}, {"SVCB", 64}, {"HTTPS", 65}, {"ANY", 255}, {"CAA", 257},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(text, types[i].text) == 0)
            return types[i].type;
    return (uint16_t)strtoul(text, NULL, 10);
}

static void add_record(struct built *b, char *text) {
    struct wire_record *r = &b->records[b->answer.count++];
    char *owner = strsep(&text, " "), *ttl = strsep(&text, " "), *type = strsep(&text, " ");
    const char *value = text;
    bool chaos = strncmp(type, "CH:", 3) == 0;
    *r = (struct wire_record){.owner = name_of(owner), .ttl = (uint32_t)strtoul(ttl, NULL, 10),
                              .type = type_of(type + (chaos ? 3 : 0)), .class = chaos ? 3 : 1};
    if (r->type == TYPE_CNAME || r->type == TYPE_DNAME)
        r->target = name_of(value);
    if (r->type == TYPE_A || r->type == TYPE_AAAA)
        ck_assert(addr_parse(value, &r->addr) == 0);
    r->rdata = (const uint8_t *)value;
    r->rdata_size = value ? (uint16_t)strlen(value) : 0;
}

static struct built *build(const char *records) {
    struct built *b = calloc(1, sizeof *b);
    char *left = b->text, *record;
    ck_assert_ptr_nonnull(b);
    ck_assert_int_lt(snprintf(b->text, sizeof b->text, "%s", records), (int)sizeof b->text);
    while (*records && (record = strsep(&left, ";")))
        add_record(b, record);
    b->answer.records = b->records;
    return b;
}

/* "ADDRS 60 hop=30 hop=60 > value value" */
static const char *describe(const struct vetted *v, char *text, size_t size) {
    static const char *const kinds[] = {"ADDRS", "OTHERS", "NODATA", "NXDOMAIN"};
    const struct wire_hop *chain;
    const struct addr *addrs;
    const struct wire_record *others;
    char part[NAME_TEXT_MAX];
    int used = snprintf(text, size, "%s %u", kinds[vetted_kind(v)], vetted_ttl(v));
    unsigned hops = vetted_chain(v, &chain), addr_count = vetted_addrs(v, &addrs);
    unsigned other_count = vetted_others(v, &others);
    for (unsigned i = 0; i < hops; i++) {
        name_to_text(chain[i].target, part, sizeof part);
        used += snprintf(text + used, size - (size_t)used, " %s=%u", part, chain[i].ttl);
    }
    for (unsigned i = 0; i < addr_count; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%s", i ? " " : " > ",
                         addr_format(&addrs[i], part));
    for (unsigned i = 0; i < other_count; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%.*s", i ? " " : " > ",
                         (int)others[i].rdata_size, (const char *)others[i].rdata);
    return text;
}

static int vet(const char *asked, const char *type, struct built *b, struct vetted **ret) {
    struct name name = name_of(asked);
    return vet_answer(&name, type_of(type), &b->answer, ret);
}

/* What the answer comes to: a description, or the tag of the reason. */
static void check(const char *asked, const char *type, struct built *b, const char *want,
                  const char *what) {
    struct vetted *v = NULL;
    char text[8192];
    int result = vet(asked, type, b, &v);
    free(b); /* nothing of what was kept may lie in there */
    if (result < 0) {
        ck_assert_ptr_null(v);
        ck_assert_msg(strcmp(reason_tag((uint32_t)-result), want) == 0, "%s: %s, not %s", what,
                      reason_tag((uint32_t)-result), want);
        return;
    }
    describe(v, text, sizeof text);
    ck_assert_msg(strcmp(text, want) == 0, "%s: %s, not %s", what, text, want);
    ck_assert_uint_ge(vetted_bytes(v), 1);
    vetted_unref(v);
}

struct row { const char *asked, *type, *records, *want; };

static void check_rows(const struct row *rows, size_t count) {
    for (size_t i = 0; i < count; i++)
        check(rows[i].asked, rows[i].type, build(rows[i].records), rows[i].want,
              rows[i].records);
}
#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof *(rows))

/* ---- positive -------------------------------------------------------------------------------- */

START_TEST(addresses) {
    static const struct row rows[] = {
        {"a", "A", "a 60 A 192.0.2.1", "ADDRS 60 > 192.0.2.1"},
        {"a", "A", "a 60 A 192.0.2.9;a 30 A 192.0.2.1", "ADDRS 30 > 192.0.2.9 192.0.2.1"},
        {"a", "A", "a 60 A 192.0.2.9;a 9 A 192.0.2.1;a 8 A 192.0.2.9",
         "ADDRS 8 > 192.0.2.9 192.0.2.1"},
        {"a", "A", "a 0 A 192.0.2.1", "ADDRS 0 > 192.0.2.1"},
        {"a", "A", "a 4294967295 A 192.0.2.1", "ADDRS 4294967295 > 192.0.2.1"},
        {"a", "AAAA", "a 60 AAAA 2001:db8::1;a 60 AAAA 2001:db8::2",
         "ADDRS 60 > 2001:db8::1 2001:db8::2"},
        /* c16: asked in whatever case, the names here are canonical */
        {"WwW.eXample.", "A", "www.example 60 A 192.0.2.1", "ADDRS 60 > 192.0.2.1"},
        /* c24: records nobody asked for */
        {"a", "A", "b 1 A 192.0.2.6;a 60 A 192.0.2.1;x.a 1 A 192.0.2.7",
         "ADDRS 60 > 192.0.2.1"},
        {"a", "A", "b 1 CH:A 192.0.2.6;b 1 CNAME c;b 1 CNAME d;b 1 CNAME b;a 60 A 192.0.2.1",
         "ADDRS 60 > 192.0.2.1"},
        {"a", "A", "a 1 TXT x;a 1 SIG x;a 1 RRSIG x;a 60 A 192.0.2.1", "ADDRS 60 > 192.0.2.1"},
        {"ab.c", "A", "a.b.c 60 A 192.0.2.1", "NODATA 0"},
    };
    CHECK_ROWS(rows);
}
END_TEST

START_TEST(c23_chains) {
    static const struct row rows[] = {
        {"a", "A", "a 50 CNAME b;b 60 A 192.0.2.1", "ADDRS 50 b=50 > 192.0.2.1"},
        {"a", "A", "a 50 CNAME b.x;b.x 40 CNAME c.y;c.y 60 A 192.0.2.1",
         "ADDRS 40 b.x=50 c.y=40 > 192.0.2.1"},
        /* in whatever order they come */
        {"a", "A", "c 60 A 192.0.2.1;b 40 CNAME c;a 50 CNAME b", "ADDRS 40 b=50 c=40 > 192.0.2.1"},
        {"a", "A", "a 50 CNAME B.X;b.x 60 A 192.0.2.1", "ADDRS 50 b.x=50 > 192.0.2.1"},
        {"a", "A", "a 50 CNAME .;. 60 A 192.0.2.1", "ADDRS 50 .=50 > 192.0.2.1"},
        /* what RFC 4034 section 2.5 lets stand beside */
        {"a", "A", "a 50 CNAME b;a 1 RRSIG s;a 1 NSEC s;a 1 SIG s;a 1 NXT s;b 60 A 192.0.2.1",
         "ADDRS 50 b=50 > 192.0.2.1"},
        /* the chain does not lead there: ignored */
        {"a", "A", "a 50 CNAME b;b 60 A 192.0.2.1;c 1 A 192.0.2.2", "ADDRS 50 b=50 > 192.0.2.1"},
        {"a", "A", "a 9 CNAME 1;1 9 CNAME 2;2 9 CNAME 3;3 9 CNAME 4;4 9 CNAME 5;5 9 CNAME 6;"
                   "6 9 CNAME 7;7 9 CNAME 8;8 9 A 192.0.2.1",
         "ADDRS 9 1=9 2=9 3=9 4=9 5=9 6=9 7=9 8=9 > 192.0.2.1"},
    };
    CHECK_ROWS(rows);
}
END_TEST

START_TEST(c23_broken_chains) {
    static const struct row rows[] = {
        {"a", "A", "a 9 CNAME 1;1 9 CNAME 2;2 9 CNAME 3;3 9 CNAME 4;4 9 CNAME 5;5 9 CNAME 6;"
                   "6 9 CNAME 7;7 9 CNAME 8;8 9 CNAME 9;9 9 A 192.0.2.1", "bad-answer"},
        {"a", "A", "a 9 CNAME a", "bad-answer"},
        {"a", "A", "a 9 CNAME A;a 9 A 192.0.2.1", "bad-answer"},
        {"a", "A", "a 9 CNAME b;b 9 CNAME a", "bad-answer"},
        {"a", "A", "a 9 CNAME b;b 9 CNAME c;c 9 CNAME b", "bad-answer"},
        {"a", "A", "a 9 CNAME b;b 9 CNAME c;c 9 CNAME c", "bad-answer"},
        {"a", "A", "a 9 CNAME b;a 9 CNAME c;b 9 A 192.0.2.1", "bad-answer"},
        {"a", "A", "a 9 CNAME b;a 9 CNAME b;b 9 A 192.0.2.1", "bad-answer"},
        {"a", "A", "a 9 CNAME b;a 9 A 192.0.2.2;b 9 A 192.0.2.1", "bad-answer"},
        {"a", "A", "a 9 TXT x;a 9 CNAME b;b 9 A 192.0.2.1", "bad-answer"},
        {"a", "A", "a 9 CNAME b;b 9 CNAME c;b 9 MX x;c 9 A 192.0.2.1", "bad-answer"},
        {"a", "A", "a 9 CNAME b;a 9 DNAME b;b 9 A 192.0.2.1", "bad-answer"},
        {"a", "A", "a 9 CH:CNAME b;b 9 A 192.0.2.1", "bad-answer"},
        {"a", "A", "a 9 CH:A 192.0.2.1", "bad-answer"},
        {"a", "A", "a 9 A 192.0.2.2;a 9 CH:TXT x", "bad-answer"},
        {"a", "A", "a 9 CNAME b;b 9 CH:A 192.0.2.1", "bad-answer"},
    };
    CHECK_ROWS(rows);
}
END_TEST

START_TEST(c23_dname) {
    static const struct row rows[] = {
        {"x.old", "A", "old 30 DNAME new;x.old 60 CNAME x.new;x.new 60 A 192.0.2.1",
         "ADDRS 30 x.new=60 > 192.0.2.1"},
        {"a.b.old", "A", "old 30 DNAME n.ew;a.b.old 60 CNAME a.b.n.ew;a.b.n.ew 6 A 192.0.2.1",
         "ADDRS 6 a.b.n.ew=60 > 192.0.2.1"},
        {"x.old", "A", "old 30 DNAME .;x.old 60 CNAME x;x 60 A 192.0.2.1",
         "ADDRS 30 x=60 > 192.0.2.1"},
        {"x", "A", ". 30 DNAME new;x 60 CNAME x.new", "bad-answer"}, /* covers x.new as well */
        /* at a later hop */
        {"a", "A", "a 9 CNAME x.old;old 8 DNAME new;x.old 9 CNAME x.new;x.new 9 A 192.0.2.1",
         "ADDRS 8 x.old=9 x.new=9 > 192.0.2.1"},
        /* a DNAME at the name itself redirects what is below, not the name */
        {"old", "A", "old 9 DNAME new;old 60 A 192.0.2.1", "ADDRS 60 > 192.0.2.1"},
        {"old", "DNAME", "old 9 DNAME new", "OTHERS 9 > new"},
        /* elsewhere: ignored */
        {"a", "A", "b 9 DNAME c;a.a 9 DNAME c;a 60 A 192.0.2.1", "ADDRS 60 > 192.0.2.1"},
        {"xold", "A", "old 9 DNAME new;xold 60 A 192.0.2.1", "ADDRS 60 > 192.0.2.1"},
        /* wrong: no CNAME, another target, shorter, longer, another class, one of two */
        {"x.old", "A", "old 9 DNAME new;x.old 60 A 192.0.2.1", "bad-answer"},
        {"x.old", "A", "old 9 DNAME new", "bad-answer"},
        {"x.old", "A", "old 9 DNAME new;x.old 60 CNAME y.new;y.new 9 A 192.0.2.1", "bad-answer"},
        {"x.old", "A", "old 9 DNAME new;x.old 60 CNAME x.nex;x.nex 9 A 192.0.2.1", "bad-answer"},
        {"x.old", "A", "old 9 DNAME new;x.old 60 CNAME new;new 9 A 192.0.2.1", "bad-answer"},
        {"x.old", "A", "old 9 DNAME new;x.old 60 CNAME x.x.new;x.x.new 9 A 192.0.2.1",
         "bad-answer"},
        {"x.old", "A", "old 9 CH:DNAME new;x.old 60 CNAME x.new;x.new 9 A 192.0.2.1",
         "bad-answer"},
        {"x.old", "A", "old 9 DNAME new;old 9 DNAME two;x.old 60 CNAME x.new;x.new 9 A 192.0.2.1",
         "bad-answer"},
        /* asked for itself, the CNAME is held to it too */
        {"x.old", "CNAME", "old 9 DNAME new;x.old 60 CNAME x.new", "OTHERS 9 > x.new"},
        {"x.old", "CNAME", "old 9 DNAME new;x.old 60 CNAME x.nex", "bad-answer"},
    };
    CHECK_ROWS(rows);
}
END_TEST

START_TEST(families_stay_apart) {
    static const struct row rows[] = {
        {"a", "A", "a 9 AAAA 2001:db8::1", "bad-answer"},
        {"a", "AAAA", "a 9 A 192.0.2.1", "bad-answer"},
        {"a", "A", "a 9 A 192.0.2.1;a 9 AAAA 2001:db8::1", "bad-answer"},
        {"a", "AAAA", "a 9 CNAME b;b 9 A 192.0.2.1", "bad-answer"},
        {"a", "A", "a 9 A 192.0.2.1;b 9 AAAA 2001:db8::1", "ADDRS 9 > 192.0.2.1"},
    };
    CHECK_ROWS(rows);
    /* A record that lies about its own type, or that holds no address at all. */
    static const struct { uint16_t type; struct addr addr; } lies[] = {
        {1, {.family = 6}}, {28, {.family = 4}}, {1, {.family = 0}}, {28, {.family = 0}},
        {1, {.family = 4, .bytes = {[15] = 1}}},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct built *b = build("a 9 A 192.0.2.1");
        b->records[0].type = lies[i].type;
        b->records[0].addr = lies[i].addr;
        check("a", lies[i].type == 1 ? "A" : "AAAA", b, "bad-answer", "lie");
    }
}
END_TEST

START_TEST(c29_other_types) {
    static const struct row rows[] = {
        {"m", "MX", "m 60 MX one;m 50 MX two", "OTHERS 50 > one two"},
        {"m", "TXT", "m 40 CNAME n;n 60 TXT hello", "OTHERS 40 n=40 > hello"},
        /* addresses hidden beside them open nothing */
        {"m", "MX", "m 60 MX one;m 1 A 192.0.2.1;m 1 AAAA 2001:db8::1;one 1 A 192.0.2.2",
         "OTHERS 60 > one"},
        {"m", "MX", "m 1 A 192.0.2.1", "NODATA 0"},
        {"m", "CNAME", "m 60 CNAME n;n 1 A 192.0.2.1", "OTHERS 60 > n"},
        {"m", "CNAME", "m 60 CNAME m", "OTHERS 60 > m"},
        {"m", "CNAME", "m 60 CNAME n;m 1 A 192.0.2.1", "bad-answer"},
        {"m", "SRV", "m 60 CH:SRV x", "bad-answer"},
        {"m", "65280", "m 60 65280 raw", "OTHERS 60 > raw"},
        {"m", "256", "m 60 256 uri", "OTHERS 60 > uri"},
        {"m", "127", "m 60 127 x", "OTHERS 60 > x"},
        /* never, whatever they hold (c28) */
        {"m", "ANY", "m 60 A 192.0.2.1", "bad-answer"},
        {"m", "0", "m 60 0 x", "bad-answer"},
        {"m", "OPT", "m 60 OPT x", "bad-answer"},
        {"m", "HTTPS", "m 60 HTTPS x", "bad-answer"},
        {"m", "SVCB", "m 60 SVCB x", "bad-answer"},
        {"m", "128", "m 60 128 x", "bad-answer"},
        {"m", "252", "m 60 252 x", "bad-answer"},
    };
    CHECK_ROWS(rows);
}
END_TEST

/* ---- negative -------------------------------------------------------------------------------- */

START_TEST(negative) {
    static const struct {
        const char *asked, *records; unsigned rcode; const char *zone; uint32_t ttl;
        const char *want;
    } rows[] = {
        {"a.b", "", 3, "b", 60, "NXDOMAIN 60"},
        {"a.b", "", 3, "a.b", 60, "NXDOMAIN 60"},
        {"a.b", "", 3, ".", 60, "NXDOMAIN 60"},
        {"a.b", "", 3, NULL, 0, "NXDOMAIN 0"},
        {"a.b", "", 3, "c", 60, "NXDOMAIN 0"}, /* not the zone of the name */
        {"a.b", "", 3, "x.a.b", 60, "NXDOMAIN 0"},
        {"a.b", "", 0, "b", 60, "NODATA 60"},
        {"a.b", "", 0, NULL, 0, "NODATA 0"},
        {"a.b", "x 1 A 192.0.2.1", 0, "b", 60, "NODATA 60"},
        {"a.b", "a.b 40 CNAME c.d", 0, "d", 60, "NODATA 40 c.d=40"},
        {"a.b", "a.b 90 CNAME c.d", 0, "d", 60, "NODATA 60 c.d=90"},
        {"a.b", "a.b 90 CNAME c.d", 0, "b", 60, "NODATA 0 c.d=90"},
        {"a.b", "a.b 90 CNAME c.d", 3, "d", 60, "NXDOMAIN 60 c.d=90"},
        {"a.b", "a.b 90 CNAME c.d;c.d 9 TXT x", 3, "d", 60, "NXDOMAIN 60 c.d=90"},
        {"a.b", "a.b 90 CNAME a.b", 3, "b", 60, "bad-answer"},
        {"a.b", "a.b 90 A 192.0.2.1", 3, "b", 60, "bad-answer"},
        {"a.b", "a.b 90 CNAME c.d;c.d 90 A 192.0.2.1", 3, "d", 60, "bad-answer"},
        {"a.b", "", 1, "b", 60, "upstream-error"},
        {"a.b", "", 2, "b", 60, "upstream-error"},
        {"a.b", "", 4, NULL, 0, "upstream-error"},
        {"a.b", "a.b 90 A 192.0.2.1", 5, NULL, 0, "upstream-error"},
        {"a.b", "", 6, NULL, 0, "upstream-error"},
        {"a.b", "", 16, NULL, 0, "upstream-error"},
        {"a.b", "", 19, "b", 60, "upstream-error"}, /* 3 with an extension is not NXDOMAIN */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct built *b = build(rows[i].records);
        b->answer.rcode = rows[i].rcode & 15;
        b->answer.extended_rcode = (uint16_t)rows[i].rcode;
        if (rows[i].zone) {
            b->answer.has_soa = true;
            b->answer.soa_owner = name_of(rows[i].zone);
            b->answer.soa_ttl = rows[i].ttl;
        }
        char what[32];
        snprintf(what, sizeof what, "row %zu", i);
        check(rows[i].asked, "A", b, rows[i].want, what);
    }
    /* A SOA says nothing about data that is there. */
    struct built *b = build("a 60 A 192.0.2.1");
    b->answer.has_soa = true;
    b->answer.soa_ttl = 1;
    b->answer.soa_owner = name_of(".");
    check("a", "A", b, "ADDRS 60 > 192.0.2.1", "SOA");
    b = build("a 60 A 192.0.2.1");
    b->answer.truncated = true;
    check("a", "A", b, "bad-answer", "truncated");
}
END_TEST

/* ---- bounds ---------------------------------------------------------------------------------- */

static struct built *many(unsigned count, unsigned distinct) {
    struct built *b = build("");
    ck_assert_uint_le(count, RECORDS_MAX);
    for (unsigned i = 0; i < count; i++) {
        uint8_t bytes[4] = {198, 18, (uint8_t)(i % distinct >> 8), (uint8_t)(i % distinct)};
        b->records[i] = (struct wire_record){.owner = name_of("a"), .type = 1, .class = 1,
                                             .ttl = 60, .addr = addr_from4(bytes)};
    }
    b->answer.count = (uint16_t)count;
    return b;
}

START_TEST(c44_addresses_are_bounded) {
    static const struct { unsigned count, distinct; int want; unsigned kept; } rows[] = {
        {VET_ADDRS_MAX, VET_ADDRS_MAX, 0, VET_ADDRS_MAX},
        {VET_ADDRS_MAX + 1, VET_ADDRS_MAX + 1, -REASON_NAME_CAP, 0},
        {RECORDS_MAX, VET_ADDRS_MAX, 0, VET_ADDRS_MAX}, /* duplicates do not count */
        {RECORDS_MAX, 3, 0, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct built *b = many(rows[i].count, rows[i].distinct);
        struct vetted *v = NULL;
        const struct addr *addrs;
        ck_assert_int_eq(vet("a", "A", b, &v), rows[i].want);
        free(b);
        if (rows[i].want < 0)
            continue;
        ck_assert_uint_eq(vetted_addrs(v, &addrs), rows[i].kept);
        ck_assert_uint_eq(addrs[rows[i].kept - 1].bytes[3], (rows[i].kept - 1) & 255);
        ck_assert_uint_ge(vetted_bytes(v), rows[i].kept * sizeof(struct addr));
        vetted_unref(v);
    }
}
END_TEST

START_TEST(other_records_are_bounded) {
    static uint8_t octets[VET_OTHERS_BYTES_MAX + 1];
    static const struct { unsigned count; uint16_t size; int want; } rows[] = {
        {256, 64, 0}, {257, 0, -REASON_BAD_ANSWER}, {256, 65, -REASON_BAD_ANSWER},
        {4, 4096, 0}, {5, 4096, -REASON_BAD_ANSWER}, {1, 16384, 0},
        {1, 16385, -REASON_BAD_ANSWER},
    };
    for (size_t i = 0; i < sizeof octets; i++)
        octets[i] = (uint8_t)(i * 7);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct built *b = build("");
        struct vetted *v = NULL;
        const struct wire_record *others;
        for (unsigned k = 0; k < rows[i].count; k++)
            b->records[k] = (struct wire_record){.owner = name_of("t"), .type = 16, .class = 1,
                                                 .ttl = 60, .rdata = octets,
                                                 .rdata_size = rows[i].size};
        b->answer.count = (uint16_t)rows[i].count;
        ck_assert_int_eq(vet("t", "TXT", b, &v), rows[i].want);
        free(b);
        if (rows[i].want < 0)
            continue;
        ck_assert_uint_eq(vetted_others(v, &others), rows[i].count);
        for (unsigned k = 0; k < rows[i].count; k++)
            ck_assert_mem_eq(others[k].rdata, octets, rows[i].size);
        ck_assert_uint_ge(vetted_bytes(v), (size_t)rows[i].count * rows[i].size);
        vetted_unref(v);
    }
}
END_TEST

START_TEST(references) {
    struct built *b = build("a 50 CNAME b;b 60 A 192.0.2.1");
    struct vetted *v = NULL;
    char text[200];
    ck_assert_int_eq(vet("a", "A", b, &v), 0);
    free(b);
    ck_assert_ptr_eq(vetted_ref(v), v);
    ck_assert_ptr_null(vetted_unref(v));
    ck_assert_str_eq(describe(v, text, sizeof text), "ADDRS 50 b=50 > 192.0.2.1");
    ck_assert_ptr_null(vetted_unref(v));
    ck_assert_ptr_null(vetted_unref(NULL));
}
END_TEST

START_TEST(no_memory) {
    struct built *b = build("a 50 CNAME b;b 60 A 192.0.2.1");
    struct vetted *v = NULL;
    struct name name = name_of("a");
    memory_is_scarce = true;
    int result = vet_answer(&name, TYPE_A, &b->answer, &v);
    memory_is_scarce = false;
    ck_assert_int_eq(result, -ENOMEM);
    ck_assert_ptr_null(v);
    ck_assert_int_eq(vet("a", "A", b, &v), 0);
    vetted_unref(v);
    free(b);
}
END_TEST

int main(void) {
    Suite *s = suite_create("vet");
    TCase *t = tcase_create("vet");
    tcase_add_test(t, addresses);
    tcase_add_test(t, c23_chains);
    tcase_add_test(t, c23_broken_chains);
    tcase_add_test(t, c23_dname);
    tcase_add_test(t, families_stay_apart);
    tcase_add_test(t, c29_other_types);
    tcase_add_test(t, negative);
    tcase_add_test(t, c44_addresses_are_bounded);
    tcase_add_test(t, other_records_are_bounded);
    tcase_add_test(t, references);
    tcase_add_test(t, no_memory);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
