/* upstream_server_test.c: which of several upstreams is asked. */
#include <check.h>
#include <stdlib.h>

#include "resolver/upstream/server.h"

static struct servers two_servers(void) {
    struct policy_gateway g = {.upstream_count = 2};
    struct servers s = {0};
    addr_parse("192.0.2.1", &g.upstreams[0].address);
    addr_parse("192.0.2.2", &g.upstreams[1].address);
    g.upstreams[0].port = g.upstreams[1].port = 53;
    servers_set(&s, &g);
    return s;
}

START_TEST(choice_fastest_first) {
    struct servers s = two_servers();
    server_answered(&s.list[0], 50000);
    server_answered(&s.list[1], 5000);
    ck_assert_int_eq(servers_choose(&s, 0), 1);
    ck_assert_int_eq(servers_choose(&s, 2), 0);
    ck_assert_int_eq(servers_choose(&s, 3), -1);
    /* The slow one is measured again some day. */
    int turns = 0;
    while (servers_choose(&s, 0) == 1 && turns < 1000)
        turns++;
    ck_assert_int_gt(turns, 20);
    ck_assert_int_lt(turns, 1000);
}
END_TEST

START_TEST(choice_dead_comes_last) {
    struct servers s = two_servers();
    usec_t now = 1000000;
    server_answered(&s.list[0], 1000);
    server_answered(&s.list[1], 900000);
    for (int i = 0; i < SERVER_FAILS_DEAD; i++)
        server_failed(&s.list[0], false, now);
    ck_assert_int_eq(servers_choose(&s, 0), 1);
    ck_assert_int_eq(servers_choose(&s, 2), 0); /* better than none */
    ck_assert_int_eq(servers_probe(&s, now), -1);
    now += SERVER_AWAY_MIN;
    ck_assert_int_eq(servers_probe(&s, now), 0);
    ck_assert_int_eq(servers_probe(&s, now), -1); /* one at a time */
    server_failed(&s.list[0], true, now);
    ck_assert_uint_eq(s.list[0].away, 2 * SERVER_AWAY_MIN);
    server_failed(&s.list[0], true, now); /* another question that failed with it */
    ck_assert_uint_eq(s.list[0].away, 2 * SERVER_AWAY_MIN);
    server_answered(&s.list[0], 1000);
    ck_assert_uint_eq(s.list[0].away, 0);
}
END_TEST

START_TEST(choice_reload_keeps_what_is_known) {
    struct servers s = two_servers();
    server_answered(&s.list[1], 7000);
    struct policy_gateway g = {.upstream_count = 2};
    addr_parse("192.0.2.2", &g.upstreams[0].address);
    addr_parse("192.0.2.3", &g.upstreams[1].address);
    g.upstreams[0].port = g.upstreams[1].port = 53;
    uint32_t generation = s.generation;
    ck_assert_uint_eq(servers_set(&s, &g), 2);
    ck_assert_uint_ne(s.generation, generation);
    ck_assert_uint_eq(s.list[0].rtt, 7000);
    ck_assert_uint_eq(s.list[1].rtt, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("upstream choice");
    TCase *all = tcase_create("choice");
    tcase_add_test(all, choice_fastest_first);
    tcase_add_test(all, choice_dead_comes_last);
    tcase_add_test(all, choice_reload_keeps_what_is_known);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
