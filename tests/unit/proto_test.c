/* proto_test.c: what proto_check() takes and refuses. Each refusal starts from a message that is
 * taken and changes one thing. */
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/proto/proto.h"

static struct proto_message m; /* every test fills it anew */

static struct addr address(const char *text) {
    struct addr a;
    ck_assert_int_eq(addr_parse(text, &a), 0);
    return a;
}

static struct name name(const char *text) {
    struct name n;
    ck_assert_int_eq(name_from_text(text, &n), 0);
    return n;
}

static int check(void) {
    return proto_check(m.bytes, m.size);
}

/* ---- one good message of each type --------------------------------------------------------- */

static void fill_open(struct msg_open *b, unsigned items) {
    b->id = 1;
    b->client = address("10.77.1.17");
    b->name = name("api.example");
    for (unsigned i = 0; i < items; i++) {
        struct msg_open_addr *a = proto_item(&m, i);
        *a = (struct msg_open_addr){.remote = address("198.51.100.0"), .lifetime = 60};
        a->remote.bytes[3] = (uint8_t)i;
    }
}

static void fill_query(struct msg_query *b, unsigned items) {
    b->client = address("10.77.1.17");
    b->name = name("api.example");
    b->reason = REASON_ALLOWED;
    b->opened = items, b->opened_seconds = items ? 75 : 0;
    b->from = FROM_UPSTREAM;
    b->upstream = address("198.51.100.53");
    for (unsigned i = 0; i < items; i++) { /* as many hops as may be, then addresses */
        struct msg_query_item *q = proto_item(&m, i);
        q->kind = i >= PROTO_CHAIN_MAX;
        q->ttl = 60;
        if (q->kind) q->remote = address("2001:db8::1");
        else q->name = name("edge.example");
    }
}

static void fill_opening(struct msg_opening *o) {
    o->client = address("10.77.1.17");
    o->remote = address("198.51.100.7");
    o->protocol = IPPROTO_TCP;
    o->port = 443;
    o->name = name("api.example");
}

static void fill(void *body, enum proto_type type, unsigned items) {
    switch (type) {
    case PROTO_OPEN: fill_open(body, items); break;
    case PROTO_QUERY: fill_query(body, items); break;
    case PROTO_REVERSE:
        ((struct msg_reverse *)body)->client = address("10.77.1.17");
        ((struct msg_reverse *)body)->remote = address("198.51.100.7");
        break;
    case PROTO_OPENED:
        ((struct msg_opened *)body)->result = REASON_ALLOWED;
        ((struct msg_opened *)body)->deadline = 9;
        break;
    case PROTO_REVERSED:
        ((struct msg_reversed *)body)->found = 1;
        ((struct msg_reversed *)body)->name = name("api.example");
        break;
    case PROTO_DENIED: {
        struct msg_denied *d = body;
        d->reason = REASON_NO_OPENING;
        d->interface_name[0] = 'e';
        d->length = 40, d->protocol = 4;
        d->bytes[0] = 0x45;
        break;
    }
    case PROTO_FLOW:
        ((struct msg_flow *)body)->client = address("10.77.1.17");
        ((struct msg_flow *)body)->remote = address("198.51.100.7");
        break;
    case PROTO_EVENT: ((struct msg_event *)body)->code = EVENT_START; break;
    case PROTO_LOG_STATE: ((struct msg_log_state *)body)->ok = 1; break;
    case PROTO_ASK_OPENINGS: ((struct msg_ask *)body)->limit = 32; break;
    case PROTO_OPENINGS:
        for (unsigned i = 0; i < items; i++) fill_opening(proto_item(&m, i));
        break;
    default: break; /* all zero is fine */
    }
}

static void *good(enum proto_type type, unsigned items) {
    memset(&m, 0xee, sizeof m); /* proto_begin() must not count on zeroed memory */
    void *body = proto_begin(&m, type, items);
    ck_assert_ptr_nonnull(body);
    fill(body, type, items);
    ck_assert_msg(check() == 0, "type %d with %u items", type, items);
    return body;
}

/* ---- head and size ------------------------------------------------------------------------- */

static const struct { size_t body, item; } shapes[PROTO_TYPE_END] = {
#define X(id, body_type, item_type) [PROTO_##id] = {sizeof(body_type), sizeof(item_type)},
    PROTO_TABLE(X)
#undef X
};

