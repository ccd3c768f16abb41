/* ledger_test.c: the ledger of openings, by hand and against a plain list. */
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/core/ledger.h"
#include "gateway/core/marks.h"
#include "gateway/core/slab.h"

#define SEC USEC_PER_SEC
#define START (1000 * SEC)

static const uint8_t hash_key[HASH_KEY_SIZE] = {1, 2, 3};

/* How many allocations still succeed; negative: all. Check allocates too, so no assertion while it
 * is set. */
static int memory_left = -1;

static bool memory_gives(void) {
    if (memory_left < 0) return true;
    return memory_left > 0 && memory_left-- > 0;
}

void *calloc(size_t count, size_t size) {
    static void *(*next)(size_t, size_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "calloc");
    return memory_gives() ? next(count, size) : NULL;
}

void *malloc(size_t size) {
    static void *(*next)(size_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "malloc");
    return memory_gives() ? next(size) : NULL;
}

struct setup {
    struct names *names;
    struct ledger *l;
};

static struct setup setup_of(uint32_t max) {
    struct setup s;
    ck_assert_int_ge(sodium_init(), 0);
    s.names = names_new(hash_key);
    ck_assert_ptr_nonnull(s.names);
    s.l = ledger_new(max, s.names, hash_key, START);
    ck_assert_ptr_nonnull(s.l);
    return s;
}

static void teardown(struct setup *s) {
    ck_assert_ptr_null(ledger_free(s->l));
    ck_assert_uint_eq(names_count(s->names), 0);
    ck_assert_ptr_null(names_free(s->names));
}

static struct addr address(const char *text) {
    struct addr a;
    ck_assert_int_eq(addr_parse(text, &a), 0);
    return a;
}

static struct ledger_key key_of(const char *client, const char *remote, uint8_t protocol,
                                uint16_t port) {
    return (struct ledger_key){.client = address(client), .remote = address(remote), .port = port,
                               .protocol = protocol};
}

static struct name name_of(const char *text) {
    struct name n;
    ck_assert_int_eq(name_from_text(text, &n), 0);
    return n;
}

/* Puts a claim of the name, as core does: the ledger keeps the reference. */
static void put(struct setup *s, const struct ledger_key *key, const char *name, uint32_t mark,
                usec_t deadline) {
    struct name n = name_of(name);
    struct name_ref *ref = names_get(s->names, &n);
    ck_assert_ptr_nonnull(ref);
    ck_assert_int_eq(ledger_put(s->l, key, ref, mark, deadline), 0);
    names_drop(s->names, ref);
}

static struct name_ref *ref_of(const struct setup *s, const char *name) {
    struct name n = name_of(name);
    return names_find(s->names, &n);
}

#define C4 "10.77.1.17"
#define R4 "203.0.113.7"

START_TEST(one_claim) {
    struct setup s = setup_of(16);
    struct ledger_key k = key_of(C4, R4, 6, 443), other = key_of(C4, R4, 17, 443);
    struct ledger_claim c = {.mark = 99};
    struct name n;
    ck_assert(!ledger_shown(s.l, &k, NULL, &c));
    ck_assert_uint_eq(c.mark, 99); /* untouched */
    put(&s, &k, "a.example", 7, START + 60 * SEC);
    ck_assert(ledger_shown(s.l, &k, NULL, &c));
    ck_assert_uint_eq(c.mark, 7);
    ck_assert_uint_eq(c.deadline, START + 60 * SEC);
    ck_assert(addr_equal(&c.key.client, &k.client) && addr_equal(&c.key.remote, &k.remote));
    ck_assert_uint_eq(c.key.port, 443);
    ck_assert_uint_eq(c.key.protocol, 6);
    name_ref_read(c.name, &n);
    struct name expected = name_of("a.example");
    ck_assert(name_equal(&n, &expected));
    ck_assert(!ledger_shown(s.l, &other, NULL, &c));
    other = key_of(C4, R4, 6, 444);
    ck_assert(!ledger_shown(s.l, &other, NULL, &c));
    other = key_of("10.77.1.18", R4, 6, 443);
    ck_assert(!ledger_shown(s.l, &other, NULL, &c));
    ck_assert(!ledger_shown(s.l, &k, ref_of(&s, "a.example"), &c)); /* looking past it */
    ck_assert(ledger_find(s.l, &k, ref_of(&s, "a.example"), &c));
    ck_assert(!ledger_find(s.l, &k, NULL, &c));
    ck_assert_uint_eq(ledger_openings(s.l, 0), 1);
    ck_assert_uint_eq(ledger_openings(s.l, 4), 1);
    ck_assert_uint_eq(ledger_openings(s.l, 6), 0);
    ck_assert_uint_eq(ledger_client_claims(s.l, &k.client), 1);
    ck_assert(ledger_remove(s.l, &k, ref_of(&s, "a.example")));
    ck_assert(!ledger_remove(s.l, &k, ref_of(&s, "a.example")));
    ck_assert_uint_eq(ledger_openings(s.l, 0), 0);
    ck_assert_uint_eq(ledger_claims(s.l), 0);
    ck_assert_uint_eq(ledger_client_claims(s.l, &k.client), 0);
    ck_assert_uint_eq(names_count(s.names), 0);
    teardown(&s);
}
END_TEST

