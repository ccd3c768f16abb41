/* query.c: the way of one query: admit, decide, find or look up, permit, open. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "resolver/flow/engine.h"

/* ---- life ------------------------------------------------------------------------------------- */

struct query *query_take(struct flow *f) {
    struct query *q = f->free_queries;
    if (q)
        f->free_queries = q->next_free;
    else if (!(q = malloc(sizeof *q)))
        return NULL;
    /* What parse, decide and release fill is cleared or set by them. */
    memset(q, 0, offsetof(struct query, peer));
    return q;
}

void query_free(struct flow *f, struct query *q) {
    query_settle(f, q);
    action_remove(f, &q->action);
    q->vetted = vetted_unref(q->vetted);
    q->next_free = f->free_queries;
    f->free_queries = q;
}

/* Whether the very same query is in flight already: a stub resolver that did not want to wait. */
static bool retransmitted(const struct query *q) {
    const struct query *other;
    if (q->peer.transport != TRANSPORT_UDP)
        return false;
    TAILQ_FOREACH(other, &q->client->queries, mine)
        if (other->wire.id == q->wire.id && other->peer.port == q->peer.port &&
            other->wire.type == q->wire.type && other->peer.transport == TRANSPORT_UDP &&
            addr_equal(&other->peer.client, &q->peer.client) &&
            addr_equal(&other->peer.local, &q->peer.local) &&
            name_equal(&other->wire.name, &q->wire.name))
            return true;
    return false;
}

static uint32_t agent_slot(const struct flow *f, uint32_t agent) {
    return agent == POLICY_NONE ? policy_agent_count(f->policy) : agent;
}

void query_count_agents(struct flow *f) {
    struct query *q;
    free(f->by_agent);
    f->by_agent = calloc((size_t)policy_agent_count(f->policy) + 1, sizeof *f->by_agent);
    TAILQ_FOREACH(q, &f->queries, all) {
        q->agent = agent_slot(f, policy_agent_of(f->policy, &q->peer.client));
        if (f->by_agent)
            f->by_agent[q->agent]++;
    }
}

/* Whether one more would be more than its agent, who may have very many addresses, leaves for all
 * others. */
static bool over_share(const struct flow *f, uint32_t agent) {
    return f->pending + (f->by_agent ? f->by_agent[agent] : 0) >= f->setup.pending;
}

/* Registers it among the client's, its agent's and all pending ones. False: a bound forbids it. */
static bool pend(struct flow *f, struct query *q) {
    uint32_t agent = agent_slot(f, q->decision.agent);
    if (q->pending)
        return true;
    if (q->client->pending >= f->gateway->pending_per_client || over_share(f, agent))
        return false;
    q->pending = true;
    q->agent = agent;
    if (f->by_agent)
        f->by_agent[agent]++;
    q->client->pending++;
    f->pending++;
    TAILQ_INSERT_TAIL(&q->client->queries, q, mine);
    TAILQ_INSERT_TAIL(&f->queries, q, all);
    return true;
}

void query_detach(struct flow *f, struct query *q) {
    if (q->stage == STAGE_LOOKUP)
        TAILQ_REMOVE(&q->lookup->waiting, q, waiting);
    else if (q->stage == STAGE_OPENING)
        TAILQ_REMOVE(&q->wait->waiting, q, waiting);
    else if (q->stage == STAGE_REVERSE) {
        slots_release(&f->reverses, q->reverse_id);
        action_remove(f, &q->action);
    }
    q->lookup = NULL;
    q->wait = NULL;
    q->stage = STAGE_NEW;
}

void query_settle(struct flow *f, struct query *q) {
    query_detach(f, q);
    if (q->held) {
        TAILQ_REMOVE(&f->holding, q, holding);
        q->held = false;
    }
    if (q->pending) {
        TAILQ_REMOVE(&q->client->queries, q, mine);
        TAILQ_REMOVE(&f->queries, q, all);
        q->client->pending--;
        if (f->by_agent)
            f->by_agent[q->agent]--;
        f->pending--;
        q->pending = false;
    }
}

/* The hold runs from the first question to core and is not started again by later ones, so
 * `holding` stays in the order of expiry. */
static void hold(struct flow *f, struct query *q) {
    if (q->held)
        return;
    q->held = true;
    q->hold_until = flow_now(f) + f->setup.hold;
    TAILQ_INSERT_TAIL(&f->holding, q, holding);
    f->stats.holds++;
}

/* ---- opening ---------------------------------------------------------------------------------- */

