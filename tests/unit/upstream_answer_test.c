/* upstream_answer_test.c: questions to real sockets on loopback: what leaves, what is taken for an answer,
 * and what is not, over UDP and TCP.
 */
#include "tests/unit/upstream_peer.h"

/* ---- answers ---------------------------------------------------------------------------------- */

static void answers_over(const char *address) {
    static struct message m;
    struct packet q;
    struct fixture *f = start(2 * USEC_PER_SEC, 16);
    add_server(f, address, PORT);
    ck_assert_uint_eq(upstream_configure(f->u, &f->gateway), 1);
    int fd = server(SOCK_DGRAM, address, PORT);
    ask(f, 7, "api.example.com");
    take(f, fd, &q);
    answer_to(&q, 0, false, 2, &m);
    send_to(fd, &q, &m);
    run(f, WAIT, 1);
    ck_assert_uint_eq(f->answers, 1);
    ck_assert_uint_eq(f->last_id, 7);
    ck_assert_uint_eq(f->records, 2);
    ck_assert(addr_equal(&f->from, &f->gateway.upstreams[0].address));
    close(fd);
    stop(f);
}

START_TEST(answer_ipv4) {
    if (loopback_enter("answer_ipv4"))
        answers_over("127.0.0.1");
}
END_TEST

START_TEST(answer_ipv6) {
    if (loopback_enter("answer_ipv6"))
        answers_over("::1");
}
END_TEST

/* Nothing leaves but an allowed name in lower case, type, class and our own OPT. */
START_TEST(c16_query_holds_nothing_else) {
    if (!loopback_enter("c16_query_holds_nothing_else"))
        return;
    struct packet q;
    struct fixture *f = start(USEC_PER_SEC, 16);
    add_server(f, "127.0.0.1", PORT);
    upstream_configure(f->u, &f->gateway);
    int fd = server(SOCK_DGRAM, "127.0.0.1", PORT);
    ask(f, 1, "ExAmPlE.com");
    take(f, fd, &q);
    static const uint8_t want[] = {0x01, 0, 0, 1, 0, 0, 0, 0, 0, 1, 7, 'e', 'x', 'a', 'm', 'p', 'l',
                                   'e', 3, 'c', 'o', 'm', 0, 0, 1, 0, 1, 0, 0, 41, 0x04, 0xd0, 0, 0,
                                   0, 0, 0, 0};
    ck_assert_uint_eq(q.size, 2 + sizeof want);
    ck_assert_mem_eq(q.bytes + 2, want, sizeof want);
    upstream_cancel(f->u, 1);
    close(fd);
    stop(f);
}
END_TEST

typedef void (*spoil_fn)(int fd, const struct packet *q, struct message *m);

/* Something that is not the answer arrives first; then the answer. Only that counts. */
static void dropped_then_taken(spoil_fn spoil, unsigned counted) {
    static struct message m;
    struct packet q;
    struct fixture *f = start(2 * USEC_PER_SEC, 16);
    add_server(f, "127.0.0.1", PORT);
    upstream_configure(f->u, &f->gateway);
    int fd = server(SOCK_DGRAM, "127.0.0.1", PORT);
    ask(f, 1, "api.example.com");
    take(f, fd, &q);
    answer_to(&q, 0, false, 5, &m);
    spoil(fd, &q, &m);
    if (counted == 0)
        run(f, 100, 1);
    for (uint64_t end = now_ms() + WAIT; stats_of(f).upstream_mismatched < counted && now_ms() < end;)
        run(f, 1, 1);
    ck_assert_uint_eq(f->answers + f->failures, 0);
    answer_to(&q, 0, false, 2, &m);
    send_to(fd, &q, &m);
    run(f, WAIT, 1);
    ck_assert_uint_eq(f->answers, 1);
    ck_assert_uint_eq(f->records, 2);
    ck_assert_uint_eq(stats_of(f).upstream_mismatched, counted);
    ck_assert_uint_eq(stats_of(f).upstream_queries, 1);
    close(fd);
    stop(f);
}