/* c07: again extends; never back, though mark and age follow. */
START_TEST(refresh_never_shortens) {
    struct setup s = setup_of(16);
    struct ledger_key k = key_of(C4, R4, 6, 443);
    struct ledger_claim c;
    put(&s, &k, "a.example", 7, START + 60 * SEC);
    put(&s, &k, "a.example", 8, START + 30 * SEC);
    ck_assert(ledger_shown(s.l, &k, NULL, &c));
    ck_assert_uint_eq(c.deadline, START + 60 * SEC);
    ck_assert_uint_eq(c.mark, 8);
    put(&s, &k, "a.example", 8, START + 90 * SEC);
    ck_assert(ledger_shown(s.l, &k, NULL, &c));
    ck_assert_uint_eq(c.deadline, START + 90 * SEC);
    ck_assert_uint_eq(ledger_claims(s.l), 1);
    teardown(&s);
}
END_TEST

/* Two names on one address: the opening lives as long as the longer, and survives the other. */
START_TEST(claims_share_an_opening) {
    struct setup s = setup_of(16);
    struct ledger_key k = key_of(C4, R4, 6, 443);
    struct ledger_claim c;
    uint32_t openings;
    put(&s, &k, "a.example", 7, START + 60 * SEC);
    put(&s, &k, "b.example", 8, START + 30 * SEC);
    ck_assert_uint_eq(ledger_claims(s.l), 2);
    ck_assert_uint_eq(ledger_openings(s.l, 0), 1);
    ck_assert(ledger_shown(s.l, &k, NULL, &c));
    ck_assert_uint_eq(c.mark, 7);
    ck_assert(ledger_shown(s.l, &k, ref_of(&s, "a.example"), &c));
    ck_assert_uint_eq(c.mark, 8);
    ck_assert(ledger_shown(s.l, &k, ref_of(&s, "b.example"), &c)); /* which is not shown */
    ck_assert_uint_eq(c.mark, 7);
    /* Among equals the one touched last is shown. */
    put(&s, &k, "b.example", 8, START + 60 * SEC);
    ck_assert(ledger_shown(s.l, &k, NULL, &c));
    ck_assert_uint_eq(c.mark, 8);
    put(&s, &k, "a.example", 7, START + 60 * SEC);
    ck_assert(ledger_shown(s.l, &k, NULL, &c));
    ck_assert_uint_eq(c.mark, 7);
    put(&s, &k, "b.example", 8, START + 90 * SEC);
    ck_assert_uint_eq(ledger_expire(s.l, START + 70 * SEC, 10, &openings), 1);
    ck_assert_uint_eq(openings, 0); /* b's claim holds it */
    ck_assert(ledger_shown(s.l, &k, NULL, &c));
    ck_assert_uint_eq(c.mark, 8);
    ck_assert_uint_eq(ledger_expire(s.l, START + 92 * SEC, 10, &openings), 1);
    ck_assert_uint_eq(openings, 1);
    teardown(&s);
}
END_TEST

