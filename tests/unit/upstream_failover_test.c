/* upstream_failover_test.c: questions to real sockets on loopback: when the next server is asked, when it is
 * given up; ports, ids and bounds.
 */
#include "tests/unit/upstream_peer.h"

/* ---- failover --------------------------------------------------------------------------------- */

START_TEST(failover_silence) {
    if (!loopback_enter("failover_silence"))
        return;
    static struct message m;
    struct packet q;
    struct fixture *f = start(3 * USEC_PER_SEC, 16);
    add_server(f, "127.0.0.1", PORT);
    add_server(f, "127.0.0.2", PORT);
    upstream_configure(f->u, &f->gateway);
    int silent = server(SOCK_DGRAM, "127.0.0.1", PORT), good = server(SOCK_DGRAM, "127.0.0.2", PORT);
    uint64_t begin = now_ms();
    ask(f, 1, "api.example.com");
    take(f, good, &q);
    ck_assert_uint_ge(now_ms() - begin, 380); /* not before the first one's time is up */
    answer_to(&q, 0, false, 1, &m);
    send_to(good, &q, &m);
    run(f, WAIT, 1);
    ck_assert_uint_eq(f->answers, 1);
    ck_assert_uint_eq(stats_of(f).upstream_timeouts, 1);
    /* From now on the good one is first, and the other is not asked at all. */
    while (take_within(f, silent, &q, 0)) {}
    ask(f, 2, "api.example.com");
    take(f, good, &q);
    answer_to(&q, 0, false, 1, &m);
    send_to(good, &q, &m);
    run(f, WAIT, 2);
    ck_assert_uint_eq(f->answers, 2);
    ck_assert(!take_within(f, silent, &q, 0));
    ck_assert_uint_eq(stats_of(f).upstream_timeouts, 1);
    close(silent);
    close(good);
    stop(f);
}
END_TEST

START_TEST(failover_late_answer_counts) {
    if (!loopback_enter("failover_late_answer_counts"))
        return;
    static struct message m;
    struct packet q, second;
    struct fixture *f = start(3 * USEC_PER_SEC, 16);
    add_server(f, "127.0.0.1", PORT);
    add_server(f, "127.0.0.2", PORT);
    upstream_configure(f->u, &f->gateway);
    int slow = server(SOCK_DGRAM, "127.0.0.1", PORT), other = server(SOCK_DGRAM, "127.0.0.2", PORT);
    ask(f, 1, "api.example.com");
    take(f, slow, &q);
    take(f, other, &second); /* the first one's time was up */
    answer_to(&q, 0, false, 3, &m);
    send_to(slow, &q, &m);
    run(f, WAIT, 1);
    ck_assert_uint_eq(f->answers, 1);
    ck_assert(addr_equal(&f->from, &f->gateway.upstreams[0].address));
    close(slow);
    close(other);
    stop(f);
}
END_TEST

START_TEST(failover_unreachable) {
    if (!loopback_enter("failover_unreachable"))
        return;
    static struct message m;
    struct packet q;
    struct fixture *f = start(3 * USEC_PER_SEC, 16);
    add_server(f, "127.0.0.1", PORT); /* nobody is there: the kernel says so */
    add_server(f, "::1", PORT);
    upstream_configure(f->u, &f->gateway);
    int good = server(SOCK_DGRAM, "::1", PORT);
    ask(f, 1, "api.example.com");
    take(f, good, &q);
    ck_assert_uint_eq(stats_of(f).upstream_timeouts, 0); /* no time was waited for */
    answer_to(&q, 0, false, 1, &m);
    send_to(good, &q, &m);
    run(f, WAIT, 1);
    ck_assert_uint_eq(f->answers, 1);
    close(good);
    stop(f);
}
END_TEST

