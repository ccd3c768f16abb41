/* cache.c: three structures over the same entries: a hash table finds by (name, type), a list tells
 * which was used least recently, a heap tells which is of no more use first. A look-up touches only
 * the first two, so it costs the same however many entries there are.
 */
#include "resolver/cache/cache.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "resolver/cache/hash.h"

/* What an entry takes beyond itself: its slots in table and heap, and the allocator's header. */
#define ENTRY_OVERHEAD (2 * sizeof(void *) + sizeof(void *) + 16)

struct entry {
    struct entry *next;          /* in its bucket */
    struct entry *newer, *older; /* by last use */
    uint64_t hash;
    usec_t expiry;  /* handed out before this */
    usec_t retired; /* of no use from here on: later than expiry for a failure, whose back-off is
                       remembered for a while */
    size_t bytes;
    struct vetted *vetted; /* NULL: a failure */
    enum reason reason;
    uint32_t lifetime; /* seconds it was given */
    uint32_t heap_slot;
    uint16_t type;
    uint8_t length;
    uint8_t name[];
};

struct cache {
    uint64_t key[2];
    size_t mask; /* buckets - 1 */
    struct entry **buckets;
    struct entry **heap; /* min-heap by `retired`; `count` of `limit` slots in use */
    uint32_t count, limit;
    size_t bytes, bytes_limit;
    struct entry *newest, *oldest;
    uint64_t hits, failure_hits, misses, evicted;
};

/* ---- heap ------------------------------------------------------------------------------------ */

static void heap_set(struct cache *c, uint32_t slot, struct entry *e) {
    c->heap[slot] = e;
    e->heap_slot = slot;
}

static void heap_rise(struct cache *c, uint32_t slot, struct entry *e) {
    for (; slot > 0 && c->heap[(slot - 1) / 2]->retired > e->retired; slot = (slot - 1) / 2)
        heap_set(c, slot, c->heap[(slot - 1) / 2]);
    heap_set(c, slot, e);
}

static void heap_sink(struct cache *c, uint32_t slot, struct entry *e) {
    for (;;) {
        uint32_t child = 2 * slot + 1;
        if (child >= c->count) break;
        if (child + 1 < c->count && c->heap[child + 1]->retired < c->heap[child]->retired) child++;
        if (c->heap[child]->retired >= e->retired) break;
        heap_set(c, slot, c->heap[child]);
        slot = child;
    }
    heap_set(c, slot, e);
}

/* ---- entries --------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct cache *c, const struct name *name, uint16_t type) {
    uint8_t key[NAME_WIRE_MAX + 2];
    memcpy(key, name->wire, name->length);
    key[name->length] = (uint8_t)(type >> 8);
    key[name->length + 1] = (uint8_t)type;
    return hash_keyed(c->key, key, (size_t)name->length + 2);
}

static struct entry *entry_find(const struct cache *c, const struct name *name, uint16_t type) {
    uint64_t hash = hash_of(c, name, type);
    for (struct entry *e = c->buckets[hash & c->mask]; e; e = e->next)
        if (e->hash == hash && e->type == type && e->length == name->length &&
            memcmp(e->name, name->wire, e->length) == 0)
            return e;
    return NULL;
}

static void use_unlink(struct cache *c, struct entry *e) {
    *(e->newer ? &e->newer->older : &c->newest) = e->older;
    *(e->older ? &e->older->newer : &c->oldest) = e->newer;
}

static void use_link(struct cache *c, struct entry *e) {
    e->newer = NULL;
    e->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

static void entry_drop(struct cache *c, struct entry *e) {
    struct entry **link = &c->buckets[e->hash & c->mask];
    while (*link != e) link = &(*link)->next;
    *link = e->next;
    use_unlink(c, e);
    struct entry *last = c->heap[--c->count];
    if (last != e) { /* fills the hole, and may have to go either way from there */
        heap_sink(c, e->heap_slot, last);
        heap_rise(c, last->heap_slot, last);
    }
    c->bytes -= e->bytes;
    vetted_unref(e->vetted);
    free(e);
}

/* Until one more entry of `bytes` fits. */
static void make_room(struct cache *c, size_t bytes, usec_t now) {
    while (c->count == c->limit || c->bytes + bytes > c->bytes_limit) {
        struct entry *e = c->heap[0];
        if (e->retired > now) e = c->oldest;
        if (e->expiry > now) c->evicted++;
        entry_drop(c, e);
    }
}

