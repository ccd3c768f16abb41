/* cache_test.c: what is kept, for how long, and what goes first. */
#include "resolver/cache/cache.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resolver/cache/hash.h"
#include "tests/unit/scarce.h"

#define START (1000 * USEC_PER_SEC)

static struct name name_of(const char *text) {
    struct name n;
    ck_assert_msg(name_from_text(text, &n) == 0, "%s", text);
    return n;
}

static struct name numbered(unsigned i) {
    char text[40];
    snprintf(text, sizeof text, "host-%u.example", i);
    return name_of(text);
}

/* A vetted answer with `count` addresses that begin at `first`. */
static struct vetted *answer_of(unsigned first, unsigned count) {
    struct name name = name_of("a");
    struct wire_record *records = calloc(count + 1, sizeof *records);
    struct vetted *v = NULL;
    for (unsigned i = 0; i < count; i++) {
        uint8_t bytes[4] = {198, 51, (uint8_t)((first + i) >> 8), (uint8_t)(first + i)};
        records[i] = (struct wire_record){.owner = name, .type = 1, .class = 1, .ttl = 60,
                                          .addr = addr_from4(bytes)};
    }
    struct wire_answer a = {.count = (uint16_t)count, .records = records};
    ck_assert_int_eq(vet_answer(&name, 1, &a, &v), 0);
    free(records);
    return v;
}

static int put(struct cache *c, const char *name, uint16_t type, unsigned id, uint32_t lifetime,
               usec_t now) {
    struct name n = name_of(name);
    struct vetted *v = answer_of(id, 1);
    int result = cache_put(c, &n, type, v, lifetime, now);
    vetted_unref(v);
    return result;
}

static int failed_to(struct cache *c, const char *name, enum reason reason, usec_t now) {
    struct name n = name_of(name);
    return cache_put_failure(c, &n, 1, reason, now);
}

/* The id of the answer found, 0 for a miss, -reason for a failure; its expiry in *expiry. */
static int find(struct cache *c, const char *name, uint16_t type, usec_t now, usec_t *expiry) {
    struct name n = name_of(name);
    struct cache_found found, untouched;
    const struct addr *addrs;
    memset(&found, 0x5a, sizeof found);
    untouched = found;
    switch (cache_find(c, &n, type, now, &found)) {
    case CACHE_MISS:
        ck_assert_mem_eq(&found, &untouched, sizeof found);
        return 0;
    case CACHE_FAILURE:
        ck_assert_ptr_null(found.vetted);
        ck_assert_uint_gt(found.expiry, now);
        if (expiry)
            *expiry = found.expiry;
        return -(int)found.reason;
    case CACHE_ANSWER:
        break;
    }
    ck_assert_uint_gt(found.expiry, now);
    if (expiry)
        *expiry = found.expiry;
    ck_assert_uint_eq(vetted_addrs(found.vetted, &addrs), 1);
    int id = addrs[0].bytes[2] << 8 | addrs[0].bytes[3];
    vetted_unref(found.vetted);
    return id;
}

static struct cache_stats stats(const struct cache *c) {
    struct cache_stats s;
    cache_stats(c, &s);
    return s;
}

START_TEST(answers_live_as_long_as_told) {
    struct cache *c = cache_new(10, 1 << 20);
    usec_t expiry;
    ck_assert_int_eq(find(c, "a", 1, START, NULL), 0);
    ck_assert_int_eq(put(c, "a", 1, 7, 60, START), 0);
    ck_assert_int_eq(find(c, "a", 1, START, &expiry), 7);
    ck_assert_uint_eq(expiry, START + 60 * USEC_PER_SEC);
    ck_assert_int_eq(find(c, "A.", 1, START + 60 * USEC_PER_SEC - 1, NULL), 7);
    ck_assert_int_eq(find(c, "a", 1, START + 60 * USEC_PER_SEC, NULL), 0); /* never stale */
    ck_assert_uint_eq(stats(c).entries, 0);
    ck_assert_uint_eq(stats(c).bytes, 0);
    ck_assert_uint_eq(stats(c).hits, 2);
    ck_assert_uint_eq(stats(c).misses, 2);
    ck_assert_uint_eq(stats(c).evicted, 0);
    cache_free(c);
}
END_TEST

