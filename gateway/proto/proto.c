/* proto.c: what each message may hold, as tables, and the check against them.
 *
 * proto_check() runs in the privileged process on bytes from the others. It reads nothing outside
 * `size` bytes, and looks at each byte that has a rule: a field that no rule names may hold any
 * value of its type.
 */
#include "gateway/proto/proto.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#define TTL_MAX 0x7fffffffu /* RFC 2181 section 8 */
#define ERRNO_MAX 4095      /* as the kernel bounds them, include/linux/err.h */

/* ---- rules for single fields --------------------------------------------------------------- */

enum rule_kind {
    RULE_ZERO = 1,   /* `max` bytes of padding */
    RULE_U32,        /* min..max */
    RULE_REASON,     /* of the table; concerns packets if `max` is 1, queries if 0 */
    RULE_ADDR,       /* valid */
    RULE_ADDR_ANY,   /* valid, or all zero: none */
    RULE_NAME,       /* valid */
    RULE_NAME_ANY,   /* valid, or all zero: none */
    RULE_TEXT,       /* `max` bytes: ends with a NUL and is padded with them */
};

struct rule {
    uint8_t kind; /* enum rule_kind; 0 ends a table */
    uint16_t offset;
    uint32_t min, max;
};

#define RULE(kind, type, field, min, max) {RULE_##kind, offsetof(struct type, field), min, max}
#define U32(type, field, min, max) RULE(U32, type, field, min, max)
#define BOOL(type, field) RULE(U32, type, field, 0, 1)
#define ZERO(type, field) RULE(ZERO, type, field, 0, sizeof((struct type *)0)->field)
#define ADDR(type, field) RULE(ADDR, type, field, 0, 0)
#define ADDR_ANY(type, field) RULE(ADDR_ANY, type, field, 0, 0)
#define NAME(type, field) RULE(NAME, type, field, 0, 0)
#define NAME_ANY(type, field) RULE(NAME_ANY, type, field, 0, 0)
#define QUERY_REASON(type, field) RULE(REASON, type, field, 0, 0)
#define PACKET_REASON(type, field) RULE(REASON, type, field, 0, 1)

static const struct rule open_rules[] = {ADDR(msg_open, client), NAME(msg_open, name),
                                         ZERO(msg_open, zero), {0}};
static const struct rule open_addr_rules[] = {
    ADDR(msg_open_addr, remote), U32(msg_open_addr, lifetime, 1, PROTO_LIFETIME_MAX), {0}};
static const struct rule opened_rules[] = {QUERY_REASON(msg_opened, result), {0}};
static const struct rule reverse_rules[] = {ADDR(msg_reverse, client), ADDR(msg_reverse, remote),
                                            {0}};
static const struct rule reversed_rules[] = {
    BOOL(msg_reversed, found), U32(msg_reversed, ttl, 0, PROTO_LIFETIME_MAX),
    NAME_ANY(msg_reversed, name), {0}};
static const struct rule state_rules[] = {BOOL(msg_state, log_ok), BOOL(msg_state, ipv6_up), {0}};

static const struct rule query_rules[] = {
    ADDR(msg_query, client),
    NAME_ANY(msg_query, name),
    QUERY_REASON(msg_query, reason),
    U32(msg_query, rcode, 0, RC_BADVERS),
    U32(msg_query, opened_seconds, 0, PROTO_LIFETIME_MAX),
    U32(msg_query, transport, TRANSPORT_UDP, TRANSPORT_TCP),
    U32(msg_query, from, FROM_NONE, FROM_UPSTREAM),
    ADDR_ANY(msg_query, upstream),
    ZERO(msg_query, zero),
    {0}};
static const struct rule query_item_rules[] = {
    U32(msg_query_item, kind, 0, 1), U32(msg_query_item, ttl, 0, TTL_MAX),
    ADDR_ANY(msg_query_item, remote), NAME_ANY(msg_query_item, name), {0}};

