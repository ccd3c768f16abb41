/* ledger.c: claims on openings, by client, name and address.
 *
 *   client (address, number of claims)
 *     group (client, name; its holdings from old to young)
 *       holding (client, name, remote)
 *         claim (mark, deadline) -> opening (client, remote, protocol, port)
 *
 * Hash chains lead to clients by address, to groups by (client, name), to holdings by (group,
 * remote) and to openings by (client, remote). An opening knows which of its claims is shown, so
 * that thousands of names on one address cost no search. Claims hang on a wheel of seconds too.
 */
#include "gateway/core/ledger.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/core/marks.h"
#include "gateway/core/slab.h"

#define WHEEL 8192u /* seconds of one turn; later deadlines wait for another turn */
#define BUCKETS_MIN 1024u

struct client {
    uint32_t free; /* slab's; first in all items */
    uint32_t next; /* in its hash chain */
    uint32_t claims, groups;
    struct addr addr;
};

struct group {
    uint32_t free, next;
    uint32_t client;
    uint32_t oldest, youngest; /* holdings */
    uint32_t count;
    struct name_ref *name;
};

struct holding {
    uint32_t free, next;
    uint32_t group;
    uint32_t older, younger;
    uint32_t claims; /* first; never none, so it tells the remote address too */
};

struct opening {
    uint32_t free, next;
    uint32_t client;
    uint32_t claims; /* those touched last come first */
    uint32_t shown;  /* of these the one that ends last, among equals the one touched last */
    uint8_t remote[16];
    uint16_t port;
    uint8_t protocol;
    uint8_t round; /* of the comparison with the kernel that saw it last */
};

struct claim {
    uint32_t free, next; /* in its holding */
    uint32_t holding;    /* 0: this place is not in use */
    uint32_t opening;
    uint32_t upper, lower; /* in its opening */
    usec_t deadline;
    uint32_t mark;
    uint32_t before, after; /* on the wheel */
    uint16_t slot;          /* of the wheel */
};

struct ledger {
    struct names *names;
    struct slab clients, groups, holdings, openings, claims;
    uint32_t *by_client, *by_name, *by_holding, *by_remote; /* hash buckets */
    uint32_t mask;                                          /* of all four */
    uint32_t openings4, openings6;
    uint64_t second; /* the wheel has been emptied up to and without this one */
    uint8_t key[HASH_KEY_SIZE];
    uint32_t wheel[WHEEL];
    uint32_t by_agent[MARKS_SUBJECTS]; /* claims, by the mark's agent */
};

static struct client *client_at(const struct ledger *l, uint32_t i) {
    return slab_at(&l->clients, i);
}
static struct group *group_at(const struct ledger *l, uint32_t i) { return slab_at(&l->groups, i); }
static struct holding *holding_at(const struct ledger *l, uint32_t i) {
    return slab_at(&l->holdings, i);
}
static struct opening *opening_at(const struct ledger *l, uint32_t i) {
    return slab_at(&l->openings, i);
}
static struct claim *claim_at(const struct ledger *l, uint32_t i) { return slab_at(&l->claims, i); }

struct ledger *ledger_new(uint32_t max, struct names *names, const uint8_t key[HASH_KEY_SIZE],
                          usec_t now) {
    struct ledger *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    uint32_t buckets = BUCKETS_MIN;
    while (buckets < max) buckets *= 2;
    l->names = names;
    l->mask = buckets - 1;
    l->second = now / USEC_PER_SEC;
    memcpy(l->key, key, HASH_KEY_SIZE);
    /* Sized for the most there can be: pages that are never touched cost nothing, and there is no
     * moment at which a table of a million has to be hashed anew. */
    l->by_client = calloc(buckets, sizeof *l->by_client);
    l->by_name = calloc(buckets, sizeof *l->by_name);
    l->by_holding = calloc(buckets, sizeof *l->by_holding);
    l->by_remote = calloc(buckets, sizeof *l->by_remote);
    if (!l->by_client || !l->by_name || !l->by_holding || !l->by_remote ||
        slab_make(&l->clients, sizeof(struct client), max) < 0 ||
        slab_make(&l->groups, sizeof(struct group), max) < 0 ||
        slab_make(&l->holdings, sizeof(struct holding), max) < 0 ||
        slab_make(&l->openings, sizeof(struct opening), max) < 0 ||
        slab_make(&l->claims, sizeof(struct claim), max) < 0)
        return ledger_free(l);
    return l;
}

