/* opening.c: asks under way, by id and by (client, answer), and the memo table. */
#include "resolver/opening/opening.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "resolver/opening/slots.h"

#define WAYS 4        /* memos that share a hash value's place */
#define SWEEP_STEP 16 /* places looked at for expired memos at each new one */

struct opened {
    struct permitted *permitted; /* NULL: the place is free */
    struct addr client;
    uint64_t policy;
    usec_t deadline;
    uint32_t count;
};

struct opening {
    struct opened *memos;
    uint32_t memo_mask, memo_count, hand;
    size_t bytes, bytes_max;
    struct asking **asks; /* hash chains, youngest first */
    uint32_t ask_mask;
    struct slots ids;
    uint64_t epoch; /* 0: core has not said */
};

static uint32_t round_up(uint32_t n) {
    uint32_t size = WAYS;
    while (size < n && size < (UINT32_C(1) << 30))
        size <<= 1;
    return size;
}

struct opening *opening_new(uint32_t memos, size_t bytes, uint32_t asks, uint64_t start) {
    struct opening *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    uint32_t memo_size = round_up(memos), ask_size = round_up(asks);
    o->memos = calloc(memo_size, sizeof *o->memos);
    o->asks = calloc(ask_size, sizeof(struct asking *));
    o->memo_mask = memo_size - 1;
    o->ask_mask = ask_size - 1;
    o->bytes_max = bytes;
    if (!o->memos || !o->asks || slots_init(&o->ids, ask_size, start) < 0)
        return opening_free(o);
    return o;
}

struct opening *opening_free(struct opening *o) {
    if (!o)
        return NULL;
    if (o->memos)
        opening_forget(o);
    if (o->asks && o->ids.slots)
        for (uint32_t i = 0; i <= o->ask_mask; i++)
            while (o->asks[i])
                opening_drop(o, o->asks[i]);
    slots_destroy(&o->ids);
    free(o->asks);
    free(o->memos);
    free(o);
    return NULL;
}

/* Not a defence against chosen collisions: a client can only crowd its own asks, which are few, or
 * evict memos, which costs a question to core. */