static unsigned least(unsigned type) {
    return type == PROTO_OPEN ? 1 : 0;
}

static unsigned most(unsigned type) {
    return type == PROTO_OPEN ? 256 : type == PROTO_QUERY ? 265 : type == PROTO_OPENINGS ? 32 : 0;
}

START_TEST(sizes) {
    ck_assert_uint_eq(proto_size(PROTO_TYPE_NONE, 0), 0);
    ck_assert_uint_eq(proto_size(PROTO_TYPE_END, 0), 0);
    ck_assert_uint_eq(proto_size(UINT32_MAX, 0), 0);
    for (unsigned type = 1; type < PROTO_TYPE_END; type++) {
        size_t expected = 16 + shapes[type].body + most(type) * shapes[type].item;
        ck_assert_uint_eq(proto_size(type, most(type)), expected);
        ck_assert_uint_le(expected, PROTO_MAX);
        ck_assert_uint_eq(proto_size(type, most(type) + 1), 0);
        ck_assert_uint_eq(proto_size(type, SIZE_MAX), 0);
        if (least(type) > 0) ck_assert_uint_eq(proto_size(type, least(type) - 1), 0);
    }
}
END_TEST

START_TEST(every_type_is_taken_at_its_exact_size_only) {
    for (unsigned type = 1; type < PROTO_TYPE_END; type++) {
        for (unsigned way = 0; way < 2; way++) {
            good(type, way == 0 ? least(type) : most(type));
            uint8_t *exact = malloc(m.size); /* so that AddressSanitizer sees a read past the end */
            memcpy(exact, m.bytes, m.size);
            ck_assert_int_eq(proto_check(exact, m.size), 0);
            free(exact);
            ck_assert_int_eq(proto_check(m.bytes, m.size - 1), -EBADMSG);
            ck_assert_int_eq(proto_check(m.bytes, m.size + 1), -EBADMSG);
            ck_assert_int_eq(proto_check(m.bytes, 0), -EBADMSG);
            ck_assert_int_eq(proto_check(m.bytes, 15), -EBADMSG);
            m.head.items++;
            ck_assert_int_eq(check(), -EBADMSG);
            m.head.items--;
            m.head.magic ^= 1;
            ck_assert_int_eq(check(), -EBADMSG);
        }
    }
    good(PROTO_STOP, 0);
    m.head.type = 0;
    ck_assert_int_eq(check(), -EBADMSG);
    m.head.type = PROTO_TYPE_END;
    ck_assert_int_eq(check(), -EBADMSG);
    m.head.type = UINT16_MAX;
    ck_assert_int_eq(check(), -EBADMSG);
}
END_TEST

START_TEST(begin_refuses_impossible_counts) {
    ck_assert_ptr_null(proto_begin(&m, PROTO_OPEN, 0));
    ck_assert_uint_eq(m.size, 0);
    ck_assert_ptr_null(proto_begin(&m, PROTO_OPEN, 257));
    ck_assert_ptr_null(proto_begin(&m, PROTO_TYPE_END, 0));
    ck_assert_ptr_null(proto_begin(&m, PROTO_STATE, 1));
}
END_TEST

/* ---- fields -------------------------------------------------------------------------------- */

/* Changes one field of a good message's body or first item, looks, and puts it back. */
static void try_bytes(enum proto_type type, void *at, const void *value, size_t size, int expected,
                      const char *what) {
    uint8_t saved[300];
    ck_assert_uint_le(size, sizeof saved);
    memcpy(saved, at, size);
    memcpy(at, value, size);
    ck_assert_msg(check() == expected, "type %d, %s", type, what);
    memcpy(at, saved, size);
    ck_assert_int_eq(check(), 0);
}