START_TEST(reverse_lookup) {
    struct setup s = setup_of(16);
    struct ledger_key k = key_of(C4, R4, 6, 443), k2 = key_of(C4, R4, 6, 80),
                      v6 = key_of("fd77:1::17", "2001:db8:7::7", 6, 443);
    struct ledger_claim c;
    ck_assert(!ledger_reverse(s.l, &k.client, &k.remote, START, &c));
    put(&s, &k, "a.example", 7, START + 60 * SEC);
    put(&s, &k2, "a.example", 7, START + 20 * SEC);
    put(&s, &k2, "b.example", 8, START + 90 * SEC);
    put(&s, &k, "c.example", 9, START + 10 * SEC);
    put(&s, &v6, "a.example", 7, START + 60 * SEC);
    ck_assert(ledger_reverse(s.l, &k.client, &k.remote, START, &c));
    ck_assert_uint_eq(c.mark, 8); /* the longest */
    ck_assert_uint_eq(c.key.port, 80);
    ck_assert(!ledger_reverse(s.l, &k.client, &k.remote, START + 90 * SEC, &c)); /* over */
    put(&s, &k, "a.example", 7, START + 120 * SEC);
    ck_assert(ledger_reverse(s.l, &k.client, &k.remote, START, &c));
    ck_assert_uint_eq(c.key.port, 443);
    ck_assert(!ledger_reverse(s.l, &k.client, &v6.remote, START, &c));
    ck_assert(!ledger_reverse(s.l, &v6.client, &k.remote, START, &c));
    ck_assert(ledger_reverse(s.l, &v6.client, &v6.remote, START, &c));
    ck_assert_uint_eq(c.mark, 7);
    teardown(&s);
}
END_TEST

START_TEST(expiry) {
    struct setup s = setup_of(64);
    struct ledger_claim c;
    uint32_t openings;
    struct ledger_key over = key_of(C4, "203.0.113.1", 6, 1), soon = key_of(C4, "203.0.113.2", 6, 1),
                      far = key_of(C4, "203.0.113.3", 6, 1);
    put(&s, &over, "a.example", 1, START - 50 * SEC); /* already over when it comes */
    put(&s, &soon, "a.example", 1, START + 5 * SEC + 1);
    put(&s, &far, "a.example", 1, START + 604800 * SEC); /* many turns of the wheel */
    ck_assert_uint_eq(ledger_expire(s.l, START, 10, &openings), 0);
    ck_assert_uint_eq(ledger_expire(s.l, START + SEC, 10, &openings), 1);
    ck_assert(!ledger_shown(s.l, &over, NULL, &c));
    ck_assert_uint_eq(ledger_expire(s.l, START + 5 * SEC, 10, &openings), 0); /* not before */
    ck_assert_uint_eq(ledger_expire(s.l, START + 6 * SEC, 10, &openings), 1); /* 1 s late at most */
    ck_assert_uint_eq(openings, 1);
    for (usec_t t = START; t < START + 604800 * SEC; t += 1000 * SEC)
        ck_assert_uint_eq(ledger_expire(s.l, t, 10, &openings), 0);
    ck_assert(ledger_shown(s.l, &far, NULL, &c));
    ck_assert_uint_eq(ledger_expire(s.l, START + 604801 * SEC, 10, &openings), 1);
    ck_assert_uint_eq(ledger_claims(s.l), 0);
    teardown(&s);
}
END_TEST

/* A long sleep: one turn finds all that ended; and no more than asked at a time. */
START_TEST(expiry_after_sleep) {
    struct setup s = setup_of(64);
    uint32_t openings, total = 0;
    for (uint16_t i = 0; i < 40; i++) {
        struct ledger_key k = key_of(C4, R4, 6, (uint16_t)(100 + i));
        put(&s, &k, "a.example", 1, START + i * 1000 * SEC);
    }
    struct ledger_key stays = key_of(C4, R4, 17, 1);
    put(&s, &stays, "a.example", 1, START + 900000 * SEC);
    usec_t woken = START + 800000 * SEC;
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_uint_eq(ledger_expire(s.l, woken, 10, &openings), 10);
        total += openings;
        /* Removing amid an unfinished turn must keep the wheel whole. */
        put(&s, &stays, "b.example", 1, START + 900000 * SEC);
        ck_assert(ledger_remove(s.l, &stays, ref_of(&s, "b.example")));
    }
    ck_assert_uint_eq(total, 40);
    ck_assert_uint_eq(ledger_expire(s.l, woken, 10, &openings), 0);
    ck_assert_uint_eq(ledger_claims(s.l), 1);
    teardown(&s);
}
END_TEST

