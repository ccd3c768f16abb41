/* open.c: OPEN and REVERSE.
 *
 * The resolver says for whom, by which name and to which addresses; what that opens is decided here
 * on core's own image. All elements of a request go into the kernel together with the removals that
 * make room for them, or none do. Requests that wait in the channel share one transaction. Nothing
 * is booked and no OPENED leaves before the kernel has acknowledged.
 *
 * A group holds at most one request for each client address: the next one must be judged by what
 * the one before has left in the ledger, so it begins a new group.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/core/core.h"

#define REQUESTS_MAX 256u
#define HEADROOM_PART 8u /* of the map, kept free for refreshing: see map_has_room() */
#define HEADROOM_MAX 16384u

struct opening {
    struct ledger_key key;
    uint32_t mark;   /* 0: the claim is taken away to make room */
    usec_t deadline;
};

struct request {
    uint64_t id;
    struct name_ref *name;
    struct addr clients[POLICY_CLIENTS_MAX];
    unsigned client_count;
    uint32_t first, count, added; /* openings: added ones, then removed ones */
    uint32_t fresh;               /* claims that were not there before */
    usec_t deadline;              /* of the first to end */
};

struct open_group {
    struct request requests[REQUESTS_MAX];
    unsigned count;
    uint32_t used;
    struct opening openings[ELEMENTS_CHANGES_MAX];
    struct grant_port ports[GRANT_PORTS_MAX];
};

/* What is looked at while one request is judged. */
struct judging {
    const struct msg_open *m;
    const struct msg_open_addr *items;
    unsigned item_count;
    struct decision decision;
    usec_t now;
};

struct open_group *open_group_new(void) { return calloc(1, sizeof(struct open_group)); }

struct open_group *open_group_free(struct open_group *g) {
    free(g);
    return NULL;
}

static void answer(struct core *c, uint64_t id, uint32_t result, uint32_t count, usec_t deadline) {
    struct msg_opened *m = proto_begin(&c->out, PROTO_OPENED, 0);
    *m = (struct msg_opened){.id = id, .epoch = c->epoch, .result = result, .count = count,
                             .deadline = deadline};
    if (result != REASON_ALLOWED) c->counts.openings_refused++;
    core_send(c, &c->resolver);
}

/* ---- judging ------------------------------------------------------------------------------- */

/* What can be said without the ledger: REASON_ALLOWED, or why not. */
static uint32_t judge_policy(struct core *c, struct judging *j) {
    const struct policy_gateway *g = core_gateway(c);
    if (j->m->policy != c->image.id) return REASON_STALE_POLICY;
    if (!c->log_ok && g->when_full == WHEN_FULL_REFUSE) return REASON_LOG_FULL;
    uint16_t type = j->items[0].remote.family == 4 ? TYPE_A : TYPE_AAAA;
    policy_decide(&c->image.policy, &j->m->client, &j->m->name, type, &j->decision);
    if (j->decision.reason != REASON_ALLOWED) return j->decision.reason;
    if (j->item_count > g->addresses_per_name) return REASON_NAME_CAP;
    /* The resolver works with the same image, so a longer lifetime is none that it came by. */
    for (unsigned i = 0; i < j->item_count; i++)
        if (j->items[i].lifetime > g->max_lifetime + g->grace) return REASON_OPEN_FAILED;
    return REASON_ALLOWED;
}

/* Lists the openings of one client. -ENOSPC: the group has no place for them. */
static int list_openings(struct core *c, struct request *q, const struct judging *j,
                         const struct addr *client) {
    struct open_group *g = c->open;
    const struct policy *p = &c->image.policy;
    uint32_t limit = core_gateway(c)->openings_per_client, begun = q->count;
    for (unsigned i = 0; i < j->item_count; i++) {
        const struct addr *remote = &j->items[i].remote;
        unsigned ports = grant_ports(p, &j->decision, remote, g->ports);
        if (ports == 0 || uplink_is_own(c->uplink, remote)) return -REASON_REBINDING;
        if (q->count - begun + ports > limit) return -REASON_CLIENT_CAP;
        if (q->first + q->count + ports > ELEMENTS_CHANGES_MAX) return -ENOSPC;
        for (unsigned k = 0; k < ports; k++) {
            struct opening *o = &g->openings[q->first + q->count++];
            o->key = (struct ledger_key){.client = *client, .remote = *remote,
                                         .port = g->ports[k].port,
                                         .protocol = g->ports[k].protocol};
            o->mark = marks_of(c->marks, p, j->decision.agent, g->ports[k].endpoint);
            o->deadline = j->now + j->items[i].lifetime * USEC_PER_SEC;
            if (o->mark == 0) return -REASON_OPEN_FAILED;
        }
    }
    return 0;
}