START_TEST(c13_keys_are_name_and_type) {
    struct cache *c = cache_new(10, 1 << 20);
    put(c, "a.b", 1, 1, 60, START);
    put(c, "a.b", 28, 2, 60, START);
    put(c, "a\\.b", 1, 3, 60, START);
    put(c, "b", 1, 4, 60, START);
    put(c, "a.b", 257, 5, 60, START); /* low octet as type 1 */
    ck_assert_int_eq(find(c, "A.B", 1, START, NULL), 1);
    ck_assert_int_eq(find(c, "a.b", 28, START, NULL), 2);
    ck_assert_int_eq(find(c, "a\\.b", 1, START, NULL), 3);
    ck_assert_int_eq(find(c, "b", 1, START, NULL), 4);
    ck_assert_int_eq(find(c, "a.b", 257, START, NULL), 5);
    ck_assert_int_eq(find(c, "x.b", 1, START, NULL), 0);
    ck_assert_int_eq(find(c, "a.b", 2, START, NULL), 0);
    cache_free(c);
}
END_TEST

START_TEST(newer_replaces_older) {
    struct cache *c = cache_new(10, 1 << 20);
    usec_t expiry;
    put(c, "a", 1, 1, 3600, START);
    put(c, "a", 1, 2, 5, START);
    ck_assert_int_eq(find(c, "a", 1, START, &expiry), 2);
    ck_assert_uint_eq(expiry, START + 5 * USEC_PER_SEC);
    ck_assert_uint_eq(stats(c).entries, 1);
    /* Lifetime 0 keeps nothing and takes the old one along. */
    ck_assert_int_eq(put(c, "a", 1, 3, 0, START), 0);
    ck_assert_int_eq(find(c, "a", 1, START, NULL), 0);
    ck_assert_uint_eq(stats(c).entries, 0);
    ck_assert_int_eq(put(c, "a", 1, 4, UINT32_MAX, START), 0);
    ck_assert_int_eq(find(c, "a", 1, START + UINT32_MAX * USEC_PER_SEC - 1, NULL), 4);
    cache_free(c);
}
END_TEST

START_TEST(references_outlive_the_cache) {
    struct cache *c = cache_new(1, 1 << 20);
    struct name n = name_of("a");
    struct cache_found found;
    const struct addr *addrs;
    put(c, "a", 1, 9, 60, START);
    ck_assert_int_eq(cache_find(c, &n, 1, START, &found), CACHE_ANSWER);
    put(c, "b", 1, 1, 60, START);
    ck_assert_ptr_null(cache_free(c));
    ck_assert_uint_eq(vetted_addrs(found.vetted, &addrs), 1);
    ck_assert_uint_eq(addrs[0].bytes[3], 9);
    vetted_unref(found.vetted);
    ck_assert_ptr_null(cache_free(NULL));
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

START_TEST(failures_back_off) {
    static const unsigned seconds[] = {1, 2, 4, 8, 16, 30, 30, 30};
    struct cache *c = cache_new(10, 1 << 20);
    usec_t now = START, expiry;
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        ck_assert_int_eq(failed_to(c, "a", REASON_UPSTREAM_TIMEOUT, now), 0);
        ck_assert_int_eq(find(c, "a", 1, now, &expiry), -REASON_UPSTREAM_TIMEOUT);
        ck_assert_uint_eq(expiry, now + seconds[i] * USEC_PER_SEC);
        /* Others that were in flight fail too: no change. */
        ck_assert_int_eq(failed_to(c, "a", REASON_UPSTREAM_ERROR, expiry - 1), 0);
        ck_assert_int_eq(find(c, "a", 1, expiry - 1, NULL), -REASON_UPSTREAM_TIMEOUT);
        ck_assert_int_eq(find(c, "a", 1, expiry, NULL), 0);
        now = expiry + CACHE_FAILURE_MAX * USEC_PER_SEC - 1; /* the last moment it is remembered */
    }
    now += 2 * CACHE_FAILURE_MAX * USEC_PER_SEC;
    failed_to(c, "a", REASON_BAD_ANSWER, now);
    ck_assert_int_eq(find(c, "a", 1, now, &expiry), -REASON_BAD_ANSWER);
    ck_assert_uint_eq(expiry, now + USEC_PER_SEC);
    ck_assert_uint_eq(stats(c).entries, 1);
    cache_free(c);
}
END_TEST