START_TEST(addresses_by_age) {
    struct setup s = setup_of(64);
    const char *remotes[] = {"203.0.113.1", "203.0.113.2", "203.0.113.3"};
    struct addr client = address(C4), got;
    struct ledger_claim c;
    uint32_t walk = 0, ports = 0;
    ck_assert_uint_eq(ledger_addresses(s.l, &client, ref_of(&s, "a.example")), 0);
    ck_assert(!ledger_oldest(s.l, &client, NULL, &walk, &got));
    for (unsigned i = 0; i < 3; i++) {
        struct ledger_key k = key_of(C4, remotes[i], 6, 443), k2 = key_of(C4, remotes[i], 6, 80);
        put(&s, &k, "a.example", 1, START + 60 * SEC);
        put(&s, &k2, "a.example", 1, START + 60 * SEC);
        put(&s, &k, "b.example", 1, START + 60 * SEC);
    }
    ck_assert_uint_eq(ledger_addresses(s.l, &client, ref_of(&s, "a.example")), 3);
    struct ledger_key first = key_of(C4, remotes[0], 6, 443);
    put(&s, &first, "a.example", 1, START + 61 * SEC); /* touched: young again */
    const unsigned order[] = {1, 2, 0};
    for (unsigned i = 0; i < 3; i++) {
        struct addr expected = address(remotes[order[i]]);
        ck_assert(ledger_oldest(s.l, &client, ref_of(&s, "a.example"), &walk, &got));
        ck_assert(addr_equal(&got, &expected));
    }
    ck_assert(!ledger_oldest(s.l, &client, ref_of(&s, "a.example"), &walk, &got));
    walk = 0;
    while (ledger_ports(s.l, &client, ref_of(&s, "a.example"), &first.remote, &walk, &c)) ports++;
    ck_assert_uint_eq(ports, 2);
    walk = 0;
    got = address("203.0.113.9");
    ck_assert(!ledger_ports(s.l, &client, ref_of(&s, "a.example"), &got, &walk, &c));
    /* The middle one leaves; then the ends. */
    for (unsigned i = 0; i < 3; i++) {
        struct ledger_key k = key_of(C4, remotes[order[2 - i]], 6, 443),
                          k2 = key_of(C4, remotes[order[2 - i]], 6, 80);
        ck_assert(ledger_remove(s.l, &k, ref_of(&s, "a.example")));
        ck_assert(ledger_remove(s.l, &k2, ref_of(&s, "a.example")));
    }
    ck_assert_uint_eq(ledger_claims(s.l), 3);
    ck_assert_uint_eq(ledger_addresses(s.l, &client, ref_of(&s, "b.example")), 3);
    teardown(&s);
}
END_TEST

START_TEST(bounded) {
    struct setup s = setup_of(4);
    struct ledger_key k;
    struct name n = name_of("a.example");
    ck_assert_int_eq(ledger_reserve(s.l, 5), -ENOSPC);
    ck_assert_int_eq(ledger_reserve(s.l, 4), 0);
    for (uint16_t i = 0; i < 4; i++) {
        k = key_of(C4, R4, 6, (uint16_t)(i + 1));
        put(&s, &k, "a.example", 1, START + SEC);
    }
    k = key_of(C4, R4, 6, 9);
    struct name_ref *ref = names_get(s.names, &n);
    ck_assert_int_eq(ledger_put(s.l, &k, ref, 1, START + SEC), -ENOSPC);
    names_drop(s.names, ref);
    k = key_of(C4, R4, 6, 1);
    put(&s, &k, "a.example", 1, START + 2 * SEC); /* what is there can be refreshed */
    ck_assert_int_eq(ledger_reserve(s.l, 1), -ENOSPC);
    teardown(&s);
}
END_TEST

/* More clients than chains: neighbours in a chain are not mixed up. */
START_TEST(many_clients) {
    struct setup s = setup_of(4000);
    struct ledger_claim c;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < 4000; i++) {
            struct ledger_key k = key_of("10.64.0.0", R4, 6, 443);
            k.client.bytes[2] = (uint8_t)(i >> 8);
            k.client.bytes[3] = (uint8_t)i;
            if (pass == 0) put(&s, &k, "a.example", i + 1, START + SEC);
            ck_assert(ledger_shown(s.l, &k, NULL, &c));
            ck_assert_uint_eq(c.mark, i + 1);
            ck_assert_uint_eq(ledger_client_claims(s.l, &k.client), 1);
            if (pass == 1) ck_assert(ledger_remove(s.l, &k, c.name));
        }
    }
    ck_assert_uint_eq(ledger_claims(s.l), 0);
    teardown(&s);
}
END_TEST

START_TEST(rounds) {
    struct setup s = setup_of(4);
    struct ledger_key k = key_of(C4, R4, 6, 1), absent = key_of(C4, R4, 6, 2);
    put(&s, &k, "a.example", 1, START + SEC);
    ck_assert(!ledger_seen(s.l, &k, 1));
    ledger_see(s.l, &k, 1);
    ledger_see(s.l, &absent, 1);
    ck_assert(ledger_seen(s.l, &k, 1));
    ck_assert(!ledger_seen(s.l, &k, 2));
    ck_assert(!ledger_seen(s.l, &absent, 1));
    teardown(&s);
}
END_TEST