/* Deadlines never move back, and the first to end is what the resolver is told. Counts what is new:
 * claims into q->fresh, and into the return value openings that the kernel's map needs a place for. */
static uint32_t settle_deadlines(struct core *c, struct request *q) {
    uint32_t places = 0;
    q->deadline = UINT64_MAX;
    for (uint32_t i = 0; i < q->count; i++) {
        struct opening *o = &c->open->openings[q->first + i];
        struct ledger_claim had;
        if (!ledger_find(c->ledger, &o->key, q->name, &had)) {
            q->fresh++;
            places += !ledger_shown(c->ledger, &o->key, NULL, &had);
        } else if (had.deadline > o->deadline) {
            o->deadline = had.deadline;
        }
        if (o->deadline < q->deadline) q->deadline = o->deadline;
    }
    return places;
}

static bool asked_for(const struct judging *j, const struct addr *remote) {
    for (unsigned i = 0; i < j->item_count; i++)
        if (addr_equal(&j->items[i].remote, remote)) return true;
    return false;
}

/* Whether a flow lives on any port of (client, name, remote). */
static bool in_use(const struct core *c, const struct addr *client, const struct name_ref *name,
                   const struct addr *remote) {
    struct ledger_claim claim;
    uint32_t walk = 0;
    while (ledger_ports(c->ledger, client, name, remote, &walk, &claim))
        if (flows_live(c->flows, &claim.key)) return true;
    return false;
}

static int list_removal(struct core *c, struct request *q, const struct addr *client,
                        const struct addr *remote) {
    struct ledger_claim claim;
    uint32_t walk = 0;
    while (ledger_ports(c->ledger, client, q->name, remote, &walk, &claim)) {
        if (q->first + q->count == ELEMENTS_CHANGES_MAX) return -ENOSPC;
        c->open->openings[q->first + q->count++] = (struct opening){.key = claim.key};
    }
    return 0;
}

/* A name whose addresses rotate pushes out its own oldest ones that no flow uses. */
static int make_room(struct core *c, struct request *q, const struct judging *j,
                     const struct addr *client) {
    uint32_t limit = core_gateway(c)->addresses_per_name, walk = 0;
    uint32_t total = ledger_addresses(c->ledger, client, q->name);
    struct addr remote;
    for (unsigned i = 0; i < j->item_count; i++) {
        struct ledger_claim any;
        uint32_t none = 0;
        total += !ledger_ports(c->ledger, client, q->name, &j->items[i].remote, &none, &any);
    }
    while (total > limit && ledger_oldest(c->ledger, client, q->name, &walk, &remote)) {
        if (asked_for(j, &remote) || in_use(c, client, q->name, &remote)) continue;
        int r = list_removal(c, q, client, &remote);
        if (r < 0) return r;
        total--;
    }
    return total > limit ? -REASON_NAME_CAP : 0;
}

static bool client_has_room(struct core *c, const struct request *q, const struct addr *client) {
    uint64_t claims = ledger_client_claims(c->ledger, client);
    for (uint32_t i = 0; i < q->count; i++) {
        const struct opening *o = &c->open->openings[q->first + i];
        struct ledger_claim had;
        if (!addr_equal(&o->key.client, client)) continue;
        if (o->mark == 0) claims--;
        else claims += !ledger_find(c->ledger, &o->key, q->name, &had);
    }
    return claims <= core_gateway(c)->openings_per_client;
}

/* The kernel counts a refreshed element twice until the transaction is over, so a map that was let
 * fill up could not even keep what it has. And no agent may have more than is left for all others:
 * its clients may be as many as addresses in an IPv6 subnet, so their limits do not bound it. */