void open_wait_free(struct flow *f, struct open_wait *w) {
    action_remove(f, &w->action);
    TAILQ_REMOVE(&f->waits, w, order);
    opening_drop(f->opening, w->asking);
    free(w);
}

/* The opening must outlast what is told of the answer and the grace; the second on top is for the
 * way to the kernel and rounding, so that the client is told the whole rest. Never more than the
 * configuration allows: core would refuse it. */
static uint32_t lifetime_for(const struct flow *f, const struct query *q) {
    uint64_t most = (uint64_t)f->gateway->max_lifetime + f->gateway->grace;
    uint64_t want = (uint64_t)query_rest(q, flow_now(f)) + f->gateway->grace + 1;
    return (uint32_t)(want < most ? want : most);
}

/* Permits and asks; *ret is who waits for it. 0 or -reason. */
static int ask_core(struct flow *f, struct query *q, struct open_wait **ret) {
    struct permitted *permitted = NULL;
    int r = vet_permit(q->vetted, f->policy, &q->decision, &permitted);
    if (r < 0)
        return r == -ENOMEM ? -REASON_OPEN_FAILED : r;
    struct open_wait *w = calloc(1, sizeof *w);
    if (!w || opening_ask(f->opening, &q->peer.client, &q->wire.name, f->policy_id,
                          lifetime_for(f, q), permitted, flow_now(f), &w->asking) < 0) {
        permitted_free(permitted);
        free(w);
        return -REASON_OPEN_FAILED;
    }
    w->asking->owner = w;
    TAILQ_INIT(&w->waiting);
    TAILQ_INSERT_TAIL(&f->waits, w, order);
    action_queue(f, &w->action, FLOW_OPEN);
    *ret = w;
    return 0;
}

static void open_for(struct flow *f, struct query *q) {
    if (q->asks >= ASKS_AGAIN_MAX) {
        release_refuse(f, q, REASON_OPEN_LATE);
        return;
    }
    if (!pend(f, q)) {
        release_refuse(f, q, REASON_PENDING_CAP);
        return;
    }
    struct asking *asking =
        opening_pending(f->opening, &q->peer.client, q->vetted, f->policy_id);
    struct open_wait *w = NULL;
    if (asking && flow_now(f) - asking->asked < f->setup.hold)
        w = asking->owner;
    if (!w) {
        int r = ask_core(f, q, &w);
        if (r < 0) {
            release_refuse(f, q, (enum reason)-r);
            return;
        }
    }
    q->asks++;
    q->stage = STAGE_OPENING;
    q->wait = w;
    TAILQ_INSERT_TAIL(&w->waiting, q, waiting);
    hold(f, q);
}

static void reverse(struct flow *f, struct query *q) {
    struct addr remote;
    /* A client has openings to addresses of its own family only. */
    if (q->wire.type != TYPE_PTR || name_to_reverse_addr(&q->wire.name, &remote) < 0 ||
        remote.family != q->peer.client.family) {
        release_refuse(f, q, REASON_PTR_UNKNOWN);
        return;
    }
    if (!pend(f, q) || !(q->reverse_id = slots_take(&f->reverses, q))) {
        release_refuse(f, q, REASON_PENDING_CAP);
        return;
    }
    q->stage = STAGE_REVERSE;
    hold(f, q);
    action_queue(f, &q->action, FLOW_REVERSE);
}

/* ---- the way ---------------------------------------------------------------------------------- */

static bool is_address(uint16_t type) { return type == TYPE_A || type == TYPE_AAAA; }

void query_serve(struct flow *f, struct query *q) {
    if (vetted_kind(q->vetted) == VETTED_ADDRS) {
        if (!f->log_ok) {
            release_refuse(f, q, REASON_LOG_FULL);
            return;
        }
        const struct opened *o =
            opening_find(f->opening, &q->peer.client, q->vetted, f->policy_id, flow_now(f));
        if (!o || release_addrs(f, q, o, false) < 0)
            open_for(f, q);
        return;
    }
    struct permitted *permitted = NULL;
    int r = vet_permit(q->vetted, f->policy, &q->decision, &permitted);
    if (r < 0)
        release_refuse(f, q, r == -ENOMEM ? REASON_UPSTREAM_ERROR : (enum reason)-r);
    else
        release_others(f, q, permitted);
    permitted_free(permitted);
}

void query_found(struct flow *f, struct query *q, struct vetted *v, usec_t expiry,
                 enum query_source from) {
    q->vetted = v;
    q->expiry = expiry;
    q->from = from;
    query_serve(f, q);
}