START_TEST(all_unreachable_fails_at_once) {
    if (!loopback_enter("all_unreachable_fails_at_once"))
        return;
    struct fixture *f = start(3 * USEC_PER_SEC, 16);
    add_server(f, "127.0.0.1", PORT);
    add_server(f, "::1", PORT);
    add_server(f, "192.0.2.1", PORT); /* no route at all */
    upstream_configure(f->u, &f->gateway);
    ask(f, 9, "api.example.com");
    ck_assert_uint_eq(f->failures, 0); /* never from within the call */
    run(f, WAIT, 1);
    ck_assert_uint_eq(f->failures, 1);
    ck_assert_uint_eq(f->last_id, 9);
    ck_assert_int_eq(f->reason, REASON_UPSTREAM_NETWORK);
    ck_assert_uint_eq(stats_of(f).upstream_timeouts, 0); /* no time was waited for */
    stop(f);
}
END_TEST

static void on_later(uv_timer_t *timer) { *(bool *)timer->data = true; }

START_TEST(silence_ends_with_the_budget) {
    if (!loopback_enter("silence_ends_with_the_budget"))
        return;
    struct packet q;
    unsigned queries = 0;
    bool later = false;
    uv_timer_t timer = {.data = &later};
    struct fixture *f = start(2500 * USEC_PER_MSEC, 16);
    add_server(f, "127.0.0.1", PORT);
    upstream_configure(f->u, &f->gateway);
    int fd = server(SOCK_DGRAM, "127.0.0.1", PORT);
    uint64_t begin = now_ms();
    ask(f, 1, "api.example.com");
    /* However late a busy machine is: the loop keeps its timers in order. */
    uv_timer_init(&f->loop, &timer);
    uv_timer_start(&timer, on_later, 2900, 0);
    while (f->failures == 0 && !later)
        queries += take_within(f, fd, &q, 0);
    ck_assert_uint_eq(f->failures, 1);
    ck_assert_int_eq(f->reason, REASON_UPSTREAM_TIMEOUT);
    ck_assert_uint_ge(now_ms() - begin, 2450);
    while (take_within(f, fd, &q, 0))
        queries++;
    ck_assert_uint_eq(queries, 3); /* at 0, 0.4 and 1.2 s */
    uv_close((uv_handle_t *)&timer, NULL);
    close(fd);
    stop(f);
}
END_TEST

START_TEST(errors_fail_over_then_fail) {
    if (!loopback_enter("errors_fail_over_then_fail"))
        return;
    static struct message m;
    struct packet q;
    struct fixture *f = start(3 * USEC_PER_SEC, 16);
    add_server(f, "127.0.0.1", PORT);
    add_server(f, "127.0.0.2", PORT);
    upstream_configure(f->u, &f->gateway);
    int one = server(SOCK_DGRAM, "127.0.0.1", PORT), two = server(SOCK_DGRAM, "127.0.0.2", PORT);
    ask(f, 1, "api.example.com");
    take(f, one, &q);
    answer_to(&q, 2, false, 0, &m);
    send_to(one, &q, &m);
    take(f, two, &q);
    answer_to(&q, 5, false, 0, &m);
    send_to(two, &q, &m);
    run(f, WAIT, 1);
    ck_assert_uint_eq(f->failures, 1);
    ck_assert_int_eq(f->reason, REASON_UPSTREAM_ERROR);
    ck_assert_uint_eq(stats_of(f).upstream_timeouts, 0); /* no time was waited for */
    close(one);
    close(two);
    stop(f);
}
END_TEST