static void spoil_id(int fd, const struct packet *q, struct message *m) {
    for (unsigned i = 1; i < 4; i++) {
        m->bytes[1] = (uint8_t)(q->bytes[1] + i);
        send_to(fd, q, m);
    }
}
static void spoil_question(int fd, const struct packet *q, struct message *m) {
    m->bytes[13] = 'x';
    send_to(fd, q, m);
}
static void spoil_type(int fd, const struct packet *q, struct message *m) {
    m->bytes[q->size - 11 - 3] = 28;
    send_to(fd, q, m);
}
static void spoil_query(int fd, const struct packet *q, struct message *m) {
    m->bytes[2] &= 0x7f;
    send_to(fd, q, m);
}
static void spoil_cut(int fd, const struct packet *q, struct message *m) {
    m->size = 20;
    send_to(fd, q, m);
    m->size = 0;
    send_to(fd, q, m);
}
static void spoil_loop(int fd, const struct packet *q, struct message *m) {
    size_t at = q->size - 11; /* the first record's owner, made to point to itself */
    m->bytes[at] = (uint8_t)(0xc0 | at >> 8);
    m->bytes[at + 1] = (uint8_t)at;
    send_to(fd, q, m);
}
/* Right in all but where it comes from: another port, another address. */
static void spoil_source(int fd, const struct packet *q, struct message *m) {
    (void)fd;
    int other = server(SOCK_DGRAM, "127.0.0.1", PORT + 1);
    int elsewhere = server(SOCK_DGRAM, "127.0.0.2", PORT);
    send_to(other, q, m);
    send_to(elsewhere, q, m);
    close(other);
    close(elsewhere);
}

static const struct { const char *name; spoil_fn spoil; unsigned counted; } spoils[] = {
    {"id", spoil_id, 3},       {"question", spoil_question, 1}, {"type", spoil_type, 1},
    {"query", spoil_query, 1}, {"cut", spoil_cut, 2},           {"loop", spoil_loop, 1},
    {"source", spoil_source, 0}};

START_TEST(c33_not_the_answer) {
    if (loopback_enter("c33_not_the_answer"))
        dropped_then_taken(spoils[_i].spoil, spoils[_i].counted);
}
END_TEST

START_TEST(c33_late_and_duplicate) {
    if (!loopback_enter("c33_late_and_duplicate"))
        return;
    static struct message m;
    struct packet q;
    struct fixture *f = start(2 * USEC_PER_SEC, 16);
    add_server(f, "127.0.0.1", PORT);
    upstream_configure(f->u, &f->gateway);
    int fd = server(SOCK_DGRAM, "127.0.0.1", PORT);
    ask(f, 1, "api.example.com");
    take(f, fd, &q);
    answer_to(&q, 0, false, 1, &m);
    send_to(fd, &q, &m);
    send_to(fd, &q, &m);
    run(f, 200, 9);
    ck_assert_uint_eq(f->answers, 1);
    ssize_t late = sendto(fd, m.bytes, m.size, 0, (struct sockaddr *)&q.peer, q.peer_size);
    (void)late; /* the socket is gone: it may well be refused */
    run(f, 100, 9);
    ck_assert_uint_eq(f->answers, 1);
    close(fd);
    stop(f);
}
END_TEST

/* ---- TCP -------------------------------------------------------------------------------------- */

static int accept_within(struct fixture *f, int fd) {
    uint64_t end = now_ms() + WAIT;
    while (now_ms() < end) {
        int c = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (c >= 0)
            return c;
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(500);
    }
    ck_abort_msg("no connection came");
    return -1;
}

static void take_stream(struct fixture *f, int fd, struct packet *q) {
    uint8_t bytes[4096];
    size_t used = 0;
    uint64_t end = now_ms() + WAIT;
    while (now_ms() < end) {
        ssize_t got = recv(fd, bytes + used, sizeof bytes - used, 0);
        used += got > 0 ? (size_t)got : 0;
        if (used >= 2 && used == 2 + ((size_t)bytes[0] << 8 | bytes[1])) {
            q->size = used - 2;
            memcpy(q->bytes, bytes + 2, q->size);
            return;
        }
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(500);
    }
    ck_abort_msg("no whole query came");
}

