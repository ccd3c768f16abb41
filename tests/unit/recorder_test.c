/* recorder_test.c: the field table, messages to records, and the log's files. */
#include "tests/unit/recorder_setup.h"

#include <ctype.h>
#include <signal.h>
#include <sys/resource.h>

#include "gateway/recorder/files.h"
#include "gateway/recorder/format.h"
#include "gateway/recorder/store.h"

/* ---- the table ----------------------------------------------------------------------------- */

START_TEST(table_is_sound) {
    static const enum field common[] = {
        FIELD_TIME, FIELD_SEQUENCE, FIELD_KIND, FIELD_GATEWAY, FIELD_POLICY, FIELD_AGENT, FIELD_TOOL,
        FIELD_RUN, FIELD_SOURCE, FIELD_DECISION, FIELD_REASON, FIELD_RULE};
    for (enum field f = 0; f < FIELD_TOTAL; f++) {
        const struct field_info *i = &field_table[f];
        ck_assert_uint_eq(strspn(i->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(i->name));
        ck_assert_uint_gt(strlen(i->text), 0);
        ck_assert(i->kinds != 0 && (i->kinds & ~K_ALL) == 0);
        for (enum field g = 0; g < f; g++) ck_assert_str_ne(i->name, field_table[g].name);
    }
    for (unsigned c = 0; c < sizeof common / sizeof common[0]; c++) {
        ck_assert_uint_eq(field_table[common[c]].kinds, K_ALL);
        ck_assert_uint_eq(common[c], c); /* first, in the order of the design */
    }
}
END_TEST

START_TEST(event_tags) {
    char tag[32], other[32];
    for (uint32_t e = EVENT_NONE + 1; e < EVENT_END; e++) {
        ck_assert_ptr_nonnull(event_tag(e, tag));
        ck_assert_uint_gt(strlen(event_text(e)), 0);
        for (uint32_t f = EVENT_NONE + 1; f < e; f++) ck_assert_str_ne(event_tag(f, other), tag);
    }
    ck_assert_str_eq(event_tag(EVENT_CHILD_ENDED_BY_CORE, tag), "child-ended-by-core");
    ck_assert_int_eq(event_kind(EVENT_POLICY_REFUSED), KIND_POLICY);
    ck_assert_int_eq(event_kind(EVENT_SELF_TEST), KIND_START);
    ck_assert_ptr_null(event_tag(EVENT_NONE, tag));
    ck_assert_ptr_null(event_tag(EVENT_END, tag));
    ck_assert_ptr_null(event_text(EVENT_END));
}
END_TEST

/* ---- records ------------------------------------------------------------------------------- */

static struct images images;
static struct record record; /* large */
static char line[RECORD_MAX];

static const struct image *images_start(void) {
    ck_assert_int_eq(images_add(&images, image_make("refuse", "first")), 0);
    return images_current(&images);
}

/* Writes the record, checks the line, gives it parsed. */
static json_t *written(void) {
    struct buf out = buf_over(line, sizeof line);
    int n = record_write(&record, &out);
    ck_assert_int_gt(n, 0);
    ck_assert_uint_eq((size_t)n, out.used);
    ck_assert_int_eq(line[n - 1], '\n');
    ck_assert_uint_eq(record_line_sequence(line, (size_t)n), record.values[FIELD_SEQUENCE].number);
    return record_check(line, (size_t)n - 1);
}

#define expect_text(r, f, text) ck_assert_pstr_eq(record_text_of(r, FIELD_##f), text)
#define expect_number(r, f, n) ck_assert_uint_eq(record_number_of(r, FIELD_##f), n)
#define expect_null(r, f) ck_assert(json_is_null(json_object_get(r, field_table[FIELD_##f].name)))

START_TEST(query_denied) {
    const struct image *i = images_start();
    struct msg_query q = {0};
    query_fill(&q, i->id, "www.example.com");
    format_query(&record, &images, 7, &q, NULL, 0);
    json_t *r = written();
    expect_text(r, TIME, "2026-11-30T13:37:00.123456Z");
    expect_number(r, SEQUENCE, 7);
    expect_text(r, KIND, "query");
    expect_null(r, GATEWAY); /* neither configured nor known by its host name */
    expect_text(r, POLICY, i->digest);
    expect_text(r, AGENT, "research");
    expect_null(r, TOOL);
    expect_null(r, RUN);
    expect_text(r, SOURCE, "10.77.1.17");
    expect_text(r, DECISION, "deny");
    expect_text(r, REASON, "not-listed");
    expect_text(r, RULE, "default");
    expect_text(r, NAME, "www.example.com");
    expect_text(r, TYPE, "A");
    expect_text(r, RCODE, "NXDOMAIN");
    expect_text(r, REF, "1122334455667788");
    expect_text(r, TRANSPORT, "udp");
    expect_null(r, OPENED_UNTIL);
    expect_null(r, UPSTREAM);
    expect_null(r, CACHE);
    ck_assert_uint_eq(json_array_size(json_object_get(r, "answers")), 0);
    json_decref(r);
    images_free(&images);
}
END_TEST

START_TEST(query_allowed) {
    const struct image *i = images_start();
    struct msg_query q = {0};
    struct msg_query_item items[3] = {
        {.kind = 0, .name = name_of("edge.search.example")},
        {.kind = 1, .ttl = 30, .remote = address("203.0.113.7")},
        {.kind = 1, .ttl = 60, .remote = address("2001:db8::7")},
    };
    query_fill(&q, i->id, "api.search.example");
    q.reason = REASON_ALLOWED;
    q.rcode = RC_NOERROR;
    q.endpoint = 0;
    q.opened = 2;
    q.opened_seconds = 45;
    q.from = FROM_UPSTREAM;
    q.upstream = address("198.51.100.54");
    q.transport = TRANSPORT_TCP;
    q.type = 65280;
    q.latency_usec = 1234;
    format_query(&record, &images, 8, &q, items, 3);
    json_t *r = written();
    expect_text(r, TOOL, "web-search@1.4.2");
    expect_text(r, DECISION, "allow");
    ck_assert_ptr_nonnull(strstr(record_text_of(r, FIELD_RULE), "web-search.yaml:"));
    expect_text(r, TYPE, "TYPE65280");
    expect_number(r, OPENED, 2);
    expect_text(r, OPENED_UNTIL, "2026-11-30T13:37:45.123456Z");
    expect_text(r, UPSTREAM, "198.51.100.54");
    expect_text(r, CACHE, "miss");
    expect_text(r, TRANSPORT, "tcp");
    expect_number(r, LATENCY, 1234);
    char *lists = json_dumps(json_object_get(r, "answers"), JSON_COMPACT);
    ck_assert_str_eq(lists, "[\"203.0.113.7\",\"2001:db8::7\"]");
    free(lists);
    lists = json_dumps(json_object_get(r, "ttls"), JSON_COMPACT);
    ck_assert_str_eq(lists, "[30,60]");
    free(lists);
    lists = json_dumps(json_object_get(r, "chain"), JSON_COMPACT);
    ck_assert_str_eq(lists, "[\"edge.search.example\"]");
    free(lists);
    json_decref(r);
    images_free(&images);
}
END_TEST

START_TEST(query_by_a_deny_entry) {
    const struct image *i = images_start();
    snprintf(images.host, sizeof images.host, "gw1");
    struct msg_query q = {0};
    query_fill(&q, i->id, "x.pastebin.example");
    q.reason = REASON_DENY_LIST;
    q.deny = 0;
    format_query(&record, &images, 1, &q, NULL, 0);
    json_t *r = written();
    ck_assert_ptr_nonnull(strstr(record_text_of(r, FIELD_RULE), "agents.yaml:"));
    expect_text(r, GATEWAY, "gw1");
    json_decref(r);
    images_free(&images);
}
END_TEST

/* Every octet value in a name, and the longest text there is: ASCII, and no line is broken. */
START_TEST(hostile_names) {
    const struct image *i = images_start();
    struct msg_query q = {0};
    char text[NAME_TEXT_MAX];
    query_fill(&q, i->id, "a.example");
    for (unsigned start = 0; start < 256; start += 61) {
        memset(&q.name, 0, sizeof q.name);
        q.name.length = 1 + 61 + 1;
        q.name.wire[0] = 61;
        for (unsigned k = 0; k < 61; k++) {
            uint8_t octet = (uint8_t)(start + k);
            q.name.wire[1 + k] = octet >= 'A' && octet <= 'Z' ? '"' : octet;
        }
        format_query(&record, &images, 1, &q, NULL, 0);
        json_t *r = written();
        name_to_text(&q.name, text, sizeof text);
        expect_text(r, NAME, text);
        json_decref(r);
    }
    images_free(&images);
}
END_TEST

static struct name longest_name(void) {
    struct name n = {.length = 255};
    for (unsigned at = 0; at < 254; at += n.wire[at] + 1u) {
        n.wire[at] = at == 192 ? 61 : 63;
        memset(n.wire + at + 1, 0xff, n.wire[at]);
    }
    ck_assert(name_valid(&n));
    return n;
}

START_TEST(longest_query_fits) {
    const struct image *i = images_start();
    static struct msg_query_item items[PROTO_CHAIN_MAX + PROTO_ADDRS_MAX];
    struct msg_query q = {0};
    query_fill(&q, i->id, "a.example");
    q.name = longest_name();
    q.endpoint = 0;
    for (unsigned k = 0; k < PROTO_CHAIN_MAX + PROTO_ADDRS_MAX; k++) {
        items[k].kind = k >= PROTO_CHAIN_MAX;
        if (items[k].kind == 0) {
            items[k].name = longest_name();
        } else {
            items[k].remote = address("2001:1111:2222:3333:4444:5555:6666:7777");
            items[k].ttl = UINT32_MAX;
        }
    }
    format_query(&record, &images, UINT64_MAX, &q, items, PROTO_CHAIN_MAX + PROTO_ADDRS_MAX);
    struct buf out = buf_over(line, sizeof line);
    int n = record_write(&record, &out);
    ck_assert_int_gt(n, 25000);
    ck_assert_int_lt(n, RECORD_MAX - 8192); /* room for a long rule */
    json_decref(record_check(line, (size_t)n - 1));
    images_free(&images);
}
END_TEST

/* Indexes a resolver made up, and a policy nobody has: nothing wrong is claimed. */
START_TEST(unknown_indexes_are_null) {
    const struct image *i = images_start();
    struct msg_query q = {0};
    query_fill(&q, i->id, "a.example");
    q.agent = 99999;
    q.endpoint = 99999;
    format_query(&record, &images, 1, &q, NULL, 0);
    json_t *r = written();
    expect_null(r, AGENT);
    expect_null(r, TOOL);
    expect_null(r, RULE);
    json_decref(r);
    query_fill(&q, 0x8877665544332211u, "a.example");
    q.agent = 0;
    format_query(&record, &images, 1, &q, NULL, 0);
    r = written();
    expect_null(r, AGENT);
    expect_text(r, POLICY, "1122334455667788"); /* what the message knows of it */
    json_decref(r);
    q.time = UINT64_MAX; /* a clock of the far future keeps the shape of a line */
    q.opened = 1;
    q.opened_seconds = 9;
    format_query(&record, &images, 1, &q, NULL, 0);
    json_decref(written());
    images_free(&images);
}
END_TEST

START_TEST(query_without_a_name) {
    const struct image *i = images_start();
    struct msg_query q = {0};
    query_fill(&q, i->id, "a.example");
    memset(&q.name, 0, sizeof q.name);
    q.reason = REASON_MALFORMED;
    q.rcode = RC_FORMERR;
    format_query(&record, &images, 1, &q, NULL, 0);
    json_t *r = written();
    expect_null(r, NAME);
    expect_null(r, TYPE);
    expect_text(r, RCODE, "FORMERR");
    json_decref(r);
    images_free(&images);
}
END_TEST

START_TEST(flow_record) {
    const struct image *i = images_start();
    struct msg_flow f = {0};
    flow_fill(&f, i->id);
    format_flow(&record, &images, 3, &f);
    json_t *r = written();
    expect_text(r, KIND, "flow");
    expect_text(r, AGENT, "research");
    expect_text(r, TOOL, "web-search@1.4.2");
    expect_text(r, SOURCE, "fd77:1::17");
    expect_text(r, REMOTE, "2001:db8::7");
    expect_number(r, PORT, 443);
    expect_text(r, PROTOCOL, "tcp");
    expect_text(r, NAME, "api.search.example");
    expect_number(r, BYTES_OUT, 1000);
    expect_number(r, BYTES_IN, INT64_MAX); /* as much as readers take */
    expect_number(r, PACKETS_OUT, 10);
    expect_number(r, PACKETS_IN, 20);
    expect_number(r, DURATION, 1500000);
    expect_text(r, END, "revoked");
    json_decref(r);
    f.agent = f.endpoint = POLICY_NONE;
    memset(&f.name, 0, sizeof f.name);
    format_flow(&record, &images, 3, &f);
    r = written();
    expect_null(r, AGENT);
    expect_null(r, TOOL);
    expect_null(r, RULE);
    expect_null(r, NAME);
    json_decref(r);
    images_free(&images);
}
END_TEST

START_TEST(denied_records) {
    images_start();
    struct denial d = {.reason = REASON_NO_OPENING, .interface = "eth1", .port = 25, .protocol = 6,
                       .has_protocol = 1, .has_ports = 1, .count = 9, .first = TEST_TIME,
                       .last = TEST_TIME + 5, .source_port = 40000};
    d.source = address("10.77.1.17");
    d.remote = address("203.0.113.7");
    format_denial(&record, &images, 4, &d);
    json_t *r = written();
    expect_text(r, KIND, "denied-packet");
    expect_text(r, AGENT, "research");
    expect_text(r, DECISION, "deny");
    expect_text(r, REASON, "no-opening");
    expect_number(r, PORT, 25);
    expect_number(r, CLIENT_PORT, 40000);
    expect_number(r, COUNT, 9);
    expect_text(r, INTERFACE, "eth1");
    expect_text(r, UNTIL, "2026-11-30T13:37:00.123461Z");
    expect_null(r, NOTE);
    expect_null(r, ICMP_TYPE);
    json_decref(r);
    d.reason = REASON_SPOOFED; /* whoever it was, it was not the owner of that address */
    memset(d.interface, 'x', sizeof d.interface);
    format_denial(&record, &images, 4, &d);
    r = written();
    expect_null(r, AGENT);
    expect_text(r, INTERFACE, "xxxxxxxxxxxxxxxx");
    json_decref(r);
    d.reason = REASON_UNSOLICITED; /* from outside: it is about whom it was for */
    d.source = address("203.0.113.7");
    d.remote = address("10.77.2.9");
    format_denial(&record, &images, 4, &d);
    r = written();
    expect_text(r, AGENT, "build");
    json_decref(r);
    struct denial nothing = {.reason = REASON_INVALID_STATE, .note = PACKET_MALFORMED, .count = 1};
    format_denial(&record, &images, 4, &nothing);
    r = written();
    expect_null(r, SOURCE);
    expect_null(r, REMOTE);
    expect_null(r, PROTOCOL);
    expect_text(r, NOTE, "malformed");
    json_decref(r);
    images_free(&images);
}
END_TEST

START_TEST(every_event) {
    const struct image *i = images_start();
    char tag[32];
    for (uint32_t code = EVENT_NONE + 1; code < EVENT_END; code++) {
        struct msg_event e = {.time = TEST_TIME, .policy = i->id, .code = code, .uid = 1000,
                              .count = 12, .other = PROCESS_RESOLVER};
        format_event(&record, &images, 5, &e);
        json_t *r = written();
        expect_text(r, KIND, kind_name(event_kind(code)));
        expect_text(r, EVENT, event_tag(code, tag));
        expect_number(r, COUNT, 12);
        expect_number(r, UID, 1000);
        expect_null(r, DECISION);
        const char *text = record_text_of(r, FIELD_TEXT);
        ck_assert_ptr_null(strchr(text, '`'));
        if (event_names_process(code)) {
            expect_text(r, PROCESS, "resolver");
            expect_null(r, OTHER);
            ck_assert_ptr_nonnull(strstr(text, "resolver"));
        }
        json_decref(r);
    }
    images_free(&images);
}
END_TEST

START_TEST(own_events) {
    images_start();
    for (enum own_event e = 0; e < OWN_COUNT; e++) {
        struct own_record o = {.event = e, .time = TEST_TIME, .count = 3, .error = ENOSPC,
                               .duration = 5, .process = PROCESS_CORE};
        format_own(&record, &images, 6, &o);
        json_t *r = written();
        expect_text(r, KIND, "loss");
        expect_text(r, ERROR, "ENOSPC");
        expect_number(r, DURATION, 5);
        expect_text(r, PROCESS, "core");
        json_decref(r);
    }
    images_free(&images);
}
END_TEST

/* A field of another kind or type cannot get into a line. */
START_TEST(undocumented_fields_are_refused) {
    struct buf out = buf_over(line, sizeof line);
    record_begin(&record, KIND_FLOW, TEST_TIME, 1);
    record_text(&record, FIELD_RCODE, "NOERROR");
    ck_assert_int_eq(record_write(&record, &out), -EINVAL);
    record_begin(&record, KIND_FLOW, TEST_TIME, 1);
    record_number(&record, FIELD_NAME, 5);
    ck_assert_int_eq(record_write(&record, &out), -EINVAL);
    record_begin(&record, KIND_FLOW, TEST_TIME, 1);
    struct buf small = buf_over(line, 100);
    ck_assert_int_eq(record_write(&record, &small), -ENOSPC);
    ck_assert_uint_eq(small.used, 0);
    ck_assert(!small.overflow);
}
END_TEST

START_TEST(sequence_of_a_line) {
    static const char good[] = "{\"time\":\"2026-11-30T13:37:00.123456Z\",\"sequence\":4711,\"k";
    ck_assert_uint_eq(record_line_sequence(good, sizeof good - 1), 4711);
    for (size_t size = 0; size < sizeof good - 4; size++) {
        char *exact = malloc(size + 1);
        memcpy(exact, good, size);
        ck_assert_uint_eq(record_line_sequence(exact, size), 0);
        free(exact);
    }
    static const char huge[] = "{\"time\":\"2026-11-30T13:37:00.123456Z\",\"sequence\":99999999999999999999,";
    ck_assert_uint_eq(record_line_sequence(huge, sizeof huge - 1), 0);
}
END_TEST

/* ---- files --------------------------------------------------------------------------------- */

static struct clock_fake fake;
static struct clock fake_clock;

static struct store store_at(const struct place *p) {
    struct store s;
    fake = (struct clock_fake){.monotonic = USEC_PER_SEC, .realtime = TEST_TIME};
    fake_clock = clock_fake_of(&fake);
    store_init(&s, p->fd, &fake_clock);
    return s;
}

static size_t make_line(char *text, size_t room, uint64_t sequence) {
    struct buf out = buf_over(text, room);
    record_begin(&record, KIND_STOP, TEST_TIME, sequence);
    ck_assert_int_gt(record_write(&record, &out), 0);
    return out.used;
}

static void append(struct store *s, uint64_t sequence) {
    char text[1024];
    size_t done, size = make_line(text, sizeof text, sequence);
    ck_assert_int_eq(store_append(s, text, size, &done), 0);
    ck_assert_uint_eq(done, size);
}

START_TEST(file_goes_on_where_it_ended) {
    struct place p = place_make();
    struct store s = store_at(&p);
    ck_assert_int_eq(store_open(&s, NULL, 0), 0);
    ck_assert_uint_eq(s.last, 0);
    for (uint64_t k = 1; k <= 50; k++) append(&s, k);
    ck_assert_int_eq(store_sync(&s), 0);
    store_close(&s);
    ck_assert_int_eq(store_open(&s, NULL, 0), 0);
    ck_assert_uint_eq(s.first, 1);
    ck_assert_uint_eq(s.last, 50);
    append(&s, 51);
    store_close(&s);
    ck_assert_uint_eq(records_each(p.path, STORE_FILE, NULL, NULL), 51);
    struct stat st;
    ck_assert_int_eq(fstatat(p.fd, STORE_FILE, &st, 0), 0);
    ck_assert_uint_eq(st.st_mode & 07137, 0); /* group may read at most, others nothing */
    place_remove(&p);
}
END_TEST

static unsigned count_files(const struct place *p, const char *suffix) {
    unsigned n = 0;
    DIR *d = opendir(p->path);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t size = strlen(e->d_name), tail = strlen(suffix);
        n += size > tail && strcmp(e->d_name + size - tail, suffix) == 0;
    }
    closedir(d);
    return n;
}