START_TEST(success_ends_the_back_off) {
    struct cache *c = cache_new(10, 1 << 20);
    usec_t now = START, expiry;
    for (unsigned i = 0; i < 4; i++) {
        failed_to(c, "a", REASON_UPSTREAM_NETWORK, now);
        find(c, "a", 1, now, &expiry);
        now = expiry;
    }
    put(c, "a", 1, 5, 2, now);
    ck_assert_int_eq(find(c, "a", 1, now, NULL), 5);
    /* A late failure does not displace what is known. */
    ck_assert_int_eq(failed_to(c, "a", REASON_UPSTREAM_TIMEOUT, now + USEC_PER_SEC), 0);
    ck_assert_int_eq(find(c, "a", 1, now + USEC_PER_SEC, NULL), 5);
    now += 2 * USEC_PER_SEC;
    failed_to(c, "a", REASON_UPSTREAM_TIMEOUT, now);
    ck_assert_int_eq(find(c, "a", 1, now, &expiry), -REASON_UPSTREAM_TIMEOUT);
    ck_assert_uint_eq(expiry, now + USEC_PER_SEC);
    cache_free(c);
}
END_TEST

START_TEST(only_servfail_is_a_failure) {
    struct cache *c = cache_new(10, 1 << 20);
    for (int reason = 0; reason < REASON_END + 5; reason++) {
        bool is = reason_valid((uint32_t)reason) &&
                  reason_answer((uint32_t)reason) == ANSWER_FAIL;
        cache_flush(c);
        ck_assert_int_eq(failed_to(c, "a", (enum reason)reason, START), is ? 0 : -EINVAL);
        ck_assert_int_eq(find(c, "a", 1, START, NULL), is ? -reason : 0);
    }
    cache_free(c);
}
END_TEST

/* ---- bounds ---------------------------------------------------------------------------------- */

START_TEST(expired_go_first_then_the_least_used) {
    struct cache *c = cache_new(4, 1 << 20);
    put(c, "a", 1, 1, 100, START);
    put(c, "b", 1, 2, 1, START);
    put(c, "c", 1, 3, 100, START);
    put(c, "d", 1, 4, 2, START);
    find(c, "a", 1, START, NULL); /* now c is the oldest that lives on */
    usec_t now = START + 2 * USEC_PER_SEC;
    put(c, "e", 1, 5, 100, now); /* b */
    put(c, "f", 1, 6, 100, now); /* d */
    ck_assert_uint_eq(stats(c).evicted, 0);
    put(c, "g", 1, 7, 100, now); /* c */
    ck_assert_uint_eq(stats(c).evicted, 1);
    ck_assert_uint_eq(stats(c).entries, 4);
    ck_assert_int_eq(find(c, "a", 1, now, NULL), 1);
    ck_assert_int_eq(find(c, "c", 1, now, NULL), 0);
    ck_assert_int_eq(find(c, "e", 1, now, NULL), 5);
    ck_assert_int_eq(find(c, "f", 1, now, NULL), 6);
    ck_assert_int_eq(find(c, "g", 1, now, NULL), 7);
    cache_free(c);
}
END_TEST