/* The length prefix and the rest in pieces. */
static void send_stream(struct fixture *f, int fd, const struct message *m, size_t piece) {
    static uint8_t bytes[70002];
    bytes[0] = (uint8_t)(m->size >> 8);
    bytes[1] = (uint8_t)m->size;
    memcpy(bytes + 2, m->bytes, m->size);
    for (size_t at = 0; at < m->size + 2;) {
        size_t size = m->size + 2 - at < piece ? m->size + 2 - at : piece;
        ssize_t put = send(fd, bytes + at, size, MSG_NOSIGNAL);
        at += put > 0 ? (size_t)put : 0;
        if (put < 0 && errno != EAGAIN)
            return;
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
}

static void truncated_then_tcp(const char *address) {
    static struct message m;
    struct packet q, again;
    struct fixture *f = start(3 * USEC_PER_SEC, 16);
    add_server(f, address, PORT);
    upstream_configure(f->u, &f->gateway);
    int udp = server(SOCK_DGRAM, address, PORT), tcp = server(SOCK_STREAM, address, PORT);
    ask(f, 1, "many.example.com");
    take(f, udp, &q);
    answer_to(&q, 0, true, 1, &m); /* what is in a truncated answer does not count */
    send_to(udp, &q, &m);
    int c = accept_within(f, tcp);
    take_stream(f, c, &again);
    ck_assert_uint_eq(again.size, q.size);
    ck_assert_mem_eq(again.bytes + 2, q.bytes + 2, q.size - 2);
    answer_to(&again, 0, false, 900, &m);
    send_stream(f, c, &m, 1);
    run(f, WAIT, 1);
    ck_assert_uint_eq(f->answers, 1);
    ck_assert_uint_eq(f->records, 900);
    close(c);
    close(udp);
    close(tcp);
    stop(f);
}

START_TEST(c25_truncated_ipv4) {
    if (loopback_enter("c25_truncated_ipv4"))
        truncated_then_tcp("127.0.0.1");
}
END_TEST

START_TEST(c25_truncated_ipv6) {
    if (loopback_enter("c25_truncated_ipv6"))
        truncated_then_tcp("::1");
}
END_TEST

/* The connection ends early, or carries something else: the next server is asked. */
static void bad_stream(int how) {
    static struct message m;
    struct packet q, again;
    struct fixture *f = start(3 * USEC_PER_SEC, 16);
    add_server(f, "127.0.0.1", PORT);
    add_server(f, "127.0.0.2", PORT);
    upstream_configure(f->u, &f->gateway);
    int udp = server(SOCK_DGRAM, "127.0.0.1", PORT), tcp = server(SOCK_STREAM, "127.0.0.1", PORT);
    int other = server(SOCK_DGRAM, "127.0.0.2", PORT);
    ask(f, 1, "many.example.com");
    take(f, udp, &q);
    answer_to(&q, 0, true, 0, &m);
    send_to(udp, &q, &m);
    int c = accept_within(f, tcp);
    take_stream(f, c, &again);
    answer_to(&again, 0, how == 3, 3, &m);
    if (how == 1)
        m.bytes[0] ^= 1;
    if (how == 2)
        m.size = 30;
    if (how > 0)
        send_stream(f, c, &m, 70000);
    if (how == 0)
        close(c);
    take(f, other, &q);
    answer_to(&q, 0, false, 4, &m);
    send_to(other, &q, &m);
    run(f, WAIT, 1);
    ck_assert_uint_eq(f->answers, 1);
    ck_assert_uint_eq(f->records, 4);
    if (how > 0)
        close(c);
    close(udp);
    close(tcp);
    close(other);
    stop(f);
}

START_TEST(c33_bad_stream) {
    if (loopback_enter("c33_bad_stream"))
        bad_stream(_i);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("upstream answers");
    TCase *all = tcase_create("loopback");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, answer_ipv4);
    tcase_add_test(all, answer_ipv6);
    tcase_add_test(all, c16_query_holds_nothing_else);
    tcase_add_loop_test(all, c33_not_the_answer, 0, (int)(sizeof spoils / sizeof *spoils));
    tcase_add_test(all, c33_late_and_duplicate);
    tcase_add_test(all, c25_truncated_ipv4);
    tcase_add_test(all, c25_truncated_ipv6);
    tcase_add_loop_test(all, c33_bad_stream, 0, 4);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