START_TEST(rotation_by_size) {
    struct place p = place_make();
    struct store s = store_at(&p);
    char text[1024];
    size_t size = make_line(text, sizeof text, 1);
    s.segment_bytes = 3 * (size + 4);
    s.keep = 4;
    ck_assert_int_eq(store_open(&s, NULL, 0), 0);
    for (uint64_t k = 1; k <= 32; k++) append(&s, k);
    ck_assert_uint_eq(count_files(&p, ".jsonl"), 5); /* 4 kept and the one in use */
    ck_assert_uint_eq(s.first, 31);
    ck_assert_uint_eq(records_each(p.path, STORE_FILE, NULL, NULL), 2);
    ck_assert_uint_eq(records_each(p.path, "tidegate-20261130T133700Z-28.jsonl", NULL, NULL), 3);
    ck_assert_uint_eq(records_each(p.path, "tidegate-20261130T133700Z-19.jsonl", NULL, NULL), 3);
    ck_assert_int_lt(faccessat(p.fd, "tidegate-20261130T133700Z-16.jsonl", F_OK, 0), 0);
    store_close(&s);
    unlinkat(p.fd, STORE_FILE, 0); /* the number is then known from the newest rotated one */
    ck_assert_int_eq(store_open(&s, NULL, 0), 0);
    ck_assert_uint_eq(s.last, 30);
    store_close(&s);
    place_remove(&p);
}
END_TEST