/* Paging while entries come and go: whoever stays is seen exactly once. */
START_TEST(paging) {
    struct setup s = setup_of(20000);
    unsigned seen[500] = {0};
    struct ledger_claim c;
    uint64_t cursor = 0;
    uint32_t budget = 0;
    for (uint16_t i = 0; i < 1000; i++) {
        struct ledger_key k = key_of(C4, R4, 6, (uint16_t)(i + 1));
        put(&s, &k, "a.example", i, START + SEC);
    }
    ck_assert(!ledger_next(s.l, &cursor, &budget, &c));
    ck_assert_uint_eq(cursor, 0); /* nothing was looked at */
    srand(1);
    unsigned pages = 0;
    do {
        budget = 100;
        for (unsigned i = 0; i < 7 && ledger_next(s.l, &cursor, &budget, &c); i++)
            if (c.mark < 500) seen[c.mark]++;
        for (unsigned i = 0; i < 5; i++) { /* those from 500 on come and go */
            struct ledger_key k = key_of(C4, R4, 6, (uint16_t)(501 + rand() % 500));
            ledger_remove(s.l, &k, ref_of(&s, "a.example"));
            struct ledger_key fresh = key_of(C4, R4, 17, (uint16_t)(1 + rand() % 60000));
            put(&s, &fresh, "b.example", 1000, START + SEC);
        }
        ck_assert_uint_lt(pages++, 10000);
    } while (cursor != 0);
    for (unsigned i = 0; i < 500; i++) ck_assert_uint_eq(seen[i], 1);
    budget = 3;
    ck_assert(ledger_next(s.l, &cursor, &budget, &c));
    ck_assert_uint_le(budget, 2);
    teardown(&s);
}
END_TEST

/* ---- against a plain list ------------------------------------------------------------------ */

#define MODEL_MAX 400
#define MODEL_AGENTS 3u
struct model_claim {
    bool used;
    struct ledger_key key;
    unsigned name;
    uint32_t mark;
    usec_t deadline;
    uint64_t touched;
};
static struct model_claim model[MODEL_MAX];

static const char *const model_names[] = {"a.example", "b.example", "c.example", "d.e.example"};
static const char *const model_clients[] = {"10.77.1.17", "10.77.1.18", "fd77:1::17"};

static bool key_same(const struct ledger_key *a, const struct ledger_key *b) {
    return a->port == b->port && a->protocol == b->protocol && addr_equal(&a->client, &b->client) &&
           addr_equal(&a->remote, &b->remote);
}

static struct ledger_key random_key(void) {
    char remote[32];
    unsigned client = (unsigned)rand() % 3;
    unsigned host = 1 + (unsigned)rand() % 5;
    if (client == 2) snprintf(remote, sizeof remote, "2001:db8::%u", host);
    else snprintf(remote, sizeof remote, "203.0.113.%u", host);
    return key_of(model_clients[client], remote, rand() % 2 ? 6 : 17,
                  (uint16_t)(1 + rand() % 3));
}

static struct model_claim *model_find(const struct ledger_key *k, unsigned name) {
    for (unsigned i = 0; i < MODEL_MAX; i++)
        if (model[i].used && model[i].name == name && key_same(&model[i].key, k)) return &model[i];
    return NULL;
}

static struct model_claim *model_shown(const struct ledger_key *k) {
    struct model_claim *best = NULL;
    for (unsigned i = 0; i < MODEL_MAX; i++) {
        struct model_claim *m = &model[i];
        if (!m->used || !key_same(&m->key, k)) continue;
        if (!best || m->deadline > best->deadline ||
            (m->deadline == best->deadline && m->touched > best->touched))
            best = m;
    }
    return best;
}

static void model_put(const struct ledger_key *k, unsigned name, uint32_t mark, usec_t deadline,
                      uint64_t step) {
    struct model_claim *m = model_find(k, name);
    for (unsigned i = 0; !m && i < MODEL_MAX; i++)
        if (!model[i].used) m = &model[i];
    ck_assert_ptr_nonnull(m);
    usec_t had = m->used ? m->deadline : 0;
    *m = (struct model_claim){.used = true, .key = *k, .name = name, .mark = mark,
                              .deadline = deadline > had ? deadline : had, .touched = step};
}