static const struct rule denied_rules[] = {
    PACKET_REASON(msg_denied, reason),
    RULE(TEXT, msg_denied, interface_name, 0, sizeof((struct msg_denied *)0)->interface_name),
    U32(msg_denied, length, 1, DENIED_BYTES_MAX),
    {0}};
static const struct rule flow_rules[] = {
    ADDR(msg_flow, client),
    ADDR(msg_flow, remote),
    U32(msg_flow, protocol, 0, IPPROTO_RAW),
    U32(msg_flow, end, FLOW_ENDED, FLOW_KILLED),
    NAME_ANY(msg_flow, name),
    {0}};
static const struct rule event_rules[] = {U32(msg_event, code, EVENT_NONE + 1, EVENT_END - 1), {0}};
static const struct rule log_state_rules[] = {BOOL(msg_log_state, ok),
                                              U32(msg_log_state, error, 0, ERRNO_MAX), {0}};

static const struct rule loaded_rules[] = {BOOL(msg_loaded, ok), {0}};
static const struct rule commit_rules[] = {BOOL(msg_commit, taken), ZERO(msg_commit, zero), {0}};
static const struct rule child_rules[] = {U32(msg_child, process, 0, PROCESS_COUNT - 1),
                                          BOOL(msg_child, running), ZERO(msg_child, zero), {0}};

static const struct rule ask_rules[] = {U32(msg_ask, limit, 0, PROTO_PAGE_MAX),
                                        ADDR_ANY(msg_ask, client), ADDR_ANY(msg_ask, remote), {0}};
static const struct rule ask_openings_rules[] = {
    U32(msg_ask, limit, 1, PROTO_PAGE_MAX), ADDR_ANY(msg_ask, client), ADDR_ANY(msg_ask, remote),
    {0}};
static const struct rule opening_rules[] = {
    ADDR(msg_opening, client),    ADDR(msg_opening, remote),
    ZERO(msg_opening, zero),      U32(msg_opening, remaining, 0, PROTO_LIFETIME_MAX),
    ZERO(msg_opening, zero2),     NAME_ANY(msg_opening, name),
    {0}};
static const struct rule status_rules[] = {
    BOOL(msg_status, ready),
    BOOL(msg_status, log_ok),
    U32(msg_status, log_error, 0, ERRNO_MAX),
    BOOL(msg_status, ipv6_up),
    ZERO(msg_status, zero),
    {0}};
static const struct rule reloaded_rules[] = {BOOL(msg_reloaded, ok), {0}};

static bool all_zero(const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    return size == 0 || (at[0] == 0 && memcmp(at, at + 1, size - 1) == 0);
}

static bool text_ok(const char *text, size_t size) {
    size_t length = strnlen(text, size);
    return length < size && all_zero(text + length, size - length);
}

static bool reason_ok(uint32_t value, bool of_packet) {
    return reason_valid(value) && (reason_answer(value) == ANSWER_NONE) == of_packet;
}

static bool rule_holds(const struct rule *r, const uint8_t *start) {
    const void *at = start + r->offset; /* aligned: the caller's bytes are, and so is each field */
    switch ((enum rule_kind)r->kind) {
    case RULE_ZERO: return all_zero(at, r->max);
    case RULE_U32: return *(const uint32_t *)at >= r->min && *(const uint32_t *)at <= r->max;
    case RULE_REASON: return reason_ok(*(const uint32_t *)at, r->max);
    case RULE_ADDR: return addr_valid(at);
    case RULE_ADDR_ANY: return addr_valid(at) || all_zero(at, sizeof(struct addr));
    case RULE_NAME: return name_valid(at);
    case RULE_NAME_ANY: return name_valid(at) || all_zero(at, sizeof(struct name));
    case RULE_TEXT:
    default: return text_ok(at, r->max);
    }
}

static bool rules_hold(const struct rule *r, const void *start) {
    for (; r && r->kind != 0; r++) {
        if (!rule_holds(r, start)) return false;
    }
    return true;
}

/* ---- rules between fields: called when each field by itself holds -------------------------- */

