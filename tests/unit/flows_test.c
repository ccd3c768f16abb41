/* flows_test.c: live flows, by hand and against a plain list. */
#include <check.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/core/flows.h"
#include "gateway/core/marks.h"

static const uint8_t hash_key[HASH_KEY_SIZE] = {9, 8, 7};

static struct addr address(const char *text) {
    struct addr a;
    ck_assert_int_eq(addr_parse(text, &a), 0);
    return a;
}

static struct conntrack_flow told(uint32_t id, const char *client, uint16_t client_port,
                                  const char *remote, uint16_t port) {
    return (struct conntrack_flow){
        .event = CONNTRACK_NEW, .protocol = 6, .id = id, .mark = 77, .start_ns = 5,
        .original = {.source = address(client), .source_port = client_port,
                     .destination = address(remote), .destination_port = port}};
}

static struct flow flow(uint32_t id, uint16_t client_port, uint16_t port) {
    struct conntrack_flow c = told(id, "10.77.1.17", client_port, "203.0.113.7", port);
    return flow_of(&c);
}

START_TEST(what_the_kernel_says) {
    struct conntrack_flow c = told(5, "fd77:1::17", 4000, "2001:db8::7", 443);
    struct flow f = flow_of(&c);
    ck_assert_uint_eq(f.id, 5);
    ck_assert(addr_equal(&f.key.client, &c.original.source));
    ck_assert(addr_equal(&f.key.remote, &c.original.destination));
    ck_assert_uint_eq(f.key.port, 443);
    ck_assert_uint_eq(f.key.protocol, 6);
    ck_assert_uint_eq(f.client_port, 4000);
    ck_assert_uint_eq(f.mark, 77);
    ck_assert_uint_eq(f.start_ns, 5);
    ck_assert_ptr_null(f.name);
    ck_assert(!f.revoked);
}
END_TEST

START_TEST(life_of_a_flow) {
    ck_assert_int_ge(sodium_init(), 0);
    struct names *names = names_new(hash_key);
    struct flows *f = flows_new(16, names, hash_key);
    struct name n;
    ck_assert_int_eq(name_from_text("a.example", &n), 0);
    struct flow a = flow(1, 4000, 443), b = flow(1, 4001, 443), got;
    a.name = names_get(names, &n);
    ck_assert(!flows_live(f, &a.key));
    ck_assert_int_eq(flows_add(f, &a), 1);
    ck_assert_int_eq(flows_add(f, &a), 0);
    ck_assert_int_eq(flows_add(f, &b), 1); /* the kernel may use a number again */
    names_drop(names, a.name);
    ck_assert_uint_eq(flows_count(f), 2);
    ck_assert(flows_live(f, &a.key));
    struct ledger_key other = a.key;
    other.port = 80;
    ck_assert(!flows_live(f, &other));
    other = a.key;
    other.protocol = 17;
    ck_assert(!flows_live(f, &other));
    ck_assert(flows_find(f, &a, &got));
    ck_assert_ptr_eq(got.name, names_find(names, &n));
    flows_revoke(f, &a);
    ck_assert(flows_take(f, &a, &got));
    ck_assert(got.revoked);
    ck_assert_ptr_nonnull(got.name);
    names_drop(names, got.name);
    ck_assert(!flows_take(f, &a, &got));
    ck_assert(!flows_find(f, &a, &got));
    flows_revoke(f, &a); /* not there: nothing happens */
    ck_assert(flows_live(f, &b.key)); /* b came in by the same opening */
    ck_assert(flows_take(f, &b, &got));
    ck_assert(!got.revoked);
    ck_assert(!flows_live(f, &b.key));
    ck_assert_uint_eq(names_count(names), 0);
    flows_free(f);
    names_free(names);
    ck_assert_ptr_null(flows_free(NULL));
}
END_TEST

START_TEST(bounded_and_counted) {
    struct names *names = names_new(hash_key);
    struct flows *f = flows_new(3, names, hash_key);
    for (uint16_t i = 0; i < 5; i++) {
        struct flow a = flow(i, 4000, 443);
        ck_assert_int_eq(flows_add(f, &a), i < 3 ? 1 : -ENOSPC);
    }
    ck_assert_uint_eq(flows_untracked(f), 2);
    ck_assert_uint_eq(flows_count(f), 3);
    flows_free(f);
    names_free(names);
}
END_TEST