/* A dead server is left alone, then probed beside the one that works, and taken back. */
START_TEST(dead_server_is_probed) {
    if (!loopback_enter("dead_server_is_probed"))
        return;
    static struct message m;
    struct packet q;
    struct fixture *f = start(3 * USEC_PER_SEC, 16);
    add_server(f, "127.0.0.1", PORT);
    add_server(f, "127.0.0.2", PORT);
    upstream_configure(f->u, &f->gateway);
    int good = server(SOCK_DGRAM, "127.0.0.2", PORT);
    for (unsigned i = 1; i <= 3; i++) { /* the first finds that one is dead */
        ask(f, i, "api.example.com");
        take(f, good, &q);
        answer_to(&q, 0, false, 1, &m);
        send_to(good, &q, &m);
        run(f, WAIT, i);
    }
    ck_assert_uint_eq(stats_of(f).upstream_queries, 4);
    int back = server(SOCK_DGRAM, "127.0.0.1", PORT);
    run(f, 1200, 99); /* its time away is over */
    ask(f, 4, "api.example.com");
    take(f, good, &q);
    answer_to(&q, 0, false, 1, &m);
    send_to(good, &q, &m);
    run(f, WAIT, 4);
    ck_assert_uint_eq(f->answers, 4);
    take(f, back, &q); /* the probe */
    answer_to(&q, 0, false, 1, &m);
    send_to(back, &q, &m);
    run(f, 200, 99);
    ck_assert_uint_eq(f->answers, 4); /* it is no second answer */
    ck_assert_uint_eq(upstream_sockets(f->u), 0);
    close(good); /* and now it is what is left */
    ask(f, 5, "api.example.com");
    take(f, back, &q);
    answer_to(&q, 0, false, 1, &m);
    send_to(back, &q, &m);
    run(f, WAIT, 5);
    ck_assert_uint_eq(f->answers, 5);
    close(back);
    stop(f);
}
END_TEST

/* ---- ports, bounds ---------------------------------------------------------------------------- */

static unsigned distinct(uint16_t *values, unsigned count) {
    static uint8_t seen[65536];
    unsigned n = 0;
    memset(seen, 0, sizeof seen);
    for (unsigned i = 0; i < count; i++) {
        n += !seen[values[i]];
        seen[values[i]] = 1;
    }
    return n;
}

/* Chi-squared over 16 bins of the range: for 15 degrees of freedom over 60 has odds below 1 in a
 * million. */
static double unevenness(const uint16_t *values, unsigned count, unsigned low) {
    unsigned bins[16] = {0};
    double sum = 0, want = count / 16.0;
    for (unsigned i = 0; i < count; i++)
        bins[(values[i] - low) * 16u / (65536u - low)]++;
    for (unsigned i = 0; i < 16; i++)
        sum += (bins[i] - want) * (bins[i] - want) / want;
    return sum;
}

START_TEST(c35_ports_and_ids_over_1000_queries) {
    if (!loopback_enter("c35_ports_and_ids_over_1000_queries"))
        return;
    enum { QUERIES = 1000 };
    static struct message m;
    static uint16_t ports[QUERIES], ids[QUERIES];
    struct packet q;
    struct fixture *f = start(3 * USEC_PER_SEC, 64);
    add_server(f, "127.0.0.1", PORT);
    upstream_configure(f->u, &f->gateway);
    int fd = server(SOCK_DGRAM, "127.0.0.1", PORT);
    for (unsigned i = 0; i < QUERIES; i++) {
        ask(f, i + 1, "api.example.com");
        take(f, fd, &q);
        ports[i] = ntohs(((struct sockaddr_in *)&q.peer)->sin_port);
        ids[i] = (uint16_t)(q.bytes[0] << 8 | q.bytes[1]);
        answer_to(&q, 0, false, 1, &m);
        send_to(fd, &q, &m);
        run(f, WAIT, i + 1);
    }
    ck_assert_uint_eq(f->answers, QUERIES);
    /* By chance about 8 of 1,000 meet an earlier one. */
    ck_assert_uint_ge(distinct(ports, QUERIES), 960);
    ck_assert_uint_ge(distinct(ids, QUERIES), 960);
    ck_assert_double_lt(unevenness(ports, QUERIES, 1024), 60);
    ck_assert_double_lt(unevenness(ids, QUERIES, 0), 60);
    for (unsigned i = 0; i < QUERIES; i++)
        ck_assert_uint_ge(ports[i], 1024);
    close(fd);
    stop(f);
}
END_TEST

