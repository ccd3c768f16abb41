/* flow.c: the engine's frame: its queue of actions, its deadlines, what core says, reload. */
#include "resolver/flow/flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "resolver/flow/engine.h"

static void system_random(void *ctx, void *bytes, size_t size) {
    (void)ctx;
    random_bytes(bytes, size);
}

const struct flow_setup flow_setup_default = {
    .random = system_random,
    .hold = 500 * USEC_PER_MSEC,
    .lookup_limit = 6 * USEC_PER_SEC,
    .pending = 16384,
    .clients = 65536,
    .cache_entries = 100000,
    .cache_bytes = 64u << 20,
    .memos = 65536,
    .memo_bytes = 64u << 20,
};

static uint32_t round_up(uint32_t n) {
    uint32_t size = 64;
    while (size < n && size < (UINT32_C(1) << 24))
        size <<= 1;
    return size;
}

struct flow *flow_new(const struct flow_setup *setup, const struct policy *policy) {
    struct flow *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->setup = *setup;
    if (!f->setup.clock.monotonic)
        f->setup.clock = clock_system;
    f->policy = policy;
    f->policy_id = policy_id(policy);
    f->gateway = policy_gateway(policy);
    /* Until core says otherwise: it checks both itself before it opens anything. */
    f->log_ok = f->ipv6_up = true;
    TAILQ_INIT(&f->actions);
    TAILQ_INIT(&f->busy);
    TAILQ_INIT(&f->queries);
    TAILQ_INIT(&f->holding);
    TAILQ_INIT(&f->lookups);
    TAILQ_INIT(&f->waits);
    uint32_t size = round_up(setup->pending);
    f->lookup_mask = size - 1;
    f->seed = flow_random(f);
    f->lookup_table = calloc(size, sizeof(struct lookup *));
    query_count_agents(f);
    f->cache = cache_new(setup->cache_entries, setup->cache_bytes);
    f->opening = opening_new(setup->memos, setup->memo_bytes, size, flow_random(f));
    f->clients = clients_new(setup->clients, flow_random(f));
    if (!f->lookup_table || !f->by_agent || !f->cache || !f->opening || !f->clients ||
        slots_init(&f->reverses, size, flow_random(f)) < 0 ||
        slots_init(&f->lookup_ids, size, 0) < 0)
        return flow_free(f);
    return f;
}

struct flow *flow_free(struct flow *f) {
    if (!f)
        return NULL;
    struct query *q;
    while ((q = TAILQ_FIRST(&f->queries))) {
        query_free(f, q);
    }
    struct flow_action *a;
    while ((a = TAILQ_FIRST(&f->actions))) {
        TAILQ_REMOVE(&f->actions, a, link);
        a->queued = false;
        if (a->kind == FLOW_RELEASE || a->kind == FLOW_CANCEL)
            flow_done(f, a);
    }
    while (!TAILQ_EMPTY(&f->waits))
        open_wait_free(f, TAILQ_FIRST(&f->waits));
    while (!TAILQ_EMPTY(&f->lookups))
        lookup_free(f, TAILQ_FIRST(&f->lookups));
    while ((q = f->free_queries)) {
        f->free_queries = q->next_free;
        free(q);
    }
    slots_destroy(&f->reverses);
    slots_destroy(&f->lookup_ids);
    free(f->lookup_table);
    free(f->by_agent);
    cache_free(f->cache);
    opening_free(f->opening);
    clients_free(f->clients);
    free(f);
    return NULL;
}

uint64_t flow_random(struct flow *f) {
    uint64_t value;
    if (f->randomness_left < sizeof value) {
        f->setup.random(f->setup.random_ctx, f->randomness, sizeof f->randomness);
        f->randomness_left = sizeof f->randomness;
    }
    f->randomness_left -= sizeof value;
    memcpy(&value, f->randomness + f->randomness_left, sizeof value);
    return value;
}

/* ---- actions ---------------------------------------------------------------------------------- */

void action_queue(struct flow *f, struct flow_action *a, enum flow_action_kind kind) {
    action_remove(f, a);
    a->kind = kind;
    a->queued = true;
    TAILQ_INSERT_TAIL(&f->actions, a, link);
}

void action_remove(struct flow *f, struct flow_action *a) {
    if (!a->queued)
        return;
    a->queued = false;
    /* TAILQ_REMOVE needs the head only when the element is the last one. */
    if (a == TAILQ_LAST(&f->busy, action_list))
        TAILQ_REMOVE(&f->busy, a, link);
    else
        TAILQ_REMOVE(&f->actions, a, link);
}