START_TEST(batch_larger_than_a_file) {
    struct place p = place_make();
    struct store s = store_at(&p);
    static char text[65536];
    size_t size = 0, done, one = 0;
    for (uint64_t k = 1; k <= 30; k++) {
        one = make_line(text + size, sizeof text - size, k);
        size += one;
    }
    s.segment_bytes = 4 * one;
    ck_assert_int_eq(store_open(&s, NULL, 0), 0);
    ck_assert_int_eq(store_append(&s, text, size, &done), 0);
    ck_assert_uint_eq(done, size);
    ck_assert_uint_eq(count_files(&p, ".jsonl"), 8);
    s.segment_bytes = 1; /* smaller than a record: one in each file, not none */
    append(&s, 31);
    append(&s, 32);
    ck_assert_uint_eq(count_files(&p, ".jsonl"), 10);
    store_close(&s);
    place_remove(&p);
}
END_TEST

START_TEST(torn_end_is_moved_aside) {
    struct place p = place_make();
    struct store s = store_at(&p);
    ck_assert_int_eq(store_open(&s, NULL, 0), 0);
    append(&s, 1);
    append(&s, 2);
    store_close(&s);
    file_put(p.path, STORE_FILE, "{\"time\":\"2026-11-30T13:3");
    ck_assert_int_eq(store_open(&s, NULL, 0), 0);
    ck_assert_uint_eq(s.torn, 24);
    ck_assert_uint_eq(s.last, 2);
    append(&s, 3);
    store_close(&s);
    ck_assert_uint_eq(records_each(p.path, STORE_FILE, NULL, NULL), 3);
    char *torn = file_get(p.path, "tidegate-20261130T133700Z-3.torn", NULL);
    ck_assert_pstr_eq(torn, "{\"time\":\"2026-11-30T13:3");
    free(torn);
    file_put(p.path, STORE_FILE, "again"); /* in the same second */
    ck_assert_int_eq(store_open(&s, NULL, 0), 0);
    ck_assert_uint_eq(count_files(&p, ".torn"), 2);
    store_close(&s);
    place_remove(&p);
}
END_TEST