/* 100 at once over 8 sockets: each gets its own answer, and never more sockets than allowed. */
START_TEST(c35_parallel_questions_keep_apart) {
    if (!loopback_enter("c35_parallel_questions_keep_apart"))
        return;
    static struct message m;
    struct packet q;
    unsigned most = 0;
    struct fixture *f = start(5 * USEC_PER_SEC, 8);
    add_server(f, "127.0.0.1", PORT);
    upstream_configure(f->u, &f->gateway);
    int fd = server(SOCK_DGRAM, "127.0.0.1", PORT);
    for (unsigned i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "n%02u.example.com", i);
        ask(f, i + 1, name);
    }
    for (unsigned i = 0; i < 100; i++) {
        take(f, fd, &q);
        if (upstream_sockets(f->u) > most)
            most = upstream_sockets(f->u);
        unsigned number = (unsigned)(q.bytes[14] - '0') * 10 + (unsigned)(q.bytes[15] - '0');
        answer_to(&q, 0, false, number, &m); /* so many records */
        send_to(fd, &q, &m);
        run(f, WAIT, i + 1);
        ck_assert_uint_eq(f->answers, i + 1);
        ck_assert_uint_eq(f->records, number);
        ck_assert_uint_eq(f->last_id, number + 1);
    }
    ck_assert_uint_eq(most, 8);
    close(fd);
    stop(f);
}
END_TEST

START_TEST(cancelled_is_silent) {
    if (!loopback_enter("cancelled_is_silent"))
        return;
    static struct message m;
    struct packet q;
    struct fixture *f = start(2 * USEC_PER_SEC, 1);
    add_server(f, "127.0.0.1", PORT);
    upstream_configure(f->u, &f->gateway);
    int fd = server(SOCK_DGRAM, "127.0.0.1", PORT);
    ask(f, 1, "api.example.com");
    ask(f, 2, "waits.example.com"); /* for the only socket */
    ask(f, 3, "waits.example.com");
    take(f, fd, &q);
    upstream_cancel(f->u, 3);
    upstream_cancel(f->u, 1);
    upstream_cancel(f->u, 99);
    answer_to(&q, 0, false, 1, &m);
    (void)!sendto(fd, m.bytes, m.size, 0, (struct sockaddr *)&q.peer, q.peer_size);
    take(f, fd, &q);
    answer_to(&q, 0, false, 1, &m);
    send_to(fd, &q, &m);
    run(f, 600, 9);
    ck_assert_uint_eq(f->answers, 1);
    ck_assert_uint_eq(f->last_id, 2);
    ck_assert_uint_eq(f->failures, 0);
    close(fd);
    stop(f);
}
END_TEST

START_TEST(tls_upstreams_are_not_asked_in_the_clear) {
    if (!loopback_enter("tls_upstreams_are_not_asked_in_the_clear"))
        return;
    struct packet q;
    struct fixture *f = start(USEC_PER_SEC, 16);
    add_server(f, "127.0.0.1", PORT);
    memcpy(f->gateway.upstreams[0].tls_name, "dns.example.net", 16);
    ck_assert_uint_eq(upstream_configure(f->u, &f->gateway), 0);
    int fd = server(SOCK_DGRAM, "127.0.0.1", PORT);
    ask(f, 1, "api.example.com");
    run(f, WAIT, 1);
    ck_assert_uint_eq(f->failures, 1);
    ck_assert(!take_within(f, fd, &q, 50));
    close(fd);
    stop(f);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("upstream failover");
    TCase *all = tcase_create("loopback");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, failover_silence);
    tcase_add_test(all, failover_late_answer_counts);
    tcase_add_test(all, failover_unreachable);
    tcase_add_test(all, all_unreachable_fails_at_once);
    tcase_add_test(all, silence_ends_with_the_budget);
    tcase_add_test(all, errors_fail_over_then_fail);
    tcase_add_test(all, dead_server_is_probed);
    tcase_add_test(all, c35_ports_and_ids_over_1000_queries);
    tcase_add_test(all, c35_parallel_questions_keep_apart);
    tcase_add_test(all, cancelled_is_silent);
    tcase_add_test(all, tls_upstreams_are_not_asked_in_the_clear);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
