/* flows.c: live flows by the kernel's number and by opening. */
#include "gateway/core/flows.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/core/marks.h"
#include "gateway/core/slab.h"

#define BUCKETS_MIN 1024u

struct item {
    uint32_t free;                     /* slab's */
    uint32_t id_next;                  /* chain by number */
    uint32_t key_before, key_after;    /* chain by opening: doubly, as one opening may have many */
    uint32_t key_bucket;
    uint32_t round;
    struct flow flow;
    bool used;
};

struct flows {
    struct names *names;
    struct slab items;
    uint32_t *by_id, *by_key;
    uint32_t mask, round;
    uint64_t untracked;
    uint8_t key[HASH_KEY_SIZE];
    uint32_t standing;                 /* not revoked; and these by the mark's agent */
    uint32_t by_agent[MARKS_SUBJECTS];
};

static struct item *item_at(const struct flows *f, uint32_t i) { return slab_at(&f->items, i); }

struct flows *flows_new(uint32_t max, struct names *names, const uint8_t key[HASH_KEY_SIZE]) {
    struct flows *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    uint32_t buckets = BUCKETS_MIN;
    while (buckets < max) buckets *= 2;
    f->names = names;
    f->mask = buckets - 1;
    memcpy(f->key, key, HASH_KEY_SIZE);
    f->by_id = calloc(buckets, sizeof *f->by_id);
    f->by_key = calloc(buckets, sizeof *f->by_key);
    if (!f->by_id || !f->by_key || slab_make(&f->items, sizeof(struct item), max) < 0)
        return flows_free(f);
    return f;
}

struct flows *flows_free(struct flows *f) {
    if (!f) return NULL;
    for (uint32_t i = 1; i <= f->items.high; i++)
        if (item_at(f, i)->used) names_drop(f->names, item_at(f, i)->flow.name);
    slab_release(&f->items);
    free(f->by_id);
    free(f->by_key);
    free(f);
    return NULL;
}

static uint32_t hash_of(const struct flows *f, const void *bytes, size_t size) {
    uint8_t out[crypto_shorthash_BYTES];
    uint32_t hash;
    crypto_shorthash(out, bytes, size, f->key);
    memcpy(&hash, out, sizeof hash);
    return hash & f->mask;
}

static uint32_t id_bucket(const struct flows *f, uint64_t id) { return hash_of(f, &id, sizeof id); }

static uint32_t key_bucket(const struct flows *f, const struct ledger_key *key) {
    uint8_t bytes[2 * sizeof key->client.bytes + 4];
    memcpy(bytes, key->client.bytes, sizeof key->client.bytes);
    memcpy(bytes + 16, key->remote.bytes, sizeof key->remote.bytes);
    memcpy(bytes + 32, &key->port, sizeof key->port);
    bytes[34] = key->protocol;
    bytes[35] = key->client.family;
    return hash_of(f, bytes, sizeof bytes);
}

static bool key_equal(const struct ledger_key *a, const struct ledger_key *b) {
    return a->port == b->port && a->protocol == b->protocol && addr_equal(&a->client, &b->client) &&
           addr_equal(&a->remote, &b->remote);
}

static bool same(const struct flow *a, const struct flow *b) {
    return a->id == b->id && a->client_port == b->client_port && key_equal(&a->key, &b->key);
}

static uint32_t find(const struct flows *f, const struct flow *like) {
    uint32_t i = f->by_id[id_bucket(f, like->id)];
    while (i && !same(&item_at(f, i)->flow, like)) i = item_at(f, i)->id_next;
    return i;
}

struct flow flow_of(const struct conntrack_flow *c) {
    return (struct flow){
        .id = c->id,
        .key = {.client = c->original.source,
                .remote = c->original.destination,
                .port = c->original.destination_port,
                .protocol = c->protocol},
        .client_port = c->original.source_port,
        .mark = c->mark,
        .start_ns = c->start_ns,
    };
}

static void count(struct flows *f, const struct flow *flow, int change) {
    if (flow->revoked) return;
    f->standing += (uint32_t)change;
    f->by_agent[marks_subject(flow->mark)] += (uint32_t)change;
}

int flows_add(struct flows *f, const struct flow *flow) {
    if (find(f, flow)) return 0;
    uint32_t i = slab_take(&f->items);
    if (!i) {
        f->untracked++;
        return -ENOSPC;
    }
    struct item *item = item_at(f, i);
    item->flow = *flow;
    item->used = true;
    item->round = f->round;
    name_ref_keep(flow->name);
    uint32_t *id = &f->by_id[id_bucket(f, flow->id)];
    item->id_next = *id;
    *id = i;
    item->key_bucket = key_bucket(f, &flow->key);
    uint32_t *key = &f->by_key[item->key_bucket];
    item->key_after = *key;
    if (*key) item_at(f, *key)->key_before = i;
    *key = i;
    count(f, flow, 1);
    return 1;
}

static void remove_item(struct flows *f, uint32_t i) {
    struct item *item = item_at(f, i);
    count(f, &item->flow, -1);
    uint32_t *link = &f->by_id[id_bucket(f, item->flow.id)];
    while (*link != i) link = &item_at(f, *link)->id_next;
    *link = item->id_next;
    if (item->key_after) item_at(f, item->key_after)->key_before = item->key_before;
    if (item->key_before) item_at(f, item->key_before)->key_after = item->key_after;
    else f->by_key[item->key_bucket] = item->key_after;
    slab_give(&f->items, i);
}

bool flows_find(const struct flows *f, const struct flow *like, struct flow *ret) {
    uint32_t i = find(f, like);
    if (i) *ret = item_at(f, i)->flow;
    return i != 0;
}

void flows_revoke(struct flows *f, const struct flow *like) {
    uint32_t i = find(f, like);
    if (!i) return;
    count(f, &item_at(f, i)->flow, -1);
    item_at(f, i)->flow.revoked = true;
}

bool flows_take(struct flows *f, const struct flow *like, struct flow *ret_flow) {
    uint32_t i = find(f, like);
    if (!i) return false;
    *ret_flow = item_at(f, i)->flow;
    remove_item(f, i);
    return true;
}

bool flows_live(const struct flows *f, const struct ledger_key *key) {
    uint32_t i = f->by_key[key_bucket(f, key)];
    while (i && !key_equal(&item_at(f, i)->flow.key, key)) i = item_at(f, i)->key_after;
    return i != 0;
}

void flows_round(struct flows *f) { f->round++; }

void flows_see(struct flows *f, const struct flow *like) {
    uint32_t i = find(f, like);
    if (i) item_at(f, i)->round = f->round;
}

uint32_t flows_sweep(struct flows *f) {
    uint32_t dropped = 0;
    for (uint32_t i = 1; i <= f->items.high; i++) {
        struct item *item = item_at(f, i);
        if (!item->used || item->round == f->round) continue;
        names_drop(f->names, item->flow.name);
        remove_item(f, i);
        dropped++;
    }
    return dropped;
}

uint32_t flows_standing(const struct flows *f) { return f->standing; }
uint32_t flows_of_agent(const struct flows *f, uint32_t mark) {
    return f->by_agent[marks_subject(mark)];
}

uint32_t flows_most(const struct flows *f) {
    uint32_t most = 0;
    for (uint32_t i = 1; i < MARKS_SUBJECTS; i++)
        if (f->by_agent[i] > f->by_agent[most]) most = i;
    return most << MARKS_ENDPOINT_BITS;
}

uint32_t flows_count(const struct flows *f) { return f->items.live; }
uint64_t flows_untracked(const struct flows *f) { return f->untracked; }
