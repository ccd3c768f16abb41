/* upstream_test.c: questions to real sockets on loopback: what is taken for an answer, when the next
 * server is asked, what leaves.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <uv.h>

#include "gateway/base/clock.h"
#include "resolver/upstream/server.h"
#include "resolver/upstream/upstream.h"
#include "tests/unit/dns_message.h"
#include "tests/unit/loopback.h"

#define PORT 5300
#define SECOND 1000 /* ms */

struct fixture {
    uv_loop_t loop;
    struct upstream *u;
    struct policy_gateway gateway;
    unsigned answers, failures;
    uint64_t last_id;
    enum reason reason;
    unsigned rcode, records;
    struct addr from;
};

struct packet {
    uint8_t bytes[4096];
    size_t size;
    struct sockaddr_storage peer;
    socklen_t peer_size;
};

static void on_answer(void *ctx, uint64_t id, const struct wire_answer *a, const struct addr *from) {
    struct fixture *f = ctx;
    f->answers++;
    f->last_id = id;
    f->rcode = a->rcode;
    f->records = a->count;
    f->from = *from;
}

static void on_failed(void *ctx, uint64_t id, enum reason reason) {
    struct fixture *f = ctx;
    f->failures++;
    f->last_id = id;
    f->reason = reason;
}

static void add_server(struct fixture *f, const char *address, uint16_t port) {
    unsigned i = f->gateway.upstream_count++;
    ck_assert_int_eq(addr_parse(address, &f->gateway.upstreams[i].address), 0);
    f->gateway.upstreams[i].port = port;
}

static struct fixture *start(usec_t budget, unsigned sockets) {
    struct fixture *f = calloc(1, sizeof *f);
    struct upstream_limits limits = {.budget = budget, .sockets = sockets};
    struct upstream_events events = {.answer = on_answer, .failed = on_failed, .ctx = f};
    uv_loop_init(&f->loop);
    f->u = upstream_new(&f->loop, &clock_system, &limits, &events);
    ck_assert_ptr_nonnull(f->u);
    return f;
}

static void stop(struct fixture *f) {
    ck_assert_uint_eq(upstream_sockets(f->u), 0);
    upstream_close(f->u);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&f->loop), 0);
    free(f);
}

static void ask(struct fixture *f, uint64_t id, const char *name) {
    struct name n = name_of(name);
    upstream_ask(f->u, id, &n, 1);
}

static uint64_t now_ms(void) { return clock_now(&clock_system) / 1000; }

/* Runs the loop for that long, or until `answers` and `failures` reach so many. */
static void run(struct fixture *f, unsigned ms, unsigned events) {
    uint64_t end = now_ms() + ms;
    while (now_ms() < end && f->answers + f->failures < events) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(500);
    }
}

static int server(int type, const char *address, uint16_t port) {
    struct addr a;
    struct sockaddr_storage sa;
    int one = 1;
    ck_assert_int_eq(addr_parse(address, &a), 0);
    socklen_t size = addr_to_sockaddr(&a, port, &sa);
    int fd = socket(a.family == 6 ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, size), 0);
    if (type == SOCK_STREAM)
        ck_assert_int_eq(listen(fd, 64), 0);
    return fd;
}

static bool take_within(struct fixture *f, int fd, struct packet *p, unsigned ms) {
    uint64_t end = now_ms() + ms;
    do {
        p->peer_size = sizeof p->peer;
        ssize_t got = recvfrom(fd, p->bytes, sizeof p->bytes, 0, (struct sockaddr *)&p->peer,
                               &p->peer_size);
        if (got >= 0) {
            p->size = (size_t)got;
            return true;
        }
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(500);
    } while (now_ms() < end);
    return false;
}

static void take(struct fixture *f, int fd, struct packet *p) {
    ck_assert_msg(take_within(f, fd, p, 3 * SECOND), "no query came");
}