static void compare(struct setup *s) {
    uint32_t claims = 0, openings = 0, budget = UINT32_MAX, listed = 0;
    uint64_t cursor = 0;
    struct ledger_claim c;
    for (unsigned i = 0; i < MODEL_MAX; i++) {
        struct model_claim *m = &model[i];
        if (!m->used) continue;
        claims++;
        ck_assert(ledger_find(s->l, &m->key, ref_of(s, model_names[m->name]), &c));
        ck_assert_uint_eq(c.mark, m->mark);
        ck_assert_uint_eq(c.deadline, m->deadline);
        struct model_claim *first = model_shown(&m->key);
        openings += first == m;
        ck_assert(ledger_shown(s->l, &m->key, NULL, &c));
        ck_assert_uint_eq(c.deadline, first->deadline);
        ck_assert_uint_eq(c.mark, first->mark);
        ck_assert_ptr_eq(c.name, ref_of(s, model_names[first->name]));
    }
    while (ledger_next(s->l, &cursor, &budget, &c)) listed++;
    ck_assert_uint_eq(ledger_claims(s->l), claims);
    ck_assert_uint_eq(listed, claims);
    ck_assert_uint_eq(ledger_openings(s->l, 0), openings);
    for (unsigned i = 0; i < 3; i++) {
        struct addr client = address(model_clients[i]);
        uint32_t of_client = 0;
        for (unsigned k = 0; k < MODEL_MAX; k++)
            of_client += model[k].used && addr_equal(&model[k].key.client, &client);
        ck_assert_uint_eq(ledger_client_claims(s->l, &client), of_client);
    }
    for (uint32_t agent = 0; agent < MODEL_AGENTS; agent++) {
        uint32_t of_agent = 0;
        for (unsigned k = 0; k < MODEL_MAX; k++)
            of_agent += model[k].used && marks_subject(model[k].mark) == agent;
        ck_assert_uint_eq(ledger_agent_claims(s->l, agent << MARKS_ENDPOINT_BITS | 7), of_agent);
    }
}

START_TEST(against_a_list) {
    struct setup s = setup_of(MODEL_MAX);
    usec_t now = START;
    memset(model, 0, sizeof model);
    srand(20261130);
    for (uint64_t step = 1; step <= 6000; step++) {
        struct ledger_key k = random_key();
        unsigned name = (unsigned)rand() % 4, what = (unsigned)rand() % 10;
        if (what < 6) {
            usec_t deadline = now + (usec_t)(rand() % 40) * SEC + (usec_t)(rand() % 2) * 500000;
            uint32_t agent = (uint32_t)rand() % MODEL_AGENTS;
            uint32_t mark = agent << MARKS_ENDPOINT_BITS | (1 + (uint32_t)rand() % 100);
            put(&s, &k, model_names[name], mark, deadline);
            model_put(&k, name, mark, deadline, step);
        } else if (what < 8) {
            struct model_claim *m = model_find(&k, name);
            ck_assert_int_eq(ledger_remove(s.l, &k, ref_of(&s, model_names[name])), m != NULL);
            if (m) m->used = false;
        } else {
            uint32_t gone = 0, openings;
            now += (usec_t)(rand() % 3000) * USEC_PER_MSEC;
            for (unsigned i = 0; i < MODEL_MAX; i++) {
                if (!model[i].used || model[i].deadline >= now / SEC * SEC) continue;
                model[i].used = false;
                gone++;
            }
            ck_assert_uint_eq(ledger_expire(s.l, now, MODEL_MAX, &openings), gone);
        }
        if (step % 20 == 0) compare(&s);
    }
    compare(&s);
    teardown(&s);
}
END_TEST

/* ---- size ---------------------------------------------------------------------------------- */