/* Zero bytes of any number: what some file systems leave after a power cut. */
START_TEST(torn_end_of_zeros) {
    struct place p = place_make();
    struct store s = store_at(&p);
    ck_assert_int_eq(store_open(&s, NULL, 0), 0);
    append(&s, 1);
    uint64_t size = s.size;
    store_close(&s);
    char path[128];
    snprintf(path, sizeof path, "%s/" STORE_FILE, p.path);
    ck_assert_int_eq(truncate(path, (off_t)size + 200000), 0);
    ck_assert_int_eq(store_open(&s, NULL, 0), 0);
    ck_assert_uint_eq(s.torn, 200000);
    ck_assert_uint_eq(s.size, size);
    store_close(&s);
    ck_assert_uint_eq(records_each(p.path, STORE_FILE, NULL, NULL), 1);
    place_remove(&p);
}
END_TEST

START_TEST(torn_end_that_comes_again_is_cut) {
    struct place p = place_make();
    struct store s = store_at(&p);
    char next[4096];
    size_t size = make_line(next, sizeof next, 1);
    size += make_line(next + size, sizeof next - size, 2);
    for (size_t cut = 1; cut < size / 2; cut++) {
        char piece[4096];
        memcpy(piece, next + size / 2, cut); /* of the second line */
        piece[cut] = '\0';
        file_put(p.path, STORE_FILE, piece);
        ck_assert_int_eq(store_open(&s, next, size), 0);
        ck_assert_uint_eq(s.torn, 0);
        ck_assert_uint_eq(s.size, 0);
        store_close(&s);
    }
    ck_assert_uint_eq(count_files(&p, ".torn"), 0);
    place_remove(&p);
}
END_TEST

