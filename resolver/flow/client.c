/* client.c: the table of clients and their token buckets. */
#include "resolver/flow/client.h"

#include <stdlib.h>
#include <string.h>

struct clients {
    struct client **table;
    uint32_t mask, count, max;
    uint64_t seed;
    TAILQ_HEAD(, client) by_use; /* least recently used first */
};

struct clients *clients_new(uint32_t max, uint64_t seed) {
    struct clients *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    uint32_t size = 64;
    while (size < max && size < (UINT32_C(1) << 24))
        size <<= 1;
    c->table = calloc(size, sizeof(struct client *));
    if (!c->table) {
        free(c);
        return NULL;
    }
    c->mask = size - 1;
    c->max = max;
    c->seed = seed;
    TAILQ_INIT(&c->by_use);
    return c;
}

struct clients *clients_free(struct clients *c) {
    if (!c)
        return NULL;
    struct client *e;
    while ((e = TAILQ_FIRST(&c->by_use))) {
        TAILQ_REMOVE(&c->by_use, e, used);
        free(e);
    }
    free(c->table);
    free(c);
    return NULL;
}

/* Keyed, because an agent may own a whole /64 and choose addresses that would meet in one chain. */
static uint32_t hash_of(const struct clients *c, const struct addr *a) {
    uint64_t parts[3] = {a->family}, h = c->seed;
    memcpy(&parts[1], a->bytes, sizeof a->bytes);
    for (int i = 0; i < 3; i++) {
        h = (h ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= (h >> 29) ^ (c->seed << 7);
    }
    return (uint32_t)(h >> 32) & c->mask;
}

/* Drops the least recently used client if its buckets are full by now and nothing of it is in
 * flight: to forget it then changes nothing for it. */
static int evict(struct clients *c, usec_t now) {
    struct client *e = TAILQ_FIRST(&c->by_use);
    if (!e || e->pending > 0 || now - e->filled < USEC_PER_SEC)
        return -1;
    struct client **link = &c->table[hash_of(c, &e->addr)];
    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
    TAILQ_REMOVE(&c->by_use, e, used);
    free(e);
    c->count--;
    return 0;
}

struct client *clients_get(struct clients *c, const struct addr *addr, usec_t now) {
    struct client **chain = &c->table[hash_of(c, addr)], *e = *chain;
    while (e && !addr_equal(&e->addr, addr))
        e = e->next;
    if (e) {
        TAILQ_REMOVE(&c->by_use, e, used);
        TAILQ_INSERT_TAIL(&c->by_use, e, used);
        return e;
    }
    if (c->count >= c->max && evict(c, now) < 0)
        return NULL;
    e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->addr = *addr;
    e->filled = now;
    e->credit = e->excess = USEC_PER_SEC;
    e->next = *chain;
    *chain = e;
    TAILQ_INIT(&e->queries);
    TAILQ_INSERT_TAIL(&c->by_use, e, used);
    c->count++;
    return e;
}

static usec_t fill(usec_t level, usec_t passed) {
    return passed >= USEC_PER_SEC - level ? USEC_PER_SEC : level + passed;
}

enum client_rate client_take(struct client *c, uint32_t rate, usec_t now) {
    usec_t passed = now - c->filled, cost = rate ? USEC_PER_SEC / rate : USEC_PER_SEC;
    c->filled = now;
    c->credit = fill(c->credit, passed);
    c->excess = fill(c->excess, passed);
    if (c->credit >= cost) {
        c->credit -= cost;
        return RATE_OK;
    }
    if (c->excess >= cost) {
        c->excess -= cost;
        return RATE_OVER;
    }
    return RATE_FLOOD;
}
