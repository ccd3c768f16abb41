/* lookup.c: one question to upstreams for all who wait for the same name and type. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "resolver/flow/engine.h"

static uint32_t hash_of(const struct flow *f, const struct name *name, uint16_t type) {
    uint64_t h = f->seed ^ type; /* FNV-1a from a secret start */
    for (unsigned i = 0; i < name->length; i++)
        h = (h ^ name->wire[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)(h ^ (h >> 32)) & f->lookup_mask;
}

struct lookup *lookup_find(struct flow *f, const struct name *name, uint16_t type) {
    struct lookup *l = f->lookup_table[hash_of(f, name, type)];
    while (l && (l->type != type || !name_equal(&l->name, name)))
        l = l->next;
    return l;
}

struct lookup *lookup_start(struct flow *f, const struct name *name, uint16_t type) {
    struct lookup *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->id = slots_take(&f->lookup_ids, l);
    if (!l->id) {
        free(l);
        return NULL;
    }
    l->name = *name;
    l->type = type;
    l->deadline = flow_now(f) + f->setup.lookup_limit;
    TAILQ_INIT(&l->waiting);
    struct lookup **chain = &f->lookup_table[hash_of(f, name, type)];
    l->next = *chain;
    *chain = l;
    TAILQ_INSERT_TAIL(&f->lookups, l, order);
    action_queue(f, &l->action, FLOW_ASK);
    return l;
}

/* It answers to nothing any more; who still waits is the caller's to serve. */
static void lookup_end(struct flow *f, struct lookup *l) {
    if (l->state == LOOKUP_ENDED)
        return;
    struct lookup **link = &f->lookup_table[hash_of(f, &l->name, l->type)];
    while (*link != l)
        link = &(*link)->next;
    *link = l->next;
    TAILQ_REMOVE(&f->lookups, l, order);
    slots_release(&f->lookup_ids, l->id);
    l->state = LOOKUP_ENDED;
}

void lookup_free(struct flow *f, struct lookup *l) {
    lookup_end(f, l);
    action_remove(f, &l->action);
    vetted_unref(l->nx);
    free(l);
}

/* ---- results ---------------------------------------------------------------------------------- */

static uint16_t other_family(uint16_t type) {
    return type == TYPE_A ? TYPE_AAAA : type == TYPE_AAAA ? TYPE_A : 0;
}

bool lookup_other_family_exists(struct flow *f, const struct name *name, uint16_t type) {
    struct cache_found found;
    if (!other_family(type) || cache_find(f->cache, name, other_family(type), flow_now(f),
                                          &found) != CACHE_ANSWER)
        return false;
    bool exists = vetted_kind(found.vetted) != VETTED_NXDOMAIN;
    vetted_unref(found.vetted);
    return exists;
}

static uint32_t clamp(uint32_t value, uint32_t least, uint32_t most) {
    return value < least ? least : value > most ? most : value;
}

/* How long an answer is kept and, less what has passed, told. The floor spares answers that would
 * end before the first packet; the ceiling bounds how long an opening can outlive a change. */
static uint32_t lifetime_of(const struct flow *f, const struct vetted *v) {
    uint32_t ttl = vetted_ttl(v);
    switch (vetted_kind(v)) {
    case VETTED_ADDRS:
        return clamp(ttl, f->gateway->min_lifetime, f->gateway->max_lifetime);
    case VETTED_OTHERS:
        return clamp(ttl, 1, f->gateway->max_lifetime);
    case VETTED_NODATA:
    case VETTED_NXDOMAIN:
        break;
    }
    return clamp(ttl, NEGATIVE_TTL_MIN, NEGATIVE_TTL_MAX);
}

static void finish(struct flow *f, struct lookup *l, struct vetted *v) {
    usec_t now = flow_now(f);
    uint32_t lifetime = lifetime_of(f, v);
    struct query *q;
    lookup_end(f, l);
    /* When it does not fit it is served all the same, once. */
    cache_put(f->cache, &l->name, l->type, v, lifetime, now);
    while ((q = TAILQ_FIRST(&l->waiting))) {
        query_detach(f, q);
        q->upstream = l->upstream;
        query_found(f, q, vetted_ref(v), now + lifetime * USEC_PER_SEC, FROM_UPSTREAM);
    }
}

/* An NXDOMAIN that waited for this name's other family is told now. */
static void finish_sibling(struct flow *f, const struct name *name, uint16_t type) {
    struct lookup *l = other_family(type) ? lookup_find(f, name, other_family(type)) : NULL;
    if (!l || l->state != LOOKUP_NX)
        return;
    finish(f, l, l->nx);
    lookup_free(f, l);
}

void lookup_fail(struct flow *f, struct lookup *l, enum reason reason) {
    struct query *q;
    if (l->state == LOOKUP_NX) { /* the other family's lookup never ended: say what is known */
        finish(f, l, l->nx);
        lookup_free(f, l);
        return;
    }
    lookup_end(f, l);
    cache_put_failure(f->cache, &l->name, l->type, reason, flow_now(f));
    while ((q = TAILQ_FIRST(&l->waiting))) {
        query_detach(f, q);
        q->from = FROM_UPSTREAM;
        q->upstream = l->upstream;
        release_refuse(f, q, reason);
    }
    finish_sibling(f, &l->name, l->type);
    if (l->sent)
        action_queue(f, &l->action, FLOW_CANCEL); /* upstream may still be at it */
    else
        lookup_free(f, l);
}

void lookup_abandon(struct flow *f, struct lookup *l) {
    if (!TAILQ_EMPTY(&l->waiting))
        return;
    lookup_end(f, l);
    if (l->sent)
        action_queue(f, &l->action, FLOW_CANCEL);
    else
        lookup_free(f, l);
}

void flow_upstream_answer(struct flow *f, uint64_t id, const struct wire_answer *answer,
                          const struct addr *upstream) {
    struct lookup *l = slots_find(&f->lookup_ids, id);
    if (!l || l->state != LOOKUP_ASKING)
        return;
    l->upstream = *upstream;
    l->sent = false; /* upstream is done with it: nothing to cancel */
    struct vetted *v = NULL;
    int r = vet_answer(&l->name, l->type, answer, &v);
    if (r < 0) {
        lookup_fail(f, l, r == -ENOMEM ? REASON_UPSTREAM_ERROR : (enum reason)-r);
        return;
    }
    /* Some servers say NXDOMAIN for the family they do not have, and a stub resolver that believes
     * it loses the other family too. While that is being asked, wait for it. */
    uint16_t other = vetted_kind(v) == VETTED_NXDOMAIN ? other_family(l->type) : 0;
    struct lookup *sibling = other ? lookup_find(f, &l->name, other) : NULL;
    if (sibling && sibling->state == LOOKUP_ASKING) {
        l->state = LOOKUP_NX;
        l->nx = v;
        return;
    }
    finish(f, l, v);
    finish_sibling(f, &l->name, l->type);
    vetted_unref(v);
    lookup_free(f, l);
}

void flow_upstream_failed(struct flow *f, uint64_t id, enum reason reason) {
    struct lookup *l = slots_find(&f->lookup_ids, id);
    if (!l || l->state != LOOKUP_ASKING)
        return;
    l->sent = false;
    lookup_fail(f, l, reason_answer(reason) == ANSWER_FAIL ? reason : REASON_UPSTREAM_ERROR);
}