struct flow_action *flow_next(struct flow *f) {
    struct flow_action *a = TAILQ_FIRST(&f->actions);
    if (!a)
        return NULL;
    TAILQ_REMOVE(&f->actions, a, link);
    a->queued = false;
    return a;
}

static struct query *query_of(const struct flow_action *a) {
    return (struct query *)((uintptr_t)a - offsetof(struct query, action));
}

static struct lookup *lookup_of(const struct flow_action *a) {
    return (struct lookup *)((uintptr_t)a - offsetof(struct lookup, action));
}

static struct open_wait *wait_of(const struct flow_action *a) {
    return (struct open_wait *)((uintptr_t)a - offsetof(struct open_wait, action));
}

void flow_done(struct flow *f, struct flow_action *a) {
    switch (a->kind) {
    case FLOW_ASK:
        lookup_of(a)->sent = true;
        break;
    case FLOW_CANCEL:
        lookup_free(f, lookup_of(a));
        break;
    case FLOW_RELEASE:
        query_free(f, query_of(a));
        break;
    case FLOW_OPEN:
    case FLOW_REVERSE:
        break;
    }
}

struct flow_asked flow_asked(const struct flow_action *a) {
    const struct lookup *l = lookup_of(a);
    return (struct flow_asked){.id = l->id, .name = &l->name, .type = l->type};
}

void flow_core_message(struct flow *f, const struct flow_action *a, struct proto_message *m) {
    (void)f;
    if (a->kind == FLOW_OPEN) {
        opening_message(wait_of(a)->asking, m);
        return;
    }
    const struct query *q = query_of(a);
    struct msg_reverse *reverse = proto_begin(m, PROTO_REVERSE, 0);
    reverse->id = q->reverse_id;
    reverse->client = q->peer.client;
    name_to_reverse_addr(&q->wire.name, &reverse->remote);
}

void flow_core_busy(struct flow *f, struct flow_action *a) {
    if (TAILQ_EMPTY(&f->busy))
        f->busy_until = flow_now(f) + CORE_BUSY_RETRY;
    a->queued = true;
    TAILQ_INSERT_TAIL(&f->busy, a, link);
}

/* ---- what core says --------------------------------------------------------------------------- */

/* Asks core again for everything under way, because what it acknowledged may be gone. */
static void ask_again_all(struct flow *f) {
    struct open_wait *w, *next;
    for (w = TAILQ_FIRST(&f->waits); w; w = next) {
        next = TAILQ_NEXT(w, order);
        if (TAILQ_EMPTY(&w->waiting)) {
            open_wait_free(f, w);
            continue;
        }
        opening_renew(f->opening, w->asking);
        action_queue(f, &w->action, FLOW_OPEN);
    }
}

void flow_state(struct flow *f, const struct msg_state *m) {
    f->log_ok = m->log_ok;
    f->ipv6_up = m->ipv6_up;
    if (opening_epoch(f->opening, m->epoch))
        ask_again_all(f);
}

/* All who wait get the same answer; `o` is good as long as nothing else touches the memos. */
static void opened_ok(struct flow *f, struct query_list *waiting, const struct opened *o) {
    struct query *q, *next;
    struct query_list again = TAILQ_HEAD_INITIALIZER(again);
    for (q = TAILQ_FIRST(waiting); q; q = next) {
        next = TAILQ_NEXT(q, waiting);
        query_detach(f, q);
        int r = release_addrs(f, q, o, q->asks >= ASKS_AGAIN_MAX);
        if (r == -EAGAIN)
            TAILQ_INSERT_TAIL(&again, q, waiting);
        else if (r < 0)
            release_refuse(f, q, REASON_OPEN_LATE);
    }
    for (q = TAILQ_FIRST(&again); q; q = next) {
        next = TAILQ_NEXT(q, waiting);
        query_serve(f, q);
    }
}

static void opened_failed(struct flow *f, struct open_wait *w, enum reason reason) {
    struct query *q;
    if (reason == REASON_STALE_POLICY) {
        /* The new policy is on its way: flow_policy() decides again; the hold goes on. */
        TAILQ_FOREACH(q, &w->waiting, waiting)
            q->stale = true;
        return;
    }
    while ((q = TAILQ_FIRST(&w->waiting))) {
        query_detach(f, q);
        release_refuse(f, q, reason);
    }
    open_wait_free(f, w);
}