static void look_up(struct flow *f, struct query *q) {
    struct cache_found found;
    switch (cache_find(f->cache, &q->wire.name, q->wire.type, flow_now(f), &found)) {
    case CACHE_ANSWER:
        f->stats.cache_hits++;
        query_found(f, q, found.vetted, found.expiry, FROM_CACHE);
        return;
    case CACHE_FAILURE:
        f->stats.cache_hits++;
        q->from = FROM_CACHE;
        release_refuse(f, q, found.reason);
        return;
    case CACHE_MISS:
        break;
    }
    if (!pend(f, q)) {
        release_refuse(f, q, REASON_PENDING_CAP);
        return;
    }
    struct lookup *l = lookup_find(f, &q->wire.name, q->wire.type);
    if (!l)
        l = lookup_start(f, &q->wire.name, q->wire.type);
    if (!l) {
        release_refuse(f, q, REASON_UPSTREAM_ERROR);
        return;
    }
    q->stage = STAGE_LOOKUP;
    q->lookup = l;
    TAILQ_INSERT_TAIL(&l->waiting, q, waiting);
}

/* Why an allowed query is not looked up now, or REASON_ALLOWED. */
static enum reason hindrance(const struct flow *f, const struct query *q) {
    if (q->wire.type == TYPE_AAAA && !f->ipv6_up)
        return REASON_NO_IPV6;
    if (is_address(q->wire.type) && !f->log_ok)
        return REASON_LOG_FULL;
    return REASON_ALLOWED;
}

/* From the decision on. */
static void route(struct flow *f, struct query *q) {
    enum reason reason = q->decision.reason;
    if (reason == REASON_PTR_UNKNOWN) {
        reverse(f, q);
        return;
    }
    if (reason == REASON_ALLOWED)
        reason = hindrance(f, q);
    if (reason == REASON_ALLOWED)
        look_up(f, q);
    else
        release_refuse(f, q, reason);
}

static void decide(struct flow *f, struct query *q) {
    q->policy = f->policy_id;
    q->stale = false;
    if (q->wire.reason == REASON_ALLOWED) {
        policy_decide(f->policy, &q->peer.client, &q->wire.name, q->wire.type, &q->decision);
        return;
    }
    uint32_t agent = policy_agent_of(f->policy, &q->peer.client);
    bool unknown = agent == POLICY_NONE && q->wire.question;
    q->decision = (struct decision){.reason = unknown ? REASON_UNKNOWN_CLIENT : q->wire.reason,
                                    .agent = agent, .deny = POLICY_NONE, .endpoint = POLICY_NONE};
}

void query_redecide(struct flow *f, struct query *q) {
    decide(f, q);
    enum reason reason = q->decision.reason;
    if (q->stage == STAGE_REVERSE && reason == REASON_PTR_UNKNOWN)
        return;
    if (reason == REASON_ALLOWED)
        reason = hindrance(f, q);
    if (q->stage == STAGE_LOOKUP && reason == REASON_ALLOWED)
        return;
    bool opening = q->stage == STAGE_OPENING;
    query_detach(f, q);
    if (opening && reason == REASON_ALLOWED)
        query_serve(f, q);
    else
        route(f, q);
}

bool flow_query(struct flow *f, const struct flow_peer *peer, const uint8_t *bytes, size_t size) {
    struct query *q = query_take(f);
    if (!q)
        return false;
    f->stats.queries++;
    if (wire_query_parse(bytes, size, &q->wire) < 0) {
        f->stats.malformed++;
        query_free(f, q);
        return false;
    }
    usec_t now = flow_now(f);
    q->peer = *peer;
    q->arrived = now;
    q->arrived_realtime = clock_realtime(&f->setup.clock);
    q->ref = flow_random(f);
    q->from = FROM_NONE;
    q->upstream = (struct addr){0};
    decide(f, q);

    /* Unknown clients share one entry: whoever can invent source addresses cannot fill the table. */
    static const struct addr nobody;
    bool known = q->decision.agent != POLICY_NONE;
    q->client = clients_get(f->clients, known ? &peer->client : &nobody, now);
    enum client_rate rate =
        q->client ? client_take(q->client, f->gateway->queries_per_second, now) : RATE_FLOOD;
    if (rate != RATE_OK)
        f->stats.rate_limited++;
    if (rate == RATE_FLOOD || retransmitted(q)) {
        query_free(f, q);
        return false;
    }
    if (rate == RATE_OVER && known && q->wire.question)
        release_refuse(f, q, REASON_RATE_LIMIT);
    else if (rate == RATE_OVER)
        release_refuse(f, q, q->decision.reason);
    else
        route(f, q);
    return true;
}