static bool open_fits(const void *body, const void *items, unsigned count) {
    (void)body;
    const struct msg_open_addr *a = items;
    for (unsigned i = 0; i < count; i++) {
        if (a[i].remote.family != a[0].remote.family) return false;
        for (unsigned j = 0; j < i; j++) { /* count is at most 256 */
            if (addr_equal(&a[i].remote, &a[j].remote)) return false;
        }
    }
    return true;
}

static bool opened_fits(const void *body, const void *items, unsigned count) {
    (void)items, (void)count;
    const struct msg_opened *m = body;
    return (m->result == REASON_ALLOWED) == (m->deadline != 0);
}

static bool reverse_fits(const void *body, const void *items, unsigned count) {
    (void)items, (void)count;
    const struct msg_reverse *m = body;
    return m->client.family == m->remote.family;
}

static bool reversed_fits(const void *body, const void *items, unsigned count) {
    (void)items, (void)count;
    const struct msg_reversed *m = body;
    return m->found ? m->name.length > 0 : m->name.length == 0 && m->ttl == 0;
}

/* Hops with a name, then addresses without. */
static bool query_items_fit(const struct msg_query_item *item, unsigned count) {
    unsigned hops = 0;
    while (hops < count && item[hops].kind == 0) hops++;
    if (hops > PROTO_CHAIN_MAX || count - hops > PROTO_ADDRS_MAX) return false;
    for (unsigned i = 0; i < count; i++) {
        bool hop = i < hops;
        if (item[i].kind != (hop ? 0 : 1)) return false;
        if ((item[i].name.length > 0) != hop || (item[i].remote.family == 0) != hop) return false;
    }
    return true;
}

static bool query_fits(const void *body, const void *items, unsigned count) {
    const struct msg_query *m = body;
    if (m->name.length == 0) { /* the question was not read */
        enum reason_answer answer = reason_answer(m->reason);
        if (answer != ANSWER_FORMERR && answer != ANSWER_NOTIMP && answer != ANSWER_BADVERS)
            return false;
    }
    if (m->upstream.family != 0 && m->from != FROM_UPSTREAM) return false;
    if (m->opened == 0 && m->opened_seconds != 0) return false;
    return query_items_fit(items, count);
}

static bool denied_fits(const void *body, const void *items, unsigned count) {
    (void)items, (void)count;
    const struct msg_denied *m = body;
    if (m->protocol != 4 && m->protocol != 6) return false;
    return all_zero(m->bytes + m->length, sizeof m->bytes - m->length);
}

static bool flow_fits(const void *body, const void *items, unsigned count) {
    (void)items, (void)count;
    const struct msg_flow *m = body;
    return m->client.family == m->remote.family;
}

static bool log_state_fits(const void *body, const void *items, unsigned count) {
    (void)items, (void)count;
    const struct msg_log_state *m = body;
    return (m->ok == 1) == (m->error == 0);
}

static bool openings_fit(const void *body, const void *items, unsigned count) {
    (void)body;
    const struct msg_opening *o = items;
    for (unsigned i = 0; i < count; i++) {
        if (o[i].client.family != o[i].remote.family) return false;
        if (o[i].protocol != IPPROTO_TCP && o[i].protocol != IPPROTO_UDP) return false;
    }
    return true;
}

/* ---- the types ----------------------------------------------------------------------------- */

static const struct {
    uint16_t body, item;
} sizes[PROTO_TYPE_END] = {
#define X(id, body, item) [PROTO_##id] = {sizeof(body), sizeof(item)},
    PROTO_TABLE(X)
#undef X
};