struct ledger *ledger_free(struct ledger *l) {
    if (!l) return NULL;
    for (uint32_t i = 1; i <= l->groups.high; i++)
        if (group_at(l, i)->client) names_drop(l->names, group_at(l, i)->name);
    slab_release(&l->clients);
    slab_release(&l->groups);
    slab_release(&l->holdings);
    slab_release(&l->openings);
    slab_release(&l->claims);
    free(l->by_client);
    free(l->by_name);
    free(l->by_holding);
    free(l->by_remote);
    free(l);
    return NULL;
}

/* ---- finding ------------------------------------------------------------------------------- */

static uint32_t hash_of(const struct ledger *l, uint64_t a, const void *bytes, size_t size) {
    uint8_t input[sizeof a + sizeof(struct addr)] = {0}, out[crypto_shorthash_BYTES];
    uint32_t hash;
    memcpy(input, &a, sizeof a);
    memcpy(input + sizeof a, bytes, size);
    crypto_shorthash(out, input, sizeof input, l->key);
    memcpy(&hash, out, sizeof hash);
    return hash & l->mask;
}

static uint32_t *client_bucket(const struct ledger *l, const struct addr *a) {
    return &l->by_client[hash_of(l, 0, a, sizeof *a)];
}
static uint32_t *group_bucket(const struct ledger *l, uint32_t client, const struct name_ref *n) {
    uint64_t name = name_ref_hash(n);
    return &l->by_name[hash_of(l, client, &name, sizeof name)];
}
static uint32_t *holding_bucket(const struct ledger *l, uint32_t group, const uint8_t *remote) {
    return &l->by_holding[hash_of(l, group, remote, 16)];
}
static uint32_t *opening_bucket(const struct ledger *l, uint32_t client, const uint8_t *remote) {
    return &l->by_remote[hash_of(l, client, remote, 16)];
}

static uint32_t client_find(const struct ledger *l, const struct addr *a) {
    uint32_t i = *client_bucket(l, a);
    while (i && !addr_equal(&client_at(l, i)->addr, a)) i = client_at(l, i)->next;
    return i;
}

static uint32_t group_find(const struct ledger *l, uint32_t client, const struct name_ref *name) {
    if (!client || !name) return 0;
    uint32_t i = *group_bucket(l, client, name);
    while (i && (group_at(l, i)->client != client || group_at(l, i)->name != name))
        i = group_at(l, i)->next;
    return i;
}

static const uint8_t *holding_remote(const struct ledger *l, uint32_t i) {
    return opening_at(l, claim_at(l, holding_at(l, i)->claims)->opening)->remote;
}

static uint32_t holding_find(const struct ledger *l, uint32_t group, const uint8_t *remote) {
    if (!group) return 0;
    uint32_t i = *holding_bucket(l, group, remote);
    while (i && (holding_at(l, i)->group != group || memcmp(holding_remote(l, i), remote, 16) != 0))
        i = holding_at(l, i)->next;
    return i;
}

/* From `i` on along the hash chain, the next opening of (client, remote). */
static uint32_t opening_same(const struct ledger *l, uint32_t i, uint32_t client,
                             const uint8_t *remote) {
    while (i && (opening_at(l, i)->client != client ||
                 memcmp(opening_at(l, i)->remote, remote, 16) != 0))
        i = opening_at(l, i)->next;
    return i;
}

static uint32_t opening_first(const struct ledger *l, uint32_t client, const uint8_t *remote) {
    return client ? opening_same(l, *opening_bucket(l, client, remote), client, remote) : 0;
}

static uint32_t opening_find(const struct ledger *l, const struct ledger_key *key) {
    uint32_t client = client_find(l, &key->client);
    uint32_t i = opening_first(l, client, key->remote.bytes);
    while (i &&
           (opening_at(l, i)->port != key->port || opening_at(l, i)->protocol != key->protocol))
        i = opening_same(l, opening_at(l, i)->next, client, key->remote.bytes);
    return i;
}