static bool map_has_room(const struct core *c, const struct request *q, uint32_t places) {
    const struct opening *first = &c->open->openings[q->first];
    uint32_t size = c->config.map_size, headroom = size / HEADROOM_PART;
    if (headroom > HEADROOM_MAX) headroom = HEADROOM_MAX;
    uint64_t open = (uint64_t)ledger_openings(c->ledger, first->key.client.family) + places;
    uint64_t agent = (uint64_t)ledger_agent_claims(c->ledger, first->mark) + q->fresh;
    return open <= size - headroom && (q->fresh == 0 || agent <= size - headroom - open);
}

/* Lists all that the request changes. 0, -reason, or -ENOSPC: the group is too full for it. */
static int judge_request(struct core *c, struct request *q, const struct judging *j) {
    int r = 0;
    for (unsigned i = 0; i < q->client_count && r == 0; i++)
        r = list_openings(c, q, j, &q->clients[i]);
    if (r < 0) return r;
    q->added = q->count;
    uint32_t places = settle_deadlines(c, q);
    for (unsigned i = 0; i < q->client_count && r == 0; i++)
        r = make_room(c, q, j, &q->clients[i]);
    for (unsigned i = 0; i < q->client_count && r == 0; i++)
        if (!client_has_room(c, q, &q->clients[i])) r = -REASON_CLIENT_CAP;
    if (r < 0) return r;
    if (!map_has_room(c, q, places)) return -REASON_MAP_FULL;
    /* For the whole group so far: an upper bound, as `used` counts removals and refreshes too. */
    r = ledger_reserve(c->ledger, q->first + q->count);
    return r == -ENOSPC ? -REASON_MAP_FULL : r < 0 ? -REASON_OPEN_FAILED : 0;
}

/* ---- into the kernel ----------------------------------------------------------------------- */

/* The element after this request: of all claims the one that will end last, as the ledger will have
 * it when this one is booked. */
static struct element_change change_of(struct core *c, const struct request *q,
                                       const struct opening *o, usec_t now, struct name *name) {
    struct element_change change = {.key = sync_element_key(&o->key)};
    struct ledger_claim shown;
    bool live = ledger_shown(c->ledger, &o->key, NULL, &shown) && shown.deadline > now;
    usec_t deadline = o->deadline;
    uint32_t mark = o->mark;
    name_ref_read(q->name, name);
    if (live) change.was = shown.mark;
    if (o->mark == 0 && !(ledger_shown(c->ledger, &o->key, q->name, &shown) &&
                          shown.deadline > now)) {
        change.op = ELEMENT_DELETE;
        return change;
    }
    /* Our own claim, if that is the one shown, ends no later than it will now. */
    if (o->mark == 0 || (live && shown.name != q->name && shown.deadline > o->deadline)) {
        deadline = shown.deadline;
        mark = shown.mark;
        name_ref_read(shown.name, name);
    }
    change.op = live ? ELEMENT_REFRESH : ELEMENT_ADD;
    change.mark = mark;
    change.name = name;
    change.timeout_ms = (deadline - now + USEC_PER_MSEC - 1) / USEC_PER_MSEC;
    return change;
}

static int put_request(struct core *c, const struct request *q, usec_t now) {
    int r = elements_request(c->elements);
    if (r < 0) return r;
    for (uint32_t i = 0; i < q->count && r >= 0; i++) {
        struct name name;
        struct element_change change =
            change_of(c, q, &c->open->openings[q->first + i], now, &name);
        r = elements_put(c->elements, &change);
    }
    if (r < 0) elements_cancel(c->elements);
    return r;
}

/* Books what the kernel has acknowledged. */
static void book(struct core *c, const struct request *q) {
    for (uint32_t i = 0; i < q->count; i++) {
        const struct opening *o = &c->open->openings[q->first + i];
        if (o->mark == 0) ledger_remove(c->ledger, &o->key, q->name);
        else ledger_put(c->ledger, &o->key, q->name, o->mark, o->deadline);
    }
    c->counts.openings_made += q->fresh;
    c->counts.openings_refreshed += q->added - q->fresh;
}