static uint32_t hash_of(const struct addr *client, const struct vetted *v) {
    uint64_t parts[3] = {client->family}, h = (uint64_t)(uintptr_t)v;
    memcpy(&parts[1], client->bytes, sizeof client->bytes);
    for (int i = 0; i < 3; i++) {
        h = (h ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return (uint32_t)(h >> 32);
}

/* ---- memos ------------------------------------------------------------------------------------ */

static void memo_clear(struct opening *o, struct opened *m) {
    if (!m->permitted)
        return;
    o->bytes -= vetted_bytes(permitted_vetted(m->permitted));
    o->memo_count--;
    permitted_free(m->permitted);
    *m = (struct opened){0};
}

static struct opened *memo_place(struct opening *o, uint32_t hash) {
    return &o->memos[hash & o->memo_mask & ~(uint32_t)(WAYS - 1)];
}

const struct opened *opening_find(struct opening *o, const struct addr *client,
                                  const struct vetted *v, uint64_t policy, usec_t now) {
    struct opened *place = memo_place(o, hash_of(client, v));
    for (int i = 0; i < WAYS; i++) {
        struct opened *m = &place[i];
        if (!m->permitted || permitted_vetted(m->permitted) != v || m->policy != policy ||
            !addr_equal(&m->client, client))
            continue;
        if (m->deadline > now)
            return m;
        memo_clear(o, m);
        return NULL;
    }
    return NULL;
}

/* The place for a new memo: the same one's old place, a free one, or the one that ends first. */
static struct opened *memo_choose(struct opening *o, const struct asking *a) {
    const struct vetted *v = permitted_vetted(a->permitted);
    struct opened *place = memo_place(o, a->hash), *best = NULL;
    for (int i = 0; i < WAYS; i++) {
        struct opened *m = &place[i];
        if (m->permitted && permitted_vetted(m->permitted) == v &&
            addr_equal(&m->client, &a->client))
            return m;
        if (!best || (best->permitted && (!m->permitted || m->deadline < best->deadline)))
            best = m;
    }
    return best;
}

/* Expired memos pin memory; too many bytes are brought down whatever they are worth. */
static void memo_sweep(struct opening *o, const struct opened *keep, usec_t now) {
    for (uint32_t step = 0; step <= o->memo_mask; step++) {
        if (step >= SWEEP_STEP && o->bytes <= o->bytes_max)
            return;
        struct opened *m = &o->memos[o->hand++ & o->memo_mask];
        if (m->permitted && m != keep && (m->deadline <= now || o->bytes > o->bytes_max))
            memo_clear(o, m);
    }
}

int64_t opened_ttl(const struct opened *o, uint32_t grace, usec_t now) {
    usec_t needed = now + grace * USEC_PER_SEC;
    return o->deadline < needed ? -1 : (int64_t)((o->deadline - needed) / USEC_PER_SEC);
}

struct vetted *opened_answer(const struct opened *o) {
    /* The reference count is not part of what makes the answer constant. */
    return vetted_ref((struct vetted *)(uintptr_t)permitted_vetted(o->permitted));
}

uint32_t opened_count(const struct opened *o) { return o->count; }
usec_t opened_deadline(const struct opened *o) { return o->deadline; }

void opening_forget(struct opening *o) {
    for (uint32_t i = 0; i <= o->memo_mask; i++)
        memo_clear(o, &o->memos[i]);
}

uint32_t opening_memos(const struct opening *o) { return o->memo_count; }

int opening_epoch(struct opening *o, uint64_t epoch) {
    if (o->epoch == epoch)
        return 0;
    bool first = o->epoch == 0;
    o->epoch = epoch;
    if (first && o->memo_count == 0 && o->ids.used == 0)
        return 0;
    opening_forget(o);
    return 1;
}

/* ---- asks ------------------------------------------------------------------------------------- */

struct asking *opening_pending(const struct opening *o, const struct addr *client,
                               const struct vetted *v, uint64_t policy) {
    for (struct asking *a = o->asks[hash_of(client, v) & o->ask_mask]; a; a = a->next)
        if (permitted_vetted(a->permitted) == v && a->policy == policy &&
            addr_equal(&a->client, client))
            return a;
    return NULL;
}

int opening_ask(struct opening *o, const struct addr *client, const struct name *name,
                uint64_t policy, uint32_t lifetime, struct permitted *permitted, usec_t now,
                struct asking **ret) {
    struct asking *a = calloc(1, sizeof *a);
    if (!a)
        return -ENOMEM;
    a->id = slots_take(&o->ids, a);
    if (!a->id) {
        free(a);
        return -EBUSY;
    }
    a->client = *client;
    a->name = *name;
    a->policy = policy;
    a->lifetime = lifetime;
    a->asked = now;
    a->permitted = permitted;
    a->hash = hash_of(client, permitted_vetted(permitted));
    struct asking **chain = &o->asks[a->hash & o->ask_mask];
    a->next = *chain;
    *chain = a;
    *ret = a;
    return 0;
}

struct asking *opening_by_id(const struct opening *o, uint64_t id) {
    return slots_find(&o->ids, id);
}

void opening_message(const struct asking *a, struct proto_message *m) {
    const struct addr *addrs;
    unsigned count = vetted_addrs(permitted_vetted(a->permitted), &addrs);
    struct msg_open *open = proto_begin(m, PROTO_OPEN, count);
    open->id = a->id;
    open->policy = a->policy;
    open->client = a->client;
    open->name = a->name;
    for (unsigned i = 0; i < count; i++) {
        struct msg_open_addr *item = proto_item(m, i);
        item->remote = addrs[i];
        item->lifetime = a->lifetime;
    }
}

void opening_renew(struct opening *o, struct asking *a) {
    slots_release(&o->ids, a->id);
    a->id = slots_take(&o->ids, a); /* cannot fail: a slot was released just now */
    a->retries++;
}

/* Out of the tables, with `permitted` still in it. */
static void asking_unlink(struct opening *o, struct asking *a) {
    struct asking **link = &o->asks[a->hash & o->ask_mask];
    while (*link != a)
        link = &(*link)->next;
    *link = a->next;
    slots_release(&o->ids, a->id);
}

void opening_drop(struct opening *o, struct asking *a) {
    if (!a)
        return;
    asking_unlink(o, a);
    permitted_free(a->permitted);
    free(a);
}

int opening_answered(struct opening *o, struct asking *a, const struct msg_opened *m, usec_t now,
                     const struct opened **ret) {
    if (m->result != REASON_ALLOWED)
        return m->result > REASON_BASE && m->result < REASON_END ? -(int)m->result
                                                                 : -REASON_OPEN_FAILED;
    if (o->epoch == 0)
        o->epoch = m->epoch;
    if (m->epoch != o->epoch)
        return -ESTALE;
    struct opened *memo = memo_choose(o, a);
    memo_clear(o, memo);
    *memo = (struct opened){.permitted = a->permitted, .client = a->client, .policy = a->policy,
                            .deadline = m->deadline, .count = m->count};
    o->memo_count++;
    o->bytes += vetted_bytes(permitted_vetted(memo->permitted));
    asking_unlink(o, a);
    free(a);
    memo_sweep(o, memo, now);
    *ret = memo;
    return 0;
}