static int entry_add(struct cache *c, const struct name *name, uint16_t type, usec_t now,
                     const struct entry *like) {
    size_t bytes = sizeof(struct entry) + name->length + ENTRY_OVERHEAD +
                   (like->vetted ? vetted_bytes(like->vetted) : 0);
    if (bytes > c->bytes_limit) return -ENOSPC;
    struct entry *e = malloc(sizeof *e + name->length);
    if (!e) return -ENOMEM;
    make_room(c, bytes, now);
    *e = *like;
    e->hash = hash_of(c, name, type);
    e->bytes = bytes;
    e->type = type;
    e->length = name->length;
    memcpy(e->name, name->wire, name->length);
    if (e->vetted) vetted_ref(e->vetted);
    e->next = c->buckets[e->hash & c->mask];
    c->buckets[e->hash & c->mask] = e;
    use_link(c, e);
    c->bytes += bytes;
    heap_rise(c, c->count++, e);
    return 0;
}

/* ---- the cache ------------------------------------------------------------------------------- */

struct cache *cache_new(uint32_t entries, size_t bytes) {
    struct cache *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->limit = entries > 0 ? entries : 1;
    c->bytes_limit = bytes;
    size_t buckets = 16;
    while (buckets < c->limit) buckets *= 2;
    c->mask = buckets - 1;
    c->buckets = calloc(buckets, sizeof(struct entry *));
    c->heap = calloc(c->limit, sizeof(struct entry *));
    if (!c->buckets || !c->heap) return cache_free(c);
    random_bytes(c->key, sizeof c->key);
    return c;
}

enum cache_hit cache_find(struct cache *c, const struct name *name, uint16_t type, usec_t now,
                          struct cache_found *ret) {
    struct entry *e = entry_find(c, name, type);
    if (!e || e->expiry <= now) {
        if (e && e->retired <= now) entry_drop(c, e);
        c->misses++;
        return CACHE_MISS;
    }
    use_unlink(c, e);
    use_link(c, e);
    *ret = (struct cache_found){.reason = e->reason, .expiry = e->expiry};
    if (!e->vetted) {
        c->failure_hits++;
        return CACHE_FAILURE;
    }
    c->hits++;
    ret->vetted = vetted_ref(e->vetted);
    return CACHE_ANSWER;
}

int cache_put(struct cache *c, const struct name *name, uint16_t type, struct vetted *vetted,
              uint32_t lifetime, usec_t now) {
    struct entry *old = entry_find(c, name, type);
    if (old) entry_drop(c, old);
    if (lifetime == 0) return 0;
    usec_t expiry = now + lifetime * USEC_PER_SEC;
    struct entry like = {.vetted = vetted,
                         .reason = REASON_ALLOWED,
                         .lifetime = lifetime,
                         .expiry = expiry,
                         .retired = expiry};
    return entry_add(c, name, type, now, &like);
}

/* RFC 9520 section 3.2: back off while it goes on failing. */
static uint32_t failure_lifetime(const struct entry *last, usec_t now) {
    if (!last || last->vetted || last->retired <= now) return CACHE_FAILURE_MIN;
    return last->lifetime > CACHE_FAILURE_MAX / 2 ? CACHE_FAILURE_MAX : 2 * last->lifetime;
}

int cache_put_failure(struct cache *c, const struct name *name, uint16_t type, enum reason reason,
                      usec_t now) {
    if (!reason_valid((uint32_t)reason) || reason_answer((uint32_t)reason) != ANSWER_FAIL)
        return -EINVAL;
    struct entry *old = entry_find(c, name, type);
    if (old && old->expiry > now) return 0;
    uint32_t lifetime = failure_lifetime(old, now);
    if (old) entry_drop(c, old);
    usec_t expiry = now + lifetime * USEC_PER_SEC;
    struct entry like = {.reason = reason,
                         .lifetime = lifetime,
                         .expiry = expiry,
                         .retired = expiry + CACHE_FAILURE_MAX * USEC_PER_SEC};
    return entry_add(c, name, type, now, &like);
}

void cache_flush(struct cache *c) {
    while (c->oldest) entry_drop(c, c->oldest);
}

void cache_stats(const struct cache *c, struct cache_stats *ret) {
    *ret = (struct cache_stats){.entries = c->count,
                                .bytes = c->bytes,
                                .hits = c->hits,
                                .failure_hits = c->failure_hits,
                                .misses = c->misses,
                                .evicted = c->evicted};
}

struct cache *cache_free(struct cache *c) {
    if (!c) return NULL;
    if (c->heap) cache_flush(c);
    free(c->buckets);
    free(c->heap);
    free(c);
    return NULL;
}