/* A million openings of 100 clients and 10,000 names, and the memory they take. */
START_TEST(a_million) {
    const uint32_t count = 1000000;
    struct setup s = setup_of(count);
    struct name_ref *refs[10000];
    uint32_t openings;
    for (unsigned i = 0; i < 10000; i++) {
        char text[64];
        snprintf(text, sizeof text, "host-%u.storage.region.example", i);
        struct name n = name_of(text);
        refs[i] = names_get(s.names, &n);
        ck_assert_ptr_nonnull(refs[i]);
    }
    struct ledger_key k = key_of("fd77:1::", "2001:db8::", 6, 443);
    for (uint32_t i = 0; i < count; i++) {
        k.client.bytes[15] = (uint8_t)(i % 100);
        memcpy(k.remote.bytes + 12, &i, sizeof i);
        ck_assert_int_eq(ledger_put(s.l, &k, refs[i / 100], 7, START + (i % 3600) * SEC), 0);
    }
    ck_assert_uint_eq(ledger_openings(s.l, 6), count);
    size_t bytes = ledger_bytes(s.l) + names_bytes(s.names);
    printf("a million openings: %zu MB\n", bytes >> 20);
    ck_assert_uint_lt(bytes, (size_t)180 << 20);
    uint32_t gone = ledger_expire(s.l, START + 4000 * SEC, count, &openings);
    ck_assert_uint_eq(gone, count);
    ck_assert_uint_eq(ledger_claims(s.l), 0);
    for (unsigned i = 0; i < 10000; i++) names_drop(s.names, refs[i]);
    teardown(&s);
}
END_TEST

/* c44: one name with thousands of addresses. */
START_TEST(many_addresses_of_one_name) {
    struct setup s = setup_of(4000);
    struct ledger_claim c;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < 4000; i++) {
            struct ledger_key k = key_of(C4, "93.184.0.0", 6, 443);
            k.remote.bytes[2] = (uint8_t)(i >> 8);
            k.remote.bytes[3] = (uint8_t)i;
            if (pass == 0) put(&s, &k, "a.example", i + 1, START + SEC);
            ck_assert(ledger_find(s.l, &k, ref_of(&s, "a.example"), &c));
            ck_assert_uint_eq(c.mark, i + 1);
            if (pass == 1) ck_assert(ledger_remove(s.l, &k, c.name));
        }
    }
    teardown(&s);
}
END_TEST

/* c45: thousands of names on one address, as on a content network, cost no search. */
START_TEST(many_names_on_one_address) {
    const unsigned count = 20000;
    struct setup s = setup_of(count);
    struct ledger_key k = key_of(C4, R4, 6, 443);
    struct ledger_claim c;
    usec_t began = clock_now(&clock_system);
    for (unsigned pass = 0; pass < 3; pass++) {
        for (unsigned i = 0; i < count; i++) {
            char name[32];
            snprintf(name, sizeof name, "n%u.example", i);
            if (pass < 2) put(&s, &k, name, i + 1, START + (pass + 1) * i * SEC / 100);
            ck_assert(ledger_shown(s.l, &k, NULL, &c));
            if (pass == 2) ck_assert(ledger_remove(s.l, &k, ref_of(&s, name)));
        }
    }
    /* With a search each it would be 10^9 steps: minutes under the sanitizers. */
    ck_assert_uint_lt(clock_now(&clock_system) - began, 30 * SEC);
    ck_assert_uint_eq(ledger_openings(s.l, 0), 0);
    teardown(&s);
}
END_TEST

START_TEST(names_are_kept_once) {
    ck_assert_int_ge(sodium_init(), 0);
    struct names *names = names_new(hash_key);
    struct name a = name_of("a.example"), b = name_of("b.example"), got;
    ck_assert_ptr_null(names_find(names, &a));
    struct name_ref *r = names_get(names, &a), *again = names_get(names, &a);
    ck_assert_ptr_eq(r, again);
    ck_assert_ptr_ne(names_get(names, &b), r);
    ck_assert_uint_eq(names_count(names), 2);
    ck_assert_ptr_null(names_drop(names, r));
    ck_assert_ptr_eq(names_find(names, &a), r);
    ck_assert_ptr_null(names_drop(names, r));
    ck_assert_ptr_null(names_find(names, &a));
    ck_assert_ptr_null(names_drop(names, NULL));
    ck_assert_ptr_null(name_ref_keep(NULL));
    name_ref_read(NULL, &got);
    ck_assert_uint_eq(got.length, 0);
    /* More names than there are buckets at first. */
    for (unsigned i = 0; i < 70000; i++) {
        char text[32];
        snprintf(text, sizeof text, "n%u.example", i);
        struct name n = name_of(text);
        ck_assert_ptr_nonnull(names_get(names, &n));
    }
    struct name last = name_of("n69999.example");
    ck_assert_ptr_nonnull(names_find(names, &last));
    ck_assert_uint_eq(names_count(names), 70001);
    ck_assert_ptr_null(names_free(names)); /* with what is still in it */
    ck_assert_ptr_null(names_free(NULL));
    ck_assert_ptr_null(ledger_free(NULL));
}
END_TEST