#define X(id, body, item)                                                                        \
    _Static_assert(sizeof(body) % 8 == 0 && sizeof(item) % 4 == 0, #id ": items are not aligned");
PROTO_TABLE(X)
#undef X
_Static_assert(sizeof(struct proto_head) + sizeof(struct msg_query) +
                       (PROTO_CHAIN_MAX + PROTO_ADDRS_MAX) * sizeof(struct msg_query_item) <=
                   PROTO_MAX,
               "PROTO_MAX holds the largest message");

static const struct {
    const struct rule *rules, *item_rules;
    uint16_t min_items, max_items;
    bool (*fits)(const void *body, const void *items, unsigned count);
} shapes[PROTO_TYPE_END] = {
    [PROTO_OPEN] = {open_rules, open_addr_rules, 1, PROTO_ADDRS_MAX, open_fits},
    [PROTO_REVERSE] = {reverse_rules, .fits = reverse_fits},
    [PROTO_OPENED] = {opened_rules, .fits = opened_fits},
    [PROTO_REVERSED] = {reversed_rules, .fits = reversed_fits},
    [PROTO_STATE] = {state_rules},
    [PROTO_QUERY] = {query_rules, query_item_rules, 0, PROTO_CHAIN_MAX + PROTO_ADDRS_MAX,
                     query_fits},
    [PROTO_DENIED] = {denied_rules, .fits = denied_fits},
    [PROTO_FLOW] = {flow_rules, .fits = flow_fits},
    [PROTO_EVENT] = {event_rules},
    [PROTO_LOG_STATE] = {log_state_rules, .fits = log_state_fits},
    [PROTO_COMMIT] = {commit_rules},
    [PROTO_END_CHILD] = {child_rules},
    [PROTO_LOADED] = {loaded_rules},
    [PROTO_CHILD] = {child_rules},
    [PROTO_ASK_STATUS] = {ask_rules},
    [PROTO_ASK_OPENINGS] = {ask_openings_rules},
    [PROTO_ASK_RELOAD] = {ask_rules},
    [PROTO_STATUS] = {status_rules},
    [PROTO_OPENINGS] = {NULL, opening_rules, 0, PROTO_PAGE_MAX, openings_fit},
    [PROTO_RELOADED] = {reloaded_rules},
    /* STATS, POLICY, POLICY_USED, READY, LOAD: any value of each field. STOP, STOPPED: no field. */
};

size_t proto_size(uint32_t type, size_t items) {
    if (type <= PROTO_TYPE_NONE || type >= PROTO_TYPE_END) return 0;
    if (items < shapes[type].min_items || items > shapes[type].max_items) return 0;
    return sizeof(struct proto_head) + sizes[type].body + items * sizes[type].item;
}

void *proto_item(struct proto_message *m, unsigned i) {
    uint16_t type = m->head.type;
    return m->bytes + sizeof m->head + sizes[type].body + (size_t)i * sizes[type].item;
}

int proto_check(const void *bytes, size_t size) {
    const struct proto_head *head = bytes;
    if (size < sizeof *head || head->magic != PROTO_MAGIC) return -EBADMSG;
    uint16_t type = head->type;
    if (size != proto_size(type, head->items)) return -EBADMSG; /* size is not 0 */

    const uint8_t *body = (const uint8_t *)bytes + sizeof *head, *items = body + sizes[type].body;
    if (!rules_hold(shapes[type].rules, body)) return -EBADMSG;
    for (unsigned i = 0; i < head->items; i++) {
        if (!rules_hold(shapes[type].item_rules, items + (size_t)i * sizes[type].item))
            return -EBADMSG;
    }
    if (shapes[type].fits && !shapes[type].fits(body, items, head->items)) return -EBADMSG;
    return 0;
}

void *proto_begin(struct proto_message *m, enum proto_type type, unsigned items) {
    size_t size = proto_size(type, items);
    for (unsigned i = 0; i < PROTO_FDS_MAX; i++) m->fds[i] = -1;
    m->fd_count = 0;
    m->size = size;
    if (size == 0) return NULL;
    memset(m->bytes, 0, size);
    m->head = (struct proto_head){.magic = PROTO_MAGIC, .type = (uint16_t)type,
                                  .items = (uint16_t)items};
    return proto_body(m);
}

const char *process_name(uint32_t process) {
    static const char *const names[PROCESS_COUNT] = {
        [PROCESS_CORE] = "core",         [PROCESS_RESOLVER] = "resolver",
        [PROCESS_RECORDER] = "recorder", [PROCESS_CONTROL] = "control",
        [PROCESS_LOADER] = "loader",
    };
    return process < PROCESS_COUNT ? names[process] : "unknown";
}