static struct name_ref *claim_name(const struct ledger *l, uint32_t i) {
    return group_at(l, holding_at(l, claim_at(l, i)->holding)->group)->name;
}

static void claim_tell(const struct ledger *l, uint32_t i, struct ledger_claim *ret) {
    const struct claim *c = claim_at(l, i);
    const struct opening *o = opening_at(l, c->opening);
    const struct addr *client = &client_at(l, o->client)->addr;
    *ret = (struct ledger_claim){.mark = c->mark, .deadline = c->deadline,
                                 .name = claim_name(l, i)};
    ret->key.client = *client;
    ret->key.remote.family = client->family;
    memcpy(ret->key.remote.bytes, o->remote, 16);
    ret->key.port = o->port;
    ret->key.protocol = o->protocol;
}

/* The claim on the opening that ends last, `except` left out; 0: there is none. */
static uint32_t longest(const struct ledger *l, uint32_t opening, uint32_t except) {
    uint32_t best = 0;
    for (uint32_t i = opening_at(l, opening)->claims; i; i = claim_at(l, i)->lower) {
        if (i == except) continue;
        if (!best || claim_at(l, i)->deadline > claim_at(l, best)->deadline) best = i;
    }
    return best;
}

bool ledger_shown(const struct ledger *l, const struct ledger_key *key,
                  const struct name_ref *except, struct ledger_claim *ret) {
    uint32_t opening = opening_find(l, key);
    uint32_t i = opening ? opening_at(l, opening)->shown : 0;
    if (i && except && claim_name(l, i) == except) i = longest(l, opening, i);
    if (i) claim_tell(l, i, ret);
    return i != 0;
}

/* By the name's holding, which has as many claims as the name has ports. */
static uint32_t find(const struct ledger *l, const struct ledger_key *key,
                     const struct name_ref *name) {
    uint32_t group = group_find(l, client_find(l, &key->client), name);
    uint32_t holding = holding_find(l, group, key->remote.bytes);
    uint32_t i = holding ? holding_at(l, holding)->claims : 0;
    for (; i; i = claim_at(l, i)->next) {
        const struct opening *o = opening_at(l, claim_at(l, i)->opening);
        if (o->port == key->port && o->protocol == key->protocol) break;
    }
    return i;
}

bool ledger_find(const struct ledger *l, const struct ledger_key *key,
                 const struct name_ref *name, struct ledger_claim *ret) {
    uint32_t i = find(l, key, name);
    if (i) claim_tell(l, i, ret);
    return i != 0;
}

bool ledger_reverse(const struct ledger *l, const struct addr *client, const struct addr *remote,
                    usec_t now, struct ledger_claim *ret) {
    uint32_t owner = client_find(l, client), best = 0;
    if (client->family != remote->family) return false;
    for (uint32_t o = opening_first(l, owner, remote->bytes); o;
         o = opening_same(l, opening_at(l, o)->next, owner, remote->bytes)) {
        uint32_t c = opening_at(l, o)->shown;
        usec_t deadline = claim_at(l, c)->deadline;
        if (deadline > now && (!best || deadline > claim_at(l, best)->deadline)) best = c;
    }
    if (best) claim_tell(l, best, ret);
    return best != 0;
}

/* ---- the wheel ----------------------------------------------------------------------------- */

static void wheel_enter(struct ledger *l, uint32_t i) {
    struct claim *c = claim_at(l, i);
    uint64_t second = c->deadline / USEC_PER_SEC;
    if (second < l->second) second = l->second; /* already over: the next slot to be emptied */
    c->slot = (uint16_t)(second % WHEEL);
    c->before = 0;
    c->after = l->wheel[c->slot];
    if (c->after) claim_at(l, c->after)->before = i;
    l->wheel[c->slot] = i;
}