/* An answer to it with `count` addresses. */
static void answer_to(const struct packet *query, unsigned rcode, bool truncated, unsigned count,
                      struct message *m) {
    put_header(m, (unsigned)query->bytes[0] << 8 | query->bytes[1],
               0x8180u | rcode | (truncated ? 0x0200u : 0), 1, count, 0, 0);
    size_t question = query->size - 12 - 11; /* without the OPT */
    put(m, query->bytes + 12, question);
    for (unsigned i = 0; i < count; i++) {
        uint8_t address[4] = {5, 5, (uint8_t)(i >> 8), (uint8_t)i};
        put_pointer(m, 12);
        size_t at = rdata_begin(m, 1, 1, 60);
        put(m, address, 4);
        rdata_end(m, at);
    }
}

static void send_to(int fd, const struct packet *to, const struct message *m) {
    ck_assert_int_eq(sendto(fd, m->bytes, m->size, 0, (const struct sockaddr *)&to->peer,
                            to->peer_size), (int)m->size);
}

static struct msg_stats stats_of(struct fixture *f) {
    struct msg_stats s = {0};
    upstream_stats(f->u, &s);
    return s;
}

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
    run(f, SECOND, 1);
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
    run(f, 100, 1);
    ck_assert_uint_eq(f->answers + f->failures, 0);
    answer_to(&q, 0, false, 2, &m);
    send_to(fd, &q, &m);
    run(f, SECOND, 1);
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
    uint64_t end = now_ms() + 3 * SECOND;
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
    uint64_t end = now_ms() + 3 * SECOND;
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
    run(f, 2 * SECOND, 1);
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
    run(f, 2 * SECOND, 1);
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
    run(f, SECOND, 1);
    ck_assert_uint_eq(f->answers, 1);
    ck_assert_uint_eq(stats_of(f).upstream_timeouts, 1);
    /* From now on the good one is first. */
    begin = now_ms();
    ask(f, 2, "api.example.com");
    take(f, good, &q);
    ck_assert_uint_lt(now_ms() - begin, 200);
    answer_to(&q, 0, false, 1, &m);
    send_to(good, &q, &m);
    run(f, SECOND, 2);
    ck_assert_uint_eq(f->answers, 2);
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
    run(f, SECOND, 1);
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
    uint64_t begin = now_ms();
    ask(f, 1, "api.example.com");
    take(f, good, &q);
    ck_assert_uint_lt(now_ms() - begin, 200);
    answer_to(&q, 0, false, 1, &m);
    send_to(good, &q, &m);
    run(f, SECOND, 1);
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
    uint64_t begin = now_ms();
    ask(f, 9, "api.example.com");
    ck_assert_uint_eq(f->failures, 0); /* never from within the call */
    run(f, 2 * SECOND, 1);
    ck_assert_uint_eq(f->failures, 1);
    ck_assert_uint_eq(f->last_id, 9);
    ck_assert_int_eq(f->reason, REASON_UPSTREAM_NETWORK);
    ck_assert_uint_lt(now_ms() - begin, 500);
    stop(f);
}
END_TEST