/* The kernel takes only a part of a write: the whole lines of it stay, the piece is cut off. */
START_TEST(short_write_keeps_whole_lines) {
    struct place p = place_make();
    struct store s = store_at(&p);
    static char text[65536];
    size_t size = 0, done, one = 0;
    for (uint64_t k = 1; k <= 20; k++) {
        one = make_line(text + size, sizeof text - size, 100 + k);
        size += one;
    }
    ck_assert_int_eq(store_open(&s, NULL, 0), 0);
    struct rlimit limit = {.rlim_cur = 5 * one + one / 2, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(store_append(&s, text, size, &done), -EFBIG);
    ck_assert_uint_eq(done, 5 * one);
    ck_assert_uint_eq(s.size, 5 * one);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    ck_assert_uint_eq(records_each(p.path, STORE_FILE, NULL, NULL), 5);
    store_close(&s);
    place_remove(&p);
}
END_TEST

START_TEST(other_files_under_our_name_are_refused) {
    struct place p = place_make();
    struct store s = store_at(&p);
    ck_assert_int_eq(symlinkat("/etc/passwd", p.fd, STORE_FILE), 0);
    ck_assert_int_eq(store_open(&s, NULL, 0), -ELOOP);
    unlinkat(p.fd, STORE_FILE, 0);
    ck_assert_int_eq(mkfifoat(p.fd, STORE_FILE, 0600), 0);
    ck_assert_int_eq(store_open(&s, NULL, 0), -EINVAL);
    ck_assert_int_eq(s.fd, -1);
    place_remove(&p);
}
END_TEST

START_TEST(file_that_was_moved_is_noticed) {
    struct place p = place_make();
    struct store s = store_at(&p);
    ck_assert_int_eq(store_open(&s, NULL, 0), 0);
    ck_assert_int_eq(store_check(&s), 0);
    ck_assert(!store_directory_gone(&s));
    ck_assert_int_eq(renameat(p.fd, STORE_FILE, p.fd, "elsewhere"), 0);
    ck_assert_int_eq(store_check(&s), -ESTALE);
    unlinkat(p.fd, "elsewhere", 0);
    ck_assert_int_eq(rmdir(p.path), 0);
    ck_assert(store_directory_gone(&s));
    store_close(&s);
    ck_assert_int_eq(store_open(&s, NULL, 0), -ENOENT);
    close(p.fd);
}
END_TEST

START_TEST(names_of_rotated_files) {
    ck_assert_uint_eq(file_name_sequence("tidegate-20261130T133700Z-4711.jsonl"), 4711);
    static const char *const others[] = {
        "tidegate.jsonl", "tidegate-20261130T133700Z-.jsonl", "tidegate-20261130T133700Z-1.torn",
        "tidegate-2026113T133700Z-1.jsonl", "tidegate-20261130T133700Z-1.jsonl.gz", "",
        "tidegate-20261130T133700Z-99999999999999999999.jsonl", "tidegate-20261130T133700Z-1x.jsonl",
        "Tidegate-20261130T133700Z-1.jsonl"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert_uint_eq(file_name_sequence(others[i]), 0);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("recorder");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, table_is_sound);
    tcase_add_test(t, event_tags);
    tcase_add_test(t, query_denied);
    tcase_add_test(t, query_allowed);
    tcase_add_test(t, query_by_a_deny_entry);
    tcase_add_test(t, hostile_names);
    tcase_add_test(t, longest_query_fits);
    tcase_add_test(t, unknown_indexes_are_null);
    tcase_add_test(t, query_without_a_name);
    tcase_add_test(t, flow_record);
    tcase_add_test(t, denied_records);
    tcase_add_test(t, every_event);
    tcase_add_test(t, own_events);
    tcase_add_test(t, undocumented_fields_are_refused);
    tcase_add_test(t, sequence_of_a_line);
    tcase_add_test(t, file_goes_on_where_it_ended);
    tcase_add_test(t, rotation_by_size);
    tcase_add_test(t, batch_larger_than_a_file);
    tcase_add_test(t, torn_end_is_moved_aside);
    tcase_add_test(t, torn_end_of_zeros);
    tcase_add_test(t, torn_end_that_comes_again_is_cut);
    tcase_add_test(t, short_write_keeps_whole_lines);
    tcase_add_test(t, other_files_under_our_name_are_refused);
    tcase_add_test(t, file_that_was_moved_is_noticed);
    tcase_add_test(t, names_of_rotated_files);
    Suite *s = suite_create("recorder");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