static void conclude(struct core *c, const struct request *q, int result) {
    if (result >= 0) {
        book(c, q);
        answer(c, q->id, REASON_ALLOWED, q->added, q->deadline);
        return;
    }
    answer(c, q->id, result == -ENFILE ? REASON_MAP_FULL : REASON_OPEN_FAILED, 0, 0);
    if (result != -ENFILE) log_warn("the kernel refused an opening: %s", strerror(-result));
    if (result == -ENOENT) c->rebuild = true; /* the map is gone */
}

void open_commit(struct core *c) {
    struct open_group *g = c->open;
    if (g->count == 0) return;
    int r = elements_commit(c->elements);
    c->counts.transactions_failed += r < (int)g->count;
    if (r < 0) c->compare = true; /* what the kernel did is not known */
    for (unsigned i = 0; i < g->count; i++) {
        int result = r < 0 ? r : elements_result(c->elements, i);
        conclude(c, &g->requests[i], result);
        names_drop(c->names, g->requests[i].name);
    }
    g->count = 0;
    g->used = 0;
    elements_begin(c->elements);
    if (c->rebuild) repair_check(c);
}

/* ---- requests ------------------------------------------------------------------------------ */

static bool client_waits(const struct open_group *g, const struct request *q) {
    for (unsigned i = 0; i < g->count; i++)
        for (unsigned k = 0; k < g->requests[i].client_count; k++)
            for (unsigned n = 0; n < q->client_count; n++)
                if (addr_equal(&g->requests[i].clients[k], &q->clients[n])) return true;
    return false;
}

/* Judges and puts the request as the next of the group. */
static int join(struct core *c, struct request *q, const struct judging *j) {
    struct open_group *g = c->open;
    if (g->count == REQUESTS_MAX) return -ENOSPC;
    if (g->count == 0) elements_begin(c->elements);
    q->first = g->used;
    q->count = q->added = q->fresh = 0;
    int r = judge_request(c, q, j);
    if (r == 0) r = put_request(c, q, j->now);
    if (r < 0) return r;
    g->used += q->count;
    g->requests[g->count++] = *q;
    return 0;
}

static uint32_t take(struct core *c, struct request *q, struct judging *j) {
    uint32_t reason = judge_policy(c, j);
    if (reason != REASON_ALLOWED) return reason;
    q->client_count = policy_clients(&c->image.policy, j->decision.agent, &j->m->client,
                                     j->items[0].remote.family, q->clients);
    if (q->client_count == 0) return REASON_NO_FAMILY;
    q->name = names_get(c->names, &j->m->name);
    if (!q->name) return REASON_OPEN_FAILED;
    if (client_waits(c->open, q)) open_commit(c);
    int r = join(c, q, j);
    if (r == -ENOSPC) {
        open_commit(c);
        r = join(c, q, j);
    }
    if (r >= 0) return REASON_ALLOWED;
    names_drop(c->names, q->name);
    /* Too large for a group of its own is too large for a client. */
    if (r == -ENOSPC) return REASON_CLIENT_CAP;
    return r <= -REASON_BASE ? (uint32_t)-r : REASON_OPEN_FAILED;
}

void open_take(struct core *c) {
    struct judging j = {.m = proto_body(&c->in), .items = proto_item(&c->in, 0),
                        .item_count = c->in.head.items, .now = core_now(c)};
    struct request q = {.id = j.m->id};
    uint32_t reason = take(c, &q, &j);
    if (reason != REASON_ALLOWED) answer(c, q.id, reason, 0, 0);
}

void open_reverse(struct core *c) {
    const struct msg_reverse *ask = proto_body(&c->in);
    struct msg_reversed *m = proto_begin(&c->out, PROTO_REVERSED, 0);
    struct ledger_claim claim;
    usec_t now = core_now(c);
    m->id = ask->id;
    if (ledger_reverse(c->ledger, &ask->client, &ask->remote, now, &claim)) {
        uint64_t rest = (claim.deadline - now) / USEC_PER_SEC, grace = core_gateway(c)->grace;
        m->found = 1;
        m->ttl = rest > grace ? (uint32_t)(rest - grace) : 0;
        name_ref_read(claim.name, &m->name);
    }
    core_send(c, &c->resolver);
}