#define TRY(type, field, expected, ...)                                                          \
    do {                                                                                         \
        const __typeof__(field) value_ = __VA_ARGS__;                                            \
        try_bytes(type, &(field), &value_, sizeof value_, expected, #field " = " #__VA_ARGS__); \
    } while (0)
#define BAD(type, field, ...) TRY(type, field, -EBADMSG, __VA_ARGS__)
#define FINE(type, field, ...) TRY(type, field, 0, __VA_ARGS__)

static struct addr broken(unsigned way) {
    struct addr a = address("192.0.2.1");
    if (way == 0) a.family = 5;
    if (way == 1) a.zero[1] = 1;
    if (way == 2) a.bytes[15] = 1;
    if (way == 3) a.family = 0; /* no address, yet bytes */
    return a;
}

#define BAD_ADDR(type, field)                                                                    \
    do {                                                                                         \
        for (unsigned way_ = 0; way_ < 4; way_++) BAD(type, field, broken(way_));                \
    } while (0)
#define NEEDS_ADDR(type, field)                                                                  \
    do {                                                                                         \
        BAD_ADDR(type, field);                                                                   \
        BAD(type, field, (struct addr){0});                                                      \
    } while (0)

static struct name broken_name(unsigned way) {
    struct name n = name("a.example");
    if (way == 0) n.wire[1] = 'A';
    if (way == 1) n.wire[254] = 1;
    if (way == 2) n.length++;
    if (way == 3) n.length = 0; /* none, yet octets */
    return n;
}

#define BAD_NAME(type, field)                                                                    \
    do {                                                                                         \
        for (unsigned way_ = 0; way_ < 4; way_++) BAD(type, field, broken_name(way_));           \
    } while (0)

START_TEST(open_fields) {
    struct msg_open *b = good(PROTO_OPEN, 2);
    struct msg_open_addr *a = proto_item(&m, 0), *z = proto_item(&m, 1);
    NEEDS_ADDR(PROTO_OPEN, b->client);
    BAD_NAME(PROTO_OPEN, b->name);
    BAD(PROTO_OPEN, b->name, (struct name){0});
    FINE(PROTO_OPEN, b->name, name("."));
    BAD(PROTO_OPEN, b->zero, 1);
    NEEDS_ADDR(PROTO_OPEN, a->remote);
    NEEDS_ADDR(PROTO_OPEN, z->remote);
    BAD(PROTO_OPEN, z->remote, a->remote);           /* twice the same */
    BAD(PROTO_OPEN, z->remote, address("2001:db8::1")); /* another family */
    BAD(PROTO_OPEN, a->lifetime, 0);
    FINE(PROTO_OPEN, a->lifetime, 1);
    FINE(PROTO_OPEN, a->lifetime, 604800);
    BAD(PROTO_OPEN, z->lifetime, 604801);
    BAD(PROTO_OPEN, z->lifetime, UINT32_MAX);
    FINE(PROTO_OPEN, b->id, UINT64_MAX);

    good(PROTO_OPEN, 256);
    struct msg_open_addr *first = proto_item(&m, 0), *last = proto_item(&m, 255);
    BAD(PROTO_OPEN, last->remote, first->remote);
}
END_TEST

START_TEST(opened_fields) {
    struct msg_opened *b = good(PROTO_OPENED, 0);
    BAD(PROTO_OPENED, b->deadline, 0);
    BAD(PROTO_OPENED, b->result, REASON_MAP_FULL); /* a failure with a deadline */
    BAD(PROTO_OPENED, b->result, 0);
    BAD(PROTO_OPENED, b->result, REASON_BASE);
    BAD(PROTO_OPENED, b->result, REASON_END);
    b->deadline = 0, b->result = REASON_MAP_FULL;
    ck_assert_int_eq(check(), 0);
    BAD(PROTO_OPENED, b->result, REASON_SPOOFED); /* of packets */
}
END_TEST

START_TEST(reverse_fields) {
    struct msg_reverse *b = good(PROTO_REVERSE, 0);
    NEEDS_ADDR(PROTO_REVERSE, b->client);
    NEEDS_ADDR(PROTO_REVERSE, b->remote);
    BAD(PROTO_REVERSE, b->remote, address("2001:db8::1"));

    struct msg_reversed *d = good(PROTO_REVERSED, 0);
    BAD(PROTO_REVERSED, d->found, 2);
    BAD(PROTO_REVERSED, d->found, 0); /* with a name */
    BAD_NAME(PROTO_REVERSED, d->name);
    BAD(PROTO_REVERSED, d->name, (struct name){0});
    FINE(PROTO_REVERSED, d->ttl, 604800);
    BAD(PROTO_REVERSED, d->ttl, 604801);
    d->found = 0, d->name = (struct name){0};
    ck_assert_int_eq(check(), 0);
    BAD(PROTO_REVERSED, d->ttl, 1);
}
END_TEST

START_TEST(state_fields) {
    struct msg_state *b = good(PROTO_STATE, 0);
    FINE(PROTO_STATE, b->log_ok, 1);
    BAD(PROTO_STATE, b->log_ok, 2);
    FINE(PROTO_STATE, b->ipv6_up, 1);
    BAD(PROTO_STATE, b->ipv6_up, UINT32_MAX);
}
END_TEST

START_TEST(query_fields) {
    struct msg_query *b = good(PROTO_QUERY, 0);
    NEEDS_ADDR(PROTO_QUERY, b->client);
    BAD_NAME(PROTO_QUERY, b->name);
    BAD(PROTO_QUERY, b->name, (struct name){0});
    BAD(PROTO_QUERY, b->reason, REASON_NO_OPENING);
    BAD(PROTO_QUERY, b->reason, 3);
    FINE(PROTO_QUERY, b->rcode, RC_BADVERS);
    BAD(PROTO_QUERY, b->rcode, 17);
    BAD(PROTO_QUERY, b->opened_seconds, 60); /* nothing opened */
    FINE(PROTO_QUERY, b->transport, TRANSPORT_TCP);
    BAD(PROTO_QUERY, b->transport, 2);
    BAD(PROTO_QUERY, b->from, FROM_NONE); /* with an upstream */
    BAD(PROTO_QUERY, b->from, FROM_CACHE);
    BAD_ADDR(PROTO_QUERY, b->upstream);
    FINE(PROTO_QUERY, b->upstream, (struct addr){0});
    BAD(PROTO_QUERY, b->zero, 1);
    b->upstream = (struct addr){0};
    FINE(PROTO_QUERY, b->from, FROM_CACHE);
    BAD(PROTO_QUERY, b->from, 3);

    static const uint32_t unread[] = {REASON_MALFORMED, REASON_BAD_OPCODE, REASON_BAD_VERSION};
    for (size_t i = 0; i < 3; i++) {
        b->reason = unread[i], b->name = (struct name){0};
        ck_assert_int_eq(check(), 0);
    }
    BAD(PROTO_QUERY, b->reason, REASON_NOT_LISTED);

    b = good(PROTO_QUERY, 1);
    FINE(PROTO_QUERY, b->opened_seconds, 604800);
    BAD(PROTO_QUERY, b->opened_seconds, 604801);
}
END_TEST

START_TEST(query_items) {
    good(PROTO_QUERY, 10); /* 9 hops, 1 address */
    struct msg_query_item *hop = proto_item(&m, 0), *last = proto_item(&m, 9);
    BAD(PROTO_QUERY, hop->kind, 1);  /* without an address */
    BAD(PROTO_QUERY, last->kind, 0); /* without a name */
    BAD(PROTO_QUERY, last->kind, 2);
    BAD_NAME(PROTO_QUERY, hop->name);
    BAD(PROTO_QUERY, hop->name, (struct name){0});
    BAD(PROTO_QUERY, hop->remote, address("192.0.2.1"));
    BAD_ADDR(PROTO_QUERY, last->remote);
    BAD(PROTO_QUERY, last->remote, (struct addr){0});
    BAD(PROTO_QUERY, last->name, name("x.example"));
    FINE(PROTO_QUERY, hop->ttl, INT32_MAX);
    BAD(PROTO_QUERY, hop->ttl, (uint32_t)INT32_MAX + 1);
    BAD(PROTO_QUERY, *last, *hop); /* a tenth hop */

    good(PROTO_QUERY, 11);
    last = proto_item(&m, 10);
    BAD(PROTO_QUERY, last->kind, 0); /* looks like an address, and comes after one */
    BAD(PROTO_QUERY, last->kind, 2);

    struct msg_query_item swapped[2];
    good(PROTO_QUERY, 10);
    hop = proto_item(&m, 8);
    memcpy(swapped, hop, sizeof swapped);
    hop[0] = swapped[1], hop[1] = swapped[0]; /* an address before the last hop */
    ck_assert_int_eq(check(), -EBADMSG);

    good(PROTO_QUERY, 265); /* 9 hops and 256 addresses; now 8 and 257 */
    hop = proto_item(&m, 8);
    hop[0] = hop[1];
    ck_assert_int_eq(check(), -EBADMSG);
}
END_TEST

START_TEST(denied_fields) {
    struct msg_denied *b = good(PROTO_DENIED, 0);
    BAD(PROTO_DENIED, b->reason, REASON_NOT_LISTED);
    BAD(PROTO_DENIED, b->reason, REASON_END);
    for (uint32_t reason = REASON_NO_OPENING; reason <= REASON_UNSOLICITED; reason++)
        FINE(PROTO_DENIED, b->reason, reason);
    FINE(PROTO_DENIED, b->length, 96);
    b->bytes[0] = 0; /* so that no byte past the length is the reason */
    FINE(PROTO_DENIED, b->length, 1);
    BAD(PROTO_DENIED, b->length, 0);
    BAD(PROTO_DENIED, b->length, 97);
    BAD(PROTO_DENIED, b->length, UINT32_MAX);
    FINE(PROTO_DENIED, b->protocol, 6);
    BAD(PROTO_DENIED, b->protocol, 5);
    BAD(PROTO_DENIED, b->bytes[40], 1); /* past its length */
    BAD(PROTO_DENIED, b->bytes[95], 1);
    BAD(PROTO_DENIED, b->interface_name[15], 'x'); /* after the NUL */
    memset(b->interface_name, 'x', 16);
    ck_assert_int_eq(check(), -EBADMSG);
    b->interface_name[15] = '\0';
    ck_assert_int_eq(check(), 0);
}
END_TEST

START_TEST(flow_fields) {
    struct msg_flow *b = good(PROTO_FLOW, 0);
    NEEDS_ADDR(PROTO_FLOW, b->client);
    NEEDS_ADDR(PROTO_FLOW, b->remote);
    BAD(PROTO_FLOW, b->remote, address("2001:db8::1"));
    FINE(PROTO_FLOW, b->protocol, 255);
    BAD(PROTO_FLOW, b->protocol, 256);
    FINE(PROTO_FLOW, b->end, FLOW_KILLED);
    BAD(PROTO_FLOW, b->end, FLOW_KILLED + 1);
    FINE(PROTO_FLOW, b->name, name("api.example"));
    BAD_NAME(PROTO_FLOW, b->name);
}
END_TEST

START_TEST(event_fields) {
    struct msg_event *b = good(PROTO_EVENT, 0);
    BAD(PROTO_EVENT, b->code, EVENT_NONE);
    FINE(PROTO_EVENT, b->code, EVENT_END - 1);
    BAD(PROTO_EVENT, b->code, EVENT_END);

    struct msg_log_state *l = good(PROTO_LOG_STATE, 0);
    BAD(PROTO_LOG_STATE, l->ok, 2);
    BAD(PROTO_LOG_STATE, l->ok, 0); /* without an error */
    BAD(PROTO_LOG_STATE, l->error, ENOSPC); /* with one */
    l->ok = 0, l->error = ENOSPC;
    ck_assert_int_eq(check(), 0);
    BAD(PROTO_LOG_STATE, l->ok, 2);
    FINE(PROTO_LOG_STATE, l->error, 4095);
    BAD(PROTO_LOG_STATE, l->error, 4096);
}
END_TEST

START_TEST(supervision_fields) {
    struct msg_loaded *l = good(PROTO_LOADED, 0);
    FINE(PROTO_LOADED, l->ok, 1);
    BAD(PROTO_LOADED, l->ok, 2);
    struct msg_commit *c = good(PROTO_COMMIT, 0);
    BAD(PROTO_COMMIT, c->taken, 2);
    BAD(PROTO_COMMIT, c->zero, 1);
    static const enum proto_type types[] = {PROTO_CHILD, PROTO_END_CHILD};
    for (size_t i = 0; i < 2; i++) {
        struct msg_child *b = good(types[i], 0);
        FINE(types[i], b->process, PROCESS_COUNT - 1);
        BAD(types[i], b->process, PROCESS_COUNT);
        BAD(types[i], b->running, 2);
        BAD(types[i], b->zero, 1);
    }
}
END_TEST

START_TEST(control_fields) {
    static const enum proto_type asks[] = {PROTO_ASK_STATUS, PROTO_ASK_OPENINGS, PROTO_ASK_RELOAD};
    for (size_t i = 0; i < 3; i++) {
        struct msg_ask *b = good(asks[i], 0);
        FINE(asks[i], b->limit, 32);
        BAD(asks[i], b->limit, 33);
        TRY(asks[i], b->limit, asks[i] == PROTO_ASK_OPENINGS ? -EBADMSG : 0, 0);
        BAD_ADDR(asks[i], b->client);
        FINE(asks[i], b->client, address("10.77.1.17"));
        BAD_ADDR(asks[i], b->remote);
        FINE(asks[i], b->remote, address("2001:db8::1"));
    }
    struct msg_status *s = good(PROTO_STATUS, 0);
    BAD(PROTO_STATUS, s->ready, 2);
    BAD(PROTO_STATUS, s->log_ok, 2);
    FINE(PROTO_STATUS, s->log_error, 4095);
    BAD(PROTO_STATUS, s->log_error, 4096);
    BAD(PROTO_STATUS, s->ipv6_up, 2);
    BAD(PROTO_STATUS, s->zero, 1);
    struct msg_reloaded *r = good(PROTO_RELOADED, 0);
    FINE(PROTO_RELOADED, r->ok, 1);
    BAD(PROTO_RELOADED, r->ok, 2);

    good(PROTO_OPENINGS, 2);
    struct msg_opening *o = proto_item(&m, 1);
    NEEDS_ADDR(PROTO_OPENINGS, o->client);
    NEEDS_ADDR(PROTO_OPENINGS, o->remote);
    BAD(PROTO_OPENINGS, o->remote, address("2001:db8::1"));
    FINE(PROTO_OPENINGS, o->protocol, IPPROTO_UDP);
    BAD(PROTO_OPENINGS, o->protocol, IPPROTO_ICMP);
    BAD(PROTO_OPENINGS, o->zero, 1);
    BAD(PROTO_OPENINGS, o->zero2, 1);
    FINE(PROTO_OPENINGS, o->remaining, 604800);
    BAD(PROTO_OPENINGS, o->remaining, 604801);
    BAD_NAME(PROTO_OPENINGS, o->name);
    FINE(PROTO_OPENINGS, o->name, (struct name){0});
}
END_TEST

/* Whatever bytes come, the check reads nothing outside them (AddressSanitizer looks on). */
START_TEST(random_bytes_are_survived) {
    for (unsigned round = 0; round < 20000; round++) {
        unsigned type = 1 + random_below(PROTO_TYPE_END - 1);
        size_t size = proto_size(type, least(type) + random_below(most(type) - least(type) + 1));
        if (random_below(4) == 0) size = random_below(600);
        uint8_t *bytes = malloc(size + 1);
        random_bytes(bytes, size);
        if (size >= 16) {
            struct proto_head h = {PROTO_MAGIC, (uint16_t)type, 0, 1};
            size_t rest = size - 16 - shapes[type].body;
            if (shapes[type].item && rest <= size) h.items = (uint16_t)(rest / shapes[type].item);
            memcpy(bytes, &h, sizeof h);
        }
        int result = proto_check(bytes, size);
        ck_assert(result == 0 || result == -EBADMSG);
        free(bytes);
    }
}
END_TEST

START_TEST(processes_have_names) {
    static const char *const names[] = {"core", "resolver", "recorder", "control", "loader"};
    ck_assert_uint_eq(sizeof names / sizeof *names, PROCESS_COUNT);
    for (uint32_t i = 0; i < PROCESS_COUNT; i++) ck_assert_str_eq(process_name(i), names[i]);
    ck_assert_str_eq(process_name(PROCESS_COUNT), "unknown");
}
END_TEST

int main(void) {
    TCase *t = tcase_create("proto");
    tcase_add_test(t, sizes);
    tcase_add_test(t, every_type_is_taken_at_its_exact_size_only);
    tcase_add_test(t, begin_refuses_impossible_counts);
    tcase_add_test(t, open_fields);
    tcase_add_test(t, opened_fields);
    tcase_add_test(t, reverse_fields);
    tcase_add_test(t, state_fields);
    tcase_add_test(t, query_fields);
    tcase_add_test(t, query_items);
    tcase_add_test(t, denied_fields);
    tcase_add_test(t, flow_fields);
    tcase_add_test(t, event_fields);
    tcase_add_test(t, supervision_fields);
    tcase_add_test(t, control_fields);
    tcase_add_test(t, random_bytes_are_survived);
    tcase_add_test(t, processes_have_names);
    Suite *s = suite_create("proto");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