START_TEST(comparison_with_a_dump) {
    struct names *names = names_new(hash_key);
    struct flows *f = flows_new(64, names, hash_key);
    struct name n;
    ck_assert_int_eq(name_from_text("a.example", &n), 0);
    for (uint16_t i = 0; i < 10; i++) {
        struct flow a = flow(i, 4000, 443);
        a.name = names_get(names, &n);
        flows_add(f, &a);
        names_drop(names, a.name);
    }
    flows_round(f);
    for (uint16_t i = 0; i < 12; i += 2) {
        struct flow a = flow(i, 4000, 443);
        flows_see(f, &a); /* 10 is not tracked */
    }
    struct flow fresh = flow(11, 4000, 443);
    ck_assert_int_eq(flows_add(f, &fresh), 1); /* added in this round: seen */
    ck_assert_uint_eq(flows_sweep(f), 5);
    ck_assert_uint_eq(flows_count(f), 6);
    struct flow gone = flow(1, 4000, 443), stays = flow(2, 4000, 443), got;
    ck_assert(!flows_find(f, &gone, &got));
    ck_assert(flows_find(f, &stays, &got));
    flows_free(f); /* drops the names it has */
    ck_assert_uint_eq(names_count(names), 0);
    names_free(names);
}
END_TEST

#define MODEL_MAX 300
#define MODEL_AGENTS 5u

/* Standing flows by agent, of a model's; who has most of them. */
static void compare_agents(const struct flows *f, const uint32_t standing[MODEL_AGENTS]) {
    uint32_t all = 0, most = 0;
    for (uint32_t i = 0; i < MODEL_AGENTS; i++) {
        ck_assert_uint_eq(flows_of_agent(f, i << MARKS_ENDPOINT_BITS | 3), standing[i]);
        all += standing[i];
        if (standing[i] > most) most = standing[i];
    }
    ck_assert_uint_eq(flows_standing(f), all);
    ck_assert_uint_eq(flows_of_agent(f, flows_most(f)), most);
}

START_TEST(against_a_list) {
    struct names *names = names_new(hash_key);
    struct flows *f = flows_new(MODEL_MAX, names, hash_key);
    struct { bool used, revoked; struct flow flow; } model[MODEL_MAX] = {0};
    srand(4711);
    for (unsigned step = 0; step < 20000; step++) {
        unsigned slot = (unsigned)rand() % MODEL_MAX;
        /* Few numbers and few openings: long chains. */
        struct flow a = flow(slot % 20, (uint16_t)slot, (uint16_t)(slot % 7)), got;
        a.mark = slot % MODEL_AGENTS << MARKS_ENDPOINT_BITS | 77;
        if (rand() % 3) {
            ck_assert_int_eq(flows_add(f, &a), !model[slot].used);
            if (!model[slot].used) model[slot].revoked = false;
            model[slot].used = true;
            if (rand() % 4 == 0) {
                flows_revoke(f, &a);
                model[slot].revoked = true;
            }
        } else {
            ck_assert_int_eq(flows_take(f, &a, &got), model[slot].used);
            if (model[slot].used) ck_assert_int_eq(got.revoked, model[slot].revoked);
            model[slot].used = false;
        }
        if (step % 50) continue;
        unsigned count = 0, live[7] = {0};
        uint32_t standing[MODEL_AGENTS] = {0};
        for (unsigned i = 0; i < MODEL_MAX; i++) {
            standing[i % MODEL_AGENTS] += model[i].used && !model[i].revoked;
            count += model[i].used;
            live[i % 7] += model[i].used;
        }
        ck_assert_uint_eq(flows_count(f), count);
        compare_agents(f, standing);
        for (uint16_t i = 0; i < 7; i++) {
            a = flow(0, 0, i);
            ck_assert_int_eq(flows_live(f, &a.key), live[i] > 0);
        }
    }
    flows_free(f);
    names_free(names);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("flows");
    tcase_add_test(t, what_the_kernel_says);
    tcase_add_test(t, life_of_a_flow);
    tcase_add_test(t, bounded_and_counted);
    tcase_add_test(t, comparison_with_a_dump);
    tcase_add_test(t, against_a_list);
    Suite *s = suite_create("flows");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