START_TEST(silence_ends_with_the_budget) {
    if (!loopback_enter("silence_ends_with_the_budget"))
        return;
    struct packet q;
    unsigned queries = 0;
    struct fixture *f = start(1500 * USEC_PER_MSEC, 16);
    add_server(f, "127.0.0.1", PORT);
    upstream_configure(f->u, &f->gateway);
    int fd = server(SOCK_DGRAM, "127.0.0.1", PORT);
    uint64_t begin = now_ms();
    ask(f, 1, "api.example.com");
    while (f->failures == 0 && now_ms() - begin < 3 * SECOND)
        queries += take_within(f, fd, &q, 50);
    ck_assert_uint_eq(f->failures, 1);
    ck_assert_int_eq(f->reason, REASON_UPSTREAM_TIMEOUT);
    ck_assert_uint_ge(now_ms() - begin, 1450);
    ck_assert_uint_lt(now_ms() - begin, 1900);
    ck_assert_uint_eq(queries, 3); /* at 0, 0.4 and 1.2 s */
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
    uint64_t begin = now_ms();
    ask(f, 1, "api.example.com");
    take(f, one, &q);
    answer_to(&q, 2, false, 0, &m);
    send_to(one, &q, &m);
    take(f, two, &q);
    answer_to(&q, 5, false, 0, &m);
    send_to(two, &q, &m);
    run(f, SECOND, 1);
    ck_assert_uint_eq(f->failures, 1);
    ck_assert_int_eq(f->reason, REASON_UPSTREAM_ERROR);
    ck_assert_uint_lt(now_ms() - begin, 300);
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
        run(f, SECOND, i);
    }
    ck_assert_uint_eq(stats_of(f).upstream_queries, 4);
    int back = server(SOCK_DGRAM, "127.0.0.1", PORT);
    run(f, 1200, 99); /* its time away is over */
    ask(f, 4, "api.example.com");
    take(f, good, &q);
    answer_to(&q, 0, false, 1, &m);
    send_to(good, &q, &m);
    run(f, SECOND, 4);
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
    run(f, SECOND, 5);
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
        run(f, SECOND, i + 1);
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
        run(f, SECOND, i + 1);
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
    run(f, SECOND, 1);
    ck_assert_uint_eq(f->failures, 1);
    ck_assert(!take_within(f, fd, &q, 50));
    close(fd);
    stop(f);
}
END_TEST

/* ---- choice ----------------------------------------------------------------------------------- */

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
    ck_assert_int_eq(servers_choose(&s, 0, 0), 1);
    ck_assert_int_eq(servers_choose(&s, 2, 0), 0);
    ck_assert_int_eq(servers_choose(&s, 3, 0), -1);
    /* The slow one is measured again some day. */
    int turns = 0;
    while (servers_choose(&s, 0, 0) == 1 && turns < 1000)
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
    ck_assert_int_eq(servers_choose(&s, 0, now), 1);
    ck_assert_int_eq(servers_choose(&s, 2, now), 0); /* better than none */
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
    Suite *suite = suite_create("upstream");
    TCase *net = tcase_create("loopback"), *choice = tcase_create("choice");
    tcase_set_timeout(net, 60);
    tcase_add_test(net, answer_ipv4);
    tcase_add_test(net, answer_ipv6);
    tcase_add_test(net, c16_query_holds_nothing_else);
    tcase_add_loop_test(net, c33_not_the_answer, 0, (int)(sizeof spoils / sizeof *spoils));
    tcase_add_test(net, c33_late_and_duplicate);
    tcase_add_test(net, c25_truncated_ipv4);
    tcase_add_test(net, c25_truncated_ipv6);
    tcase_add_loop_test(net, c33_bad_stream, 0, 4);
    tcase_add_test(net, failover_silence);
    tcase_add_test(net, failover_late_answer_counts);
    tcase_add_test(net, failover_unreachable);
    tcase_add_test(net, all_unreachable_fails_at_once);
    tcase_add_test(net, silence_ends_with_the_budget);
    tcase_add_test(net, errors_fail_over_then_fail);
    tcase_add_test(net, dead_server_is_probed);
    tcase_add_test(net, c35_ports_and_ids_over_1000_queries);
    tcase_add_test(net, c35_parallel_questions_keep_apart);
    tcase_add_test(net, cancelled_is_silent);
    tcase_add_test(net, tls_upstreams_are_not_asked_in_the_clear);
    tcase_add_test(choice, choice_fastest_first);
    tcase_add_test(choice, choice_dead_comes_last);
    tcase_add_test(choice, choice_reload_keeps_what_is_known);
    suite_add_tcase(suite, net);
    suite_add_tcase(suite, choice);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