static void wheel_leave(struct ledger *l, uint32_t i) {
    const struct claim *c = claim_at(l, i);
    if (c->after) claim_at(l, c->after)->before = c->before;
    if (c->before) claim_at(l, c->before)->after = c->after;
    else l->wheel[c->slot] = c->after;
}

/* ---- booking ------------------------------------------------------------------------------- */

int ledger_reserve(struct ledger *l, uint32_t count) {
    int r = slab_reserve(&l->claims, count);
    if (r < 0) return r;
    /* Each of the others holds at least one claim, so their bound is not hit before. */
    if ((r = slab_reserve(&l->holdings, count)) < 0) return r;
    if ((r = slab_reserve(&l->openings, count)) < 0) return r;
    if ((r = slab_reserve(&l->groups, count)) < 0) return r;
    return slab_reserve(&l->clients, count);
}

static void unchain(struct slab *s, uint32_t *link, uint32_t i) {
    /* All items begin alike: slab's word, then the link. */
    while (*link != i) link = &((uint32_t *)slab_at(s, *link))[1];
    *link = ((uint32_t *)slab_at(s, i))[1];
}

static uint32_t client_take(struct ledger *l, const struct addr *a) {
    uint32_t i = client_find(l, a);
    if (i) return i;
    i = slab_take(&l->clients);
    uint32_t *bucket = client_bucket(l, a);
    client_at(l, i)->addr = *a;
    client_at(l, i)->next = *bucket;
    *bucket = i;
    return i;
}

static uint32_t group_take(struct ledger *l, uint32_t client, struct name_ref *name) {
    uint32_t i = group_find(l, client, name);
    if (i) return i;
    i = slab_take(&l->groups);
    uint32_t *bucket = group_bucket(l, client, name);
    struct group *g = group_at(l, i);
    g->client = client;
    g->name = name_ref_keep(name);
    g->next = *bucket;
    *bucket = i;
    client_at(l, client)->groups++;
    return i;
}

static void holding_unqueue(struct ledger *l, uint32_t i) {
    const struct holding *h = holding_at(l, i);
    struct group *g = group_at(l, h->group);
    if (h->older) holding_at(l, h->older)->younger = h->younger;
    else g->oldest = h->younger;
    if (h->younger) holding_at(l, h->younger)->older = h->older;
    else g->youngest = h->older;
}

static void holding_queue(struct ledger *l, uint32_t i) {
    struct holding *h = holding_at(l, i);
    struct group *g = group_at(l, h->group);
    h->older = g->youngest;
    h->younger = 0;
    if (g->youngest) holding_at(l, g->youngest)->younger = i;
    else g->oldest = i;
    g->youngest = i;
}

/* A new one has no claim yet: the caller adds it at once. */
static uint32_t holding_take(struct ledger *l, uint32_t group, const uint8_t *remote) {
    uint32_t i = holding_find(l, group, remote);
    if (i) {
        holding_unqueue(l, i);
    } else {
        i = slab_take(&l->holdings);
        uint32_t *bucket = holding_bucket(l, group, remote);
        holding_at(l, i)->group = group;
        holding_at(l, i)->next = *bucket;
        *bucket = i;
        group_at(l, group)->count++;
    }
    holding_queue(l, i);
    return i;
}

static uint32_t *opening_count(struct ledger *l, const struct addr *client) {
    return client->family == 4 ? &l->openings4 : &l->openings6;
}

static uint32_t opening_take(struct ledger *l, uint32_t client, const struct ledger_key *key) {
    uint32_t i = opening_find(l, key);
    if (i) return i;
    i = slab_take(&l->openings);
    uint32_t *bucket = opening_bucket(l, client, key->remote.bytes);
    struct opening *o = opening_at(l, i);
    o->client = client;
    o->port = key->port;
    o->protocol = key->protocol;
    memcpy(o->remote, key->remote.bytes, 16);
    o->next = *bucket;
    *bucket = i;
    *opening_count(l, &key->client) += 1;
    return i;
}

static void claim_unlist(struct ledger *l, uint32_t i) {
    const struct claim *c = claim_at(l, i);
    if (c->lower) claim_at(l, c->lower)->upper = c->upper;
    if (c->upper) claim_at(l, c->upper)->lower = c->lower;
    else opening_at(l, c->opening)->claims = c->lower;
}