void flow_opened(struct flow *f, const struct msg_opened *m) {
    struct asking *a = opening_by_id(f->opening, m->id);
    if (!a)
        return; /* it was given up, or asked again under another policy or epoch */
    struct open_wait *w = a->owner;
    const struct opened *o = NULL;
    int r = opening_answered(f->opening, a, m, flow_now(f), &o);
    if (r == -ESTALE && a->retries < ASKS_AGAIN_MAX && !TAILQ_EMPTY(&w->waiting)) {
        opening_renew(f->opening, a);
        action_queue(f, &w->action, FLOW_OPEN);
    } else if (r == -ESTALE) {
        opened_failed(f, w, REASON_OPEN_FAILED);
    } else if (r < 0) {
        opened_failed(f, w, (enum reason)-r);
    } else {
        w->asking = NULL;
        opened_ok(f, &w->waiting, o);
        open_wait_free(f, w);
    }
}

void flow_reversed(struct flow *f, const struct msg_reversed *m) {
    struct query *q = slots_find(&f->reverses, m->id);
    if (!q)
        return;
    query_detach(f, q);
    if (m->found)
        release_ptr(f, q, &m->name, m->ttl);
    else
        release_refuse(f, q, REASON_PTR_UNKNOWN);
}

void flow_policy(struct flow *f, const struct policy *policy) {
    f->policy = policy;
    f->policy_id = policy_id(policy);
    f->gateway = policy_gateway(policy);
    opening_forget(f->opening);
    query_count_agents(f);
    struct query *q, *next;
    for (q = TAILQ_FIRST(&f->queries); q; q = next) {
        next = TAILQ_NEXT(q, all);
        query_redecide(f, q);
    }
    struct open_wait *w, *next_wait;
    for (w = TAILQ_FIRST(&f->waits); w; w = next_wait) {
        next_wait = TAILQ_NEXT(w, order);
        if (w->asking->policy != f->policy_id)
            open_wait_free(f, w);
    }
    struct lookup *l, *next_lookup;
    for (l = TAILQ_FIRST(&f->lookups); l; l = next_lookup) {
        next_lookup = TAILQ_NEXT(l, order);
        lookup_abandon(f, l);
    }
}

/* ---- time ------------------------------------------------------------------------------------- */

void flow_tick(struct flow *f) {
    usec_t now = flow_now(f);
    struct query *q;
    while ((q = TAILQ_FIRST(&f->holding)) && q->hold_until <= now) {
        enum reason reason = q->stale ? REASON_STALE_POLICY : REASON_OPEN_LATE;
        query_detach(f, q);
        release_refuse(f, q, reason);
    }
    struct lookup *l;
    while ((l = TAILQ_FIRST(&f->lookups)) && l->deadline <= now)
        lookup_fail(f, l, REASON_UPSTREAM_TIMEOUT);
    /* An acknowledgement that is merely late still makes a memo; one that never comes is forgotten. */
    struct open_wait *w;
    while ((w = TAILQ_FIRST(&f->waits)) && w->asking->asked + 8 * f->setup.hold <= now &&
           TAILQ_EMPTY(&w->waiting))
        open_wait_free(f, w);
    if (!TAILQ_EMPTY(&f->busy) && f->busy_until <= now)
        TAILQ_CONCAT(&f->actions, &f->busy, link);
}

usec_t flow_deadline(const struct flow *f) {
    usec_t next = UINT64_MAX;
    const struct query *q = TAILQ_FIRST(&f->holding);
    const struct lookup *l = TAILQ_FIRST(&f->lookups);
    const struct open_wait *w = TAILQ_FIRST(&f->waits);
    if (q && q->hold_until < next)
        next = q->hold_until;
    if (l && l->deadline < next)
        next = l->deadline;
    if (w && TAILQ_EMPTY(&w->waiting) && w->asking->asked + 8 * f->setup.hold < next)
        next = w->asking->asked + 8 * f->setup.hold;
    if (!TAILQ_EMPTY(&f->busy) && f->busy_until < next)
        next = f->busy_until;
    return next;
}

void flow_stats(const struct flow *f, struct msg_stats *m) {
    struct cache_stats cache;
    cache_stats(f->cache, &cache);
#define X(field) m->field += f->stats.field;
    STATS_TABLE(X)
#undef X
    m->cache_entries += cache.entries;
    m->pending += f->pending;
}