START_TEST(bytes_are_bounded) {
    struct name big = name_of("big"), small = name_of("small");
    struct vetted *v = answer_of(0, 200), *w = answer_of(9, 1);
    size_t room = vetted_bytes(v) + 400;
    struct cache *c = cache_new(1000, room);
    ck_assert_int_eq(cache_put(c, &big, 1, v, 60, START), 0);
    ck_assert_uint_le(stats(c).bytes, room);
    ck_assert_uint_gt(stats(c).bytes, vetted_bytes(v));
    /* It must go for many small ones, which then share the room. */
    for (unsigned i = 0; i < 500; i++) {
        struct name n = numbered(i);
        ck_assert_int_eq(cache_put(c, &n, 1, w, 60, START), 0);
        ck_assert_uint_le(stats(c).bytes, room);
    }
    ck_assert_uint_gt(stats(c).evicted, 400);
    ck_assert_uint_gt(stats(c).entries, 5);
    cache_free(c);
    c = cache_new(1000, vetted_bytes(w) + 10);
    ck_assert_int_eq(cache_put(c, &small, 1, w, 60, START), -ENOSPC);
    ck_assert_uint_eq(stats(c).entries, 0);
    ck_assert_uint_eq(stats(c).bytes, 0);
    cache_free(c);
    c = cache_new(0, 1 << 20); /* taken as 1 */
    ck_assert_int_eq(cache_put(c, &small, 1, w, 60, START), 0);
    ck_assert_int_eq(cache_put(c, &big, 1, w, 60, START), 0);
    ck_assert_uint_eq(stats(c).entries, 1);
    cache_free(c);
    vetted_unref(v);
    vetted_unref(w);
}
END_TEST

START_TEST(no_memory) {
    struct cache *c = cache_new(10, 1 << 20);
    struct name n = name_of("a");
    struct vetted *v = answer_of(7, 1);
    ck_assert_int_eq(put(c, "a", 1, 1, 60, START), 0);
    memory_is_scarce = true;
    int kept = cache_put(c, &n, 1, v, 60, START);
    int failed = cache_put_failure(c, &n, 1, REASON_UPSTREAM_TIMEOUT, START);
    memory_is_scarce = false;
    ck_assert_int_eq(kept, -ENOMEM);
    ck_assert_int_eq(failed, -ENOMEM);
    ck_assert_int_eq(find(c, "a", 1, START, NULL), 0); /* the old one is gone, not stale */
    ck_assert_uint_eq(stats(c).entries, 0);
    ck_assert_int_eq(cache_put(c, &n, 1, v, 60, START), 0);
    ck_assert_int_eq(find(c, "a", 1, START, NULL), 7);
    vetted_unref(v);
    cache_free(c);
}
END_TEST

START_TEST(flush) {
    struct cache *c = cache_new(100, 1 << 20);
    usec_t expiry;
    for (unsigned i = 1; i < 50; i++) {
        char text[20];
        snprintf(text, sizeof text, "h%u", i);
        put(c, text, 1, i, 60, START);
    }
    failed_to(c, "f", REASON_UPSTREAM_TIMEOUT, START);
    cache_flush(c);
    ck_assert_uint_eq(stats(c).entries, 0);
    ck_assert_uint_eq(stats(c).bytes, 0);
    ck_assert_int_eq(find(c, "h7", 1, START, NULL), 0);
    ck_assert_int_eq(put(c, "h7", 1, 7, 60, START), 0);
    ck_assert_int_eq(find(c, "h7", 1, START, NULL), 7);
    failed_to(c, "f", REASON_UPSTREAM_TIMEOUT, START + USEC_PER_SEC);
    find(c, "f", 1, START + USEC_PER_SEC, &expiry);
    ck_assert_uint_eq(expiry, START + 2 * USEC_PER_SEC); /* the back-off is forgotten too */
    cache_free(c);
}
END_TEST