/* To the front of its opening's list. */
static void claim_list(struct ledger *l, uint32_t i) {
    struct claim *c = claim_at(l, i);
    struct opening *o = opening_at(l, c->opening);
    c->upper = 0;
    c->lower = o->claims;
    if (c->lower) claim_at(l, c->lower)->upper = i;
    o->claims = i;
    if (!o->shown || c->deadline >= claim_at(l, o->shown)->deadline) o->shown = i;
}

static uint32_t claim_take(struct ledger *l, uint32_t client, uint32_t holding,
                           const struct ledger_key *key) {
    uint32_t opening = opening_take(l, client, key), i = slab_take(&l->claims);
    struct claim *c = claim_at(l, i);
    c->opening = opening;
    c->holding = holding;
    c->next = holding_at(l, holding)->claims;
    holding_at(l, holding)->claims = i;
    client_at(l, client)->claims++;
    return i;
}

int ledger_put(struct ledger *l, const struct ledger_key *key, struct name_ref *name,
               uint32_t mark, usec_t deadline) {
    uint32_t i = find(l, key, name);
    if (!i && ledger_reserve(l, 1) < 0) return -ENOSPC;
    uint32_t client = client_take(l, &key->client);
    uint32_t holding = holding_take(l, group_take(l, client, name), key->remote.bytes);
    if (i) {
        claim_unlist(l, i);
        wheel_leave(l, i);
        l->by_agent[marks_subject(claim_at(l, i)->mark)]--;
    } else {
        i = claim_take(l, client, holding, key);
    }
    struct claim *c = claim_at(l, i);
    c->mark = mark;
    l->by_agent[marks_subject(mark)]++;
    if (deadline > c->deadline) c->deadline = deadline;
    claim_list(l, i);
    wheel_enter(l, i);
    return 0;
}

/* Gives up what holds nothing any more, from the bottom up. `remote` is the holding's. */
static void prune(struct ledger *l, uint32_t holding, const uint8_t *remote) {
    struct holding *h = holding_at(l, holding);
    if (h->claims) return;
    uint32_t group = h->group;
    struct group *g = group_at(l, group);
    uint32_t client = g->client;
    unchain(&l->holdings, holding_bucket(l, group, remote), holding);
    holding_unqueue(l, holding);
    slab_give(&l->holdings, holding);
    if (--g->count) return;
    unchain(&l->groups, group_bucket(l, client, g->name), group);
    names_drop(l->names, g->name);
    slab_give(&l->groups, group);
    struct client *c = client_at(l, client);
    if (--c->groups) return;
    unchain(&l->clients, client_bucket(l, &c->addr), client);
    slab_give(&l->clients, client);
}

/* Whether the opening went with its last claim. */
static bool opening_leave(struct ledger *l, uint32_t opening, uint32_t claim) {
    struct opening *o = opening_at(l, opening);
    claim_unlist(l, claim);
    if (o->shown == claim) o->shown = longest(l, opening, claim);
    if (o->claims) return false;
    unchain(&l->openings, opening_bucket(l, o->client, o->remote), opening);
    *opening_count(l, &client_at(l, o->client)->addr) -= 1;
    slab_give(&l->openings, opening);
    return true;
}

static bool claim_drop(struct ledger *l, uint32_t i) {
    const struct claim *c = claim_at(l, i);
    uint32_t holding = c->holding, opening = c->opening;
    uint8_t remote[16];
    memcpy(remote, opening_at(l, opening)->remote, sizeof remote);
    wheel_leave(l, i);
    unchain(&l->claims, &holding_at(l, holding)->claims, i);
    client_at(l, opening_at(l, opening)->client)->claims--;
    l->by_agent[marks_subject(c->mark)]--;
    bool last = opening_leave(l, opening, i);
    slab_give(&l->claims, i);
    prune(l, holding, remote);
    return last;
}

bool ledger_remove(struct ledger *l, const struct ledger_key *key, const struct name_ref *name) {
    uint32_t i = find(l, key, name);
    if (i) claim_drop(l, i);
    return i != 0;
}