/* Each allocation fails in turn: nothing is lost or half done, and it works when there is memory. */
START_TEST(memory_runs_out) {
    int made = 0;
    for (int left = 0; made == 0 && left < 30; left++) {
        ck_assert_int_ge(sodium_init(), 0);
        memory_left = left;
        struct names *names = names_new(hash_key);
        struct ledger *l = names ? ledger_new(16, names, hash_key, START) : NULL;
        memory_left = -1;
        made += l != NULL;
        ledger_free(l);
        names_free(names);
    }
    ck_assert_int_eq(made, 1);
    struct setup s = setup_of(16);
    struct ledger_key k = key_of(C4, R4, 6, 443);
    struct ledger_claim c;
    struct name n = name_of("a.example");
    struct slab slab;
    memory_left = 0;
    struct name_ref *ref = names_get(s.names, &n);
    int made_slab = slab_make(&slab, 16, 16);
    memory_left = -1;
    ck_assert_ptr_null(ref);
    ck_assert_int_eq(made_slab, -ENOMEM);
    ref = names_get(s.names, &n);
    int failed = 0;
    for (;;) { /* what a failed call got is there for the next: one more each time */
        memory_left = failed ? 1 : 0;
        int r = ledger_reserve(s.l, 1);
        memory_left = -1;
        if (r == 0) break;
        ck_assert_int_eq(r, -ENOMEM);
        failed++;
    }
    ck_assert_int_eq(failed, 5);
    memory_left = 0;
    int put_one = ledger_put(s.l, &k, ref, 1, START + SEC);
    memory_left = -1;
    ck_assert_int_eq(put_one, 0); /* as was promised */
    ck_assert(ledger_shown(s.l, &k, NULL, &c));
    names_drop(s.names, ref);
    teardown(&s);
    /* Names that find no memory for more buckets go on in longer chains. */
    struct names *names = names_new(hash_key);
    for (unsigned i = 0; i < 65536; i++) {
        char text[32];
        snprintf(text, sizeof text, "n%u.example", i);
        n = name_of(text);
        ck_assert_ptr_nonnull(names_get(names, &n));
    }
    struct name over = name_of("over.example");
    memory_left = 1; /* for the name, not for the buckets */
    ref = names_get(names, &over);
    memory_left = -1;
    ck_assert_ptr_nonnull(ref);
    ck_assert_ptr_eq(names_find(names, &over), ref);
    names_free(names);
}
END_TEST

START_TEST(slab_numbers) {
    struct slab s;
    ck_assert_int_eq(slab_make(&s, 16, SLAB_CHUNK + 2), 0);
    ck_assert_int_eq(slab_reserve(&s, SLAB_CHUNK + 3), -ENOSPC);
    ck_assert_int_eq(slab_reserve(&s, SLAB_CHUNK + 2), 0);
    for (uint32_t i = 1; i <= SLAB_CHUNK + 2; i++) {
        ck_assert_uint_eq(slab_take(&s), i);
        memset(slab_at(&s, i), 0xff, 16);
    }
    ck_assert_uint_eq(slab_take(&s), 0);
    slab_give(&s, 3);
    slab_give(&s, SLAB_CHUNK + 1);
    ck_assert_uint_eq(slab_take(&s), SLAB_CHUNK + 1);
    static const uint8_t zero[16];
    ck_assert_mem_eq(slab_at(&s, SLAB_CHUNK + 1), zero, 16);
    ck_assert_uint_eq(slab_take(&s), 3);
    ck_assert_mem_eq(slab_at(&s, 3), zero, 16);
    slab_release(&s);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("ledger");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, one_claim);
    tcase_add_test(t, refresh_never_shortens);
    tcase_add_test(t, claims_share_an_opening);
    tcase_add_test(t, reverse_lookup);
    tcase_add_test(t, expiry);
    tcase_add_test(t, expiry_after_sleep);
    tcase_add_test(t, addresses_by_age);
    tcase_add_test(t, bounded);
    tcase_add_test(t, many_clients);
    tcase_add_test(t, rounds);
    tcase_add_test(t, paging);
    tcase_add_test(t, against_a_list);
    tcase_add_test(t, a_million);
    tcase_add_test(t, many_addresses_of_one_name);
    tcase_add_test(t, many_names_on_one_address);
    tcase_add_test(t, names_are_kept_once);
    tcase_add_test(t, memory_runs_out);
    tcase_add_test(t, slab_numbers);
    Suite *s = suite_create("ledger");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