/* ---- against a plain model ------------------------------------------------------------------- */

#define KEYS 60
#define ROOM 25

static struct {
    unsigned id;     /* 0: nothing */
    usec_t expiry;
    uint64_t used;   /* when last, in operations */
} model[KEYS];

static uint64_t operations;

static void model_make_room(usec_t now) {
    unsigned count = 0, soonest = KEYS, oldest = KEYS;
    for (unsigned i = 0; i < KEYS; i++) {
        if (!model[i].id)
            continue;
        count++;
        if (soonest == KEYS || model[i].expiry < model[soonest].expiry)
            soonest = i;
        if (oldest == KEYS || model[i].used < model[oldest].used)
            oldest = i;
    }
    if (count < ROOM)
        return;
    if (model[soonest].expiry <= now)
        model[soonest].id = 0;
    else
        model[oldest].id = 0;
}

static unsigned next(uint64_t *state, unsigned bound) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33) % bound;
}

START_TEST(does_as_a_plain_list_would) {
    struct cache *c = cache_new(ROOM, 1 << 20);
    uint64_t state = 42;
    usec_t now = START;
    char name[20];
    memset(model, 0, sizeof model);
    for (operations = 1; operations < 20000; operations++) {
        unsigned key = next(&state, KEYS), id = (unsigned)(operations & 0x7fff) | 1;
        /* Odd steps, so that no two entries expire at the same moment. */
        now += next(&state, 400) * USEC_PER_MSEC + 1;
        snprintf(name, sizeof name, "k%u", key);
        if (next(&state, 2)) {
            usec_t expiry = 0;
            unsigned want = model[key].expiry > now ? model[key].id : 0;
            ck_assert_int_eq(find(c, name, 1, now, &expiry), (int)want);
            if (want)
                ck_assert_uint_eq(expiry, model[key].expiry);
            else
                model[key].id = 0;
            model[key].used = operations;
        } else {
            uint32_t lifetime = next(&state, 60);
            ck_assert_int_eq(put(c, name, 1, id, lifetime, now), 0);
            model[key].id = 0;
            if (lifetime > 0) {
                model_make_room(now);
                model[key].id = id;
                model[key].expiry = now + lifetime * USEC_PER_SEC;
                model[key].used = operations;
            }
        }
    }
    ck_assert_uint_gt(stats(c).evicted, 100);
    ck_assert_uint_gt(stats(c).hits, 1000);
    cache_free(c);
}
END_TEST

START_TEST(hash_is_siphash) {
    /* From the reference implementation: key 00..0f, input of n octets 00, 01, 02 ... */
    static const struct { size_t size; uint64_t want; } rows[] = {
        {0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd}, {7, 0xab0200f58b01d137},
        {8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5},
    };
    uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    uint8_t input[16];
    for (unsigned i = 0; i < 16; i++)
        input[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_uint_eq(hash_keyed(key, input, rows[i].size), rows[i].want);
}
END_TEST

int main(void) {
    Suite *s = suite_create("cache");
    TCase *t = tcase_create("cache");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, answers_live_as_long_as_told);
    tcase_add_test(t, c13_keys_are_name_and_type);
    tcase_add_test(t, newer_replaces_older);
    tcase_add_test(t, references_outlive_the_cache);
    tcase_add_test(t, failures_back_off);
    tcase_add_test(t, success_ends_the_back_off);
    tcase_add_test(t, only_servfail_is_a_failure);
    tcase_add_test(t, expired_go_first_then_the_least_used);
    tcase_add_test(t, bytes_are_bounded);
    tcase_add_test(t, no_memory);
    tcase_add_test(t, flush);
    tcase_add_test(t, does_as_a_plain_list_would);
    tcase_add_test(t, hash_is_siphash);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