uint32_t ledger_expire(struct ledger *l, usec_t now, uint32_t limit, uint32_t *ret_openings) {
    uint64_t end = now / USEC_PER_SEC; /* slots of whole seconds that are over */
    uint32_t dropped = 0;
    *ret_openings = 0;
    /* After a long sleep one turn looks at everything; more turns would find nothing else. */
    if (end > l->second + WHEEL) l->second = end - WHEEL;
    for (; l->second < end; l->second++) {
        uint32_t i = l->wheel[l->second % WHEEL];
        while (i) {
            uint32_t after = claim_at(l, i)->after;
            if (claim_at(l, i)->deadline < end * USEC_PER_SEC) {
                if (dropped == limit) return dropped;
                *ret_openings += claim_drop(l, i);
                dropped++;
            }
            i = after;
        }
    }
    return dropped;
}

/* ---- listing ------------------------------------------------------------------------------- */

bool ledger_next(const struct ledger *l, uint64_t *cursor, uint32_t *budget,
                 struct ledger_claim *ret) {
    while (*cursor < l->claims.high) {
        if (*budget == 0) return false;
        --*budget;
        uint32_t i = (uint32_t)++*cursor;
        if (!claim_at(l, i)->holding) continue;
        claim_tell(l, i, ret);
        return true;
    }
    *cursor = 0;
    return false;
}

void ledger_see(struct ledger *l, const struct ledger_key *key, uint8_t round) {
    uint32_t i = opening_find(l, key);
    if (i) opening_at(l, i)->round = round;
}

bool ledger_seen(const struct ledger *l, const struct ledger_key *key, uint8_t round) {
    uint32_t i = opening_find(l, key);
    return i && opening_at(l, i)->round == round;
}

uint32_t ledger_addresses(const struct ledger *l, const struct addr *client,
                          const struct name_ref *name) {
    uint32_t group = group_find(l, client_find(l, client), name);
    return group ? group_at(l, group)->count : 0;
}

bool ledger_oldest(const struct ledger *l, const struct addr *client, const struct name_ref *name,
                   uint32_t *walk, struct addr *ret_remote) {
    if (*walk) {
        *walk = holding_at(l, *walk)->younger;
    } else {
        uint32_t group = group_find(l, client_find(l, client), name);
        *walk = group ? group_at(l, group)->oldest : 0;
    }
    if (!*walk) return false;
    *ret_remote = (struct addr){.family = client->family};
    memcpy(ret_remote->bytes, holding_remote(l, *walk), 16);
    return true;
}

bool ledger_ports(const struct ledger *l, const struct addr *client, const struct name_ref *name,
                  const struct addr *remote, uint32_t *walk, struct ledger_claim *ret) {
    if (*walk) {
        *walk = claim_at(l, *walk)->next;
    } else {
        uint32_t owner = client_find(l, client);
        uint32_t holding = holding_find(l, group_find(l, owner, name), remote->bytes);
        *walk = holding ? holding_at(l, holding)->claims : 0;
    }
    if (*walk) claim_tell(l, *walk, ret);
    return *walk != 0;
}

uint32_t ledger_client_claims(const struct ledger *l, const struct addr *client) {
    uint32_t i = client_find(l, client);
    return i ? client_at(l, i)->claims : 0;
}

uint32_t ledger_agent_claims(const struct ledger *l, uint32_t mark) {
    return l->by_agent[marks_subject(mark)];
}

uint32_t ledger_openings(const struct ledger *l, uint8_t family) {
    return (family != 6 ? l->openings4 : 0) + (family != 4 ? l->openings6 : 0);
}
uint32_t ledger_claims(const struct ledger *l) { return l->claims.live; }

size_t ledger_bytes(const struct ledger *l) {
    const struct slab *all[] = {&l->clients, &l->groups, &l->holdings, &l->openings, &l->claims};
    size_t bytes = sizeof *l + 4 * sizeof(uint32_t) * ((size_t)l->mask + 1);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bytes += (size_t)all[i]->chunk_count * SLAB_CHUNK * all[i]->item;
    return bytes;
}
