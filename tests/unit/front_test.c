/* front_test.c: the listeners on real sockets: whose address replies carry, framing, pipelining, slow
 * and idle clients, bounds.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ipv6.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <uv.h>

#include "gateway/base/clock.h"
#include "resolver/front/front.h"
#include "tests/unit/loopback.h"

#define PORT 5353
#define QUERIES_MAX 600
#define SECOND 1000
#define WAIT (20 * SECOND) /* for what must come, on a busy machine too */

struct taken { struct flow_peer peer; uint8_t bytes[64]; size_t size; bool answered; };

struct fixture {
    uv_loop_t loop;
    struct front *front;
    struct taken queries[QUERIES_MAX];
    unsigned count;
    bool hold;       /* keep queries for later instead of answering at once */
    bool refuse;     /* as if the engine dropped them */
    size_t reply;    /* octets of a reply; 0: echo */
};

static bool on_query(void *ctx, const struct flow_peer *peer, const uint8_t *bytes, size_t size) {
    struct fixture *f = ctx;
    ck_assert_uint_lt(f->count, QUERIES_MAX);
    struct taken *t = &f->queries[f->count++];
    t->peer = *peer;
    t->size = size;
    t->answered = f->refuse;
    memcpy(t->bytes, bytes, size < sizeof t->bytes ? size : sizeof t->bytes);
    return !f->refuse;
}

static void answer(struct fixture *f, unsigned i) {
    struct taken *t = &f->queries[i];
    size_t room;
    uint8_t *out = front_room(f->front, &t->peer, &room);
    t->answered = true;
    if (!out)
        return;
    size_t size = f->reply ? f->reply : t->size;
    ck_assert_uint_le(size, room);
    memset(out, 0, size);
    memcpy(out, t->bytes, t->size < sizeof t->bytes ? t->size : sizeof t->bytes);
    front_send(f->front, &t->peer, size);
}

static void on_idle(void *ctx) {
    struct fixture *f = ctx;
    for (unsigned i = 0; !f->hold && i < f->count; i++)
        if (!f->queries[i].answered)
            answer(f, i);
    front_flush(f->front);
}

static int bound(int family, int type) {
    int on = 1, fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_storage sa = {.ss_family = (sa_family_t)family};
    ck_assert_int_ge(fd, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    ((struct sockaddr_in *)&sa)->sin_port = htons(PORT); /* the port is in the same place in both */
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                         : sizeof(struct sockaddr_in)),
                     0);
    if (type == SOCK_STREAM)
        ck_assert_int_eq(listen(fd, 64), 0);
    return fd;
}

static struct fixture *start(const struct front_limits *limits) {
    struct fixture *f = calloc(1, sizeof *f);
    struct front_sink sink = {.query = on_query, .idle = on_idle, .ctx = f};
    struct front_sockets sockets = {
        .udp = {bound(AF_INET, SOCK_DGRAM), bound(AF_INET6, SOCK_DGRAM)},
        .tcp = {bound(AF_INET, SOCK_STREAM), bound(AF_INET6, SOCK_STREAM)}};
    uv_loop_init(&f->loop);
    f->front = front_new(&f->loop, &clock_system, limits ? limits : &front_limits_default, &sockets,
                         &sink);
    ck_assert_ptr_nonnull(f->front);
    return f;
}

static void stop(struct fixture *f) {
    front_close(f->front);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&f->loop), 0);
    free(f);
}

static uint64_t now_ms(void) { return clock_now(&clock_system) / 1000; }

static void run(struct fixture *f, unsigned ms) {
    uint64_t end = now_ms() + ms;
    do {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(300);
    } while (now_ms() < end);
}

static void run_until(struct fixture *f, unsigned count) {
    uint64_t end = now_ms() + WAIT;
    while (f->count < count && now_ms() < end)
        run(f, 1);
    ck_assert_uint_eq(f->count, count);
}

static void run_until_connected(struct fixture *f, unsigned connections) {
    uint64_t end = now_ms() + WAIT;
    while (front_connections(f->front) != connections && now_ms() < end)
        run(f, 1);
    ck_assert_uint_eq(front_connections(f->front), connections);
}

static int client_from(int type, const char *source, const char *to) {
    struct addr a;
    struct sockaddr_storage sa;
    ck_assert_int_eq(addr_parse(to, &a), 0);
    int fd = socket(a.family == 6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    if (source) {
        struct addr s;
        ck_assert_int_eq(addr_parse(source, &s), 0);
        socklen_t size = addr_to_sockaddr(&s, 0, &sa);
        ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, size), 0);
    }
    socklen_t size = addr_to_sockaddr(&a, PORT, &sa);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&sa, size), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static int client(int type, const char *to) { return client_from(type, NULL, to); }

/* Exactly `size` octets, or fewer at the end of the stream or when nothing more comes. */
static size_t receive(struct fixture *f, int fd, uint8_t *bytes, size_t size) {
    size_t used = 0;
    uint64_t end = now_ms() + WAIT;
    while (used < size && now_ms() < end) {
        ssize_t got = recv(fd, bytes + used, size - used, 0);
        if (got == 0)
            break;
        if (got > 0)
            used += (size_t)got;
        else if (errno != EAGAIN)
            break;
        run(f, 0);
    }
    return used;
}

static bool ended(struct fixture *f, int fd) {
    uint8_t byte;
    uint64_t end = now_ms() + WAIT;
    while (now_ms() < end) {
        ssize_t got = recv(fd, &byte, 1, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return true;
        run(f, 5);
    }
    return false;
}

/* Query number `n` with its length prefix. */
static size_t frame(uint8_t *out, unsigned n) {
    memset(out, 0, 22);
    out[1] = 20;
    out[2] = (uint8_t)(n >> 8);
    out[3] = (uint8_t)n;
    return 22;
}

static void add_address6(const char *text) {
    struct in6_ifreq request = {.ifr6_prefixlen = 128};
    struct addr a;
    struct ifreq index = {.ifr_name = "lo"};
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    ck_assert_int_eq(addr_parse(text, &a), 0);
    ck_assert_int_eq(ioctl(fd, SIOCGIFINDEX, &index), 0);
    request.ifr6_ifindex = index.ifr_ifindex;
    memcpy(&request.ifr6_addr, a.bytes, 16);
    ck_assert_int_eq(ioctl(fd, SIOCSIFADDR, &request), 0);
    close(fd);
}

/* ---- UDP -------------------------------------------------------------------------------------- */

/* The client's socket is connected, so a reply from another address would not arrive. */
static void answered_from(struct fixture *f, const char *address) {
    uint8_t query[30] = {1, 2, 3}, got[100];
    int fd = client(SOCK_DGRAM, address);
    struct addr a;
    addr_parse(address, &a);
    unsigned before = f->count;
    ck_assert_int_eq(send(fd, query, sizeof query, 0), sizeof query);
    run_until(f, before + 1);
    ck_assert(addr_equal(&f->queries[before].peer.local, &a));
    ck_assert_uint_eq(f->queries[before].peer.interface, 1);
    ck_assert_uint_eq(receive(f, fd, got, sizeof query), sizeof query);
    ck_assert_mem_eq(got, query, sizeof query);
    close(fd);
}

START_TEST(udp_replies_from_the_address_asked) {
    if (!loopback_enter("udp_replies_from_the_address_asked"))
        return;
    struct fixture *f = start(NULL);
    add_address6("fd00::53");
    answered_from(f, "127.0.0.1");
    answered_from(f, "127.0.0.77");
    answered_from(f, "::1");
    answered_from(f, "fd00::53");
    stop(f);
}
END_TEST

START_TEST(udp_batches) {
    if (!loopback_enter("udp_batches"))
        return;
    struct fixture *f = start(NULL);
    int fds[2] = {client(SOCK_DGRAM, "127.0.0.1"), client(SOCK_DGRAM, "::1")};
    uint8_t bytes[64];
    for (unsigned i = 0; i < 300; i++) {
        frame(bytes, i);
        ck_assert_int_eq(send(fds[i % 2], bytes, 22, 0), 22);
    }
    run_until(f, 300);
    for (unsigned i = 0; i < 300; i++) {
        ck_assert_uint_eq(receive(f, fds[i % 2], bytes, 22), 22);
        ck_assert_uint_eq(bytes[2] * 256u + bytes[3], i);
    }
    close(fds[0]);
    close(fds[1]);
    stop(f);
}
END_TEST

START_TEST(udp_impossible_datagrams) {
    if (!loopback_enter("udp_impossible_datagrams"))
        return;
    static uint8_t big[9000];
    struct fixture *f = start(NULL);
    int fd = client(SOCK_DGRAM, "127.0.0.1");
    ck_assert_int_eq(send(fd, big, sizeof big, 0), sizeof big); /* longer than any query */
    ck_assert_int_eq(send(fd, big, 0, 0), 0);
    ck_assert_int_eq(send(fd, big, 12, 0), 12);
    run(f, 50);
    ck_assert_uint_eq(f->count, 2);
    ck_assert_uint_eq(f->queries[0].size, 0);
    ck_assert_uint_eq(f->queries[1].size, 12);
    close(fd);
    stop(f);
}
END_TEST

/* ---- TCP -------------------------------------------------------------------------------------- */

static void pipelined(const char *address, size_t piece) {
    enum { COUNT = 50 };
    uint8_t out[COUNT * 22], got[COUNT * 22];
    struct fixture *f = start(NULL);
    int fd = client(SOCK_STREAM, address), on = 1;
    size_t size = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (unsigned i = 0; i < COUNT; i++)
        size += frame(out + size, i);
    for (size_t at = 0; at < size; at += piece) {
        size_t part = size - at < piece ? size - at : piece;
        ck_assert_int_eq(send(fd, out + at, part, 0), (int)part);
        run(f, 0);
    }
    run_until(f, COUNT);
    ck_assert_uint_eq(receive(f, fd, got, size), size);
    ck_assert_mem_eq(got, out, size);
    close(fd);
    stop(f);
}

START_TEST(c26_pipelined_in_pieces) {
    static const size_t pieces[] = {1, 3, 23, 100000};
    if (loopback_enter("c26_pipelined_in_pieces"))
        pipelined(_i % 2 ? "::1" : "127.0.0.1", pieces[_i]);
}
END_TEST

START_TEST(c26_out_of_order) {
    if (!loopback_enter("c26_out_of_order"))
        return;
    uint8_t out[3 * 22], got[3 * 22];
    struct fixture *f = start(NULL);
    int fd = client(SOCK_STREAM, "127.0.0.1");
    f->hold = true;
    for (unsigned i = 0; i < 3; i++)
        frame(out + 22 * i, i);
    ck_assert_int_eq(send(fd, out, sizeof out, 0), sizeof out);
    run_until(f, 3);
    answer(f, 2);
    answer(f, 0);
    answer(f, 1);
    ck_assert_uint_eq(receive(f, fd, got, sizeof got), sizeof got);
    ck_assert_uint_eq(got[3], 2);
    ck_assert_uint_eq(got[22 + 3], 0);
    ck_assert_uint_eq(got[44 + 3], 1);
    close(fd);
    stop(f);
}
END_TEST

/* The client has said all it will say; what it asked is still answered, then the connection ends. */
START_TEST(c26_half_close) {
    if (!loopback_enter("c26_half_close"))
        return;
    uint8_t out[44], got[44];
    struct fixture *f = start(NULL);
    int fd = client(SOCK_STREAM, "::1");
    f->hold = true;
    frame(out, 1);
    frame(out + 22, 2);
    ck_assert_int_eq(send(fd, out, 44, 0), 44);
    shutdown(fd, SHUT_WR);
    run_until(f, 2);
    run(f, 50);
    ck_assert_uint_eq(front_connections(f->front), 1);
    answer(f, 1);
    answer(f, 0);
    ck_assert_uint_eq(receive(f, fd, got, 44), 44);
    ck_assert(ended(f, fd));
    ck_assert_uint_eq(front_connections(f->front), 0);
    close(fd);
    /* With nothing asked it ends at once; half a frame is nothing. */
    fd = client(SOCK_STREAM, "127.0.0.1");
    ck_assert_int_eq(send(fd, out, 9, 0), 9);
    shutdown(fd, SHUT_WR);
    ck_assert(ended(f, fd));
    close(fd);
    /* Nor does a query that is dropped keep it. */
    f->refuse = true;
    fd = client(SOCK_STREAM, "127.0.0.1");
    ck_assert_int_eq(send(fd, out, 22, 0), 22);
    shutdown(fd, SHUT_WR);
    ck_assert(ended(f, fd));
    close(fd);
    stop(f);
}
END_TEST

/* Sixteen in flight; the next ones wait in the buffer for replies to earlier ones, half-closed or not. */
START_TEST(c26_many_in_flight) {
    enum { COUNT = 40 };
    if (!loopback_enter("c26_many_in_flight"))
        return;
    uint8_t out[COUNT * 22], got[22];
    struct fixture *f = start(NULL);
    f->hold = true;
    int fd = client(SOCK_STREAM, "127.0.0.1");
    for (unsigned i = 0; i < COUNT; i++)
        frame(out + 22 * i, i);
    ck_assert_int_eq(send(fd, out, sizeof out, 0), sizeof out);
    shutdown(fd, SHUT_WR);
    run_until(f, 16);
    run(f, 50);
    ck_assert_uint_eq(f->count, 16);
    for (unsigned i = 0; i < 16; i++) /* all at once: nothing in flight, yet not the end */
        answer(f, i);
    run_until(f, 32);
    for (unsigned i = 0; i < COUNT; i++) {
        if (i >= 16) {
            answer(f, i);
            run_until(f, i + 17 < COUNT ? i + 17 : COUNT);
        }
        ck_assert_uint_eq(receive(f, fd, got, 22), 22);
        ck_assert_uint_eq(got[3], i);
    }
    ck_assert(ended(f, fd));
    close(fd);
    stop(f);
}
END_TEST

START_TEST(tcp_client_gone_before_the_reply) {
    if (!loopback_enter("tcp_client_gone_before_the_reply"))
        return;
    uint8_t out[22];
    struct linger reset = {1, 0};
    struct fixture *f = start(NULL);
    f->hold = true;
    int fd = client(SOCK_STREAM, "127.0.0.1");
    frame(out, 1);
    ck_assert_int_eq(send(fd, out, 22, 0), 22);
    run_until(f, 1);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
    run_until_connected(f, 0);
    /* Another connection takes its place; the reply must not go there. */
    fd = client(SOCK_STREAM, "127.0.0.1");
    run_until_connected(f, 1);
    answer(f, 0);
    run(f, 50);
    ck_assert_int_eq(recv(fd, out, 22, 0), -1);
    ck_assert_int_eq(errno, EAGAIN);
    close(fd);
    stop(f);
}
END_TEST

START_TEST(tcp_length_beyond_any_query) {
    if (!loopback_enter("tcp_length_beyond_any_query"))
        return;
    struct fixture *f = start(NULL);
    int fd = client(SOCK_STREAM, "127.0.0.1");
    ck_assert_int_eq(send(fd, "\xff\xff", 2, 0), 2);
    ck_assert(ended(f, fd));
    ck_assert_uint_eq(f->count, 0);
    close(fd);
    stop(f);
}
END_TEST

START_TEST(tcp_idle) {
    if (!loopback_enter("tcp_idle"))
        return;
    struct front_limits limits = front_limits_default;
    uint8_t out[22], got[22];
    limits.idle = 1500 * USEC_PER_MSEC;
    struct fixture *f = start(&limits);
    int silent = client(SOCK_STREAM, "127.0.0.1"), slow = client(SOCK_STREAM, "127.0.0.1"),
        busy = client(SOCK_STREAM, "::1");
    frame(out, 1);
    uint64_t begin = now_ms();
    for (int i = 0; i < 45; i++) { /* one octet at a time is no progress */
        if (i % 10 == 0)
            (void)!send(slow, out + i / 10, 1, MSG_NOSIGNAL);
        ck_assert_int_eq(send(busy, out, 22, MSG_NOSIGNAL), 22);
        run(f, 100);
        ck_assert_uint_eq(receive(f, busy, got, 22), 22);
    }
    ck_assert_uint_ge(now_ms() - begin, 4400);
    ck_assert(ended(f, silent));
    ck_assert(ended(f, slow));
    ck_assert_uint_eq(front_connections(f->front), 1);
    close(silent);
    close(slow);
    close(busy);
    stop(f);
}
END_TEST

/* A client that takes no replies is not read from any more and in the end dropped; memory for it is
 * bounded. */
START_TEST(c26_slow_client) {
    if (!loopback_enter("c26_slow_client"))
        return;
    struct front_limits limits = front_limits_default;
    uint8_t out[22];
    int small = 4096;
    limits.idle = 800 * USEC_PER_MSEC;
    limits.backlog = 100000;
    struct fixture *f = start(&limits);
    f->reply = 60000;
    int fd = client(SOCK_STREAM, "127.0.0.1");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    unsigned sent = 0;
    for (unsigned i = 0; i < 500; i++) {
        frame(out, i);
        sent += send(fd, out, 22, MSG_NOSIGNAL) == 22;
        run(f, 0);
    }
    ck_assert_uint_lt(f->count, 200); /* most are still in the kernel */
    f->reply = 0;
    uint8_t got[22];
    frame(out, 7);
    int other = client(SOCK_STREAM, "127.0.0.1");
    ck_assert_int_eq(send(other, out, 22, 0), 22); /* others are not held up */
    ck_assert_uint_eq(receive(f, other, got, 22), 22);
    run_until_connected(f, 0);
    close(fd);
    close(other);
    stop(f);
}
END_TEST

/* A client that asks for much and begins to read late gets everything. */
START_TEST(c26_slow_client_catches_up) {
    enum { COUNT = 40, SIZE = 20000 };
    static uint8_t got[2 + SIZE];
    if (!loopback_enter("c26_slow_client_catches_up"))
        return;
    struct front_limits limits = front_limits_default;
    uint8_t out[COUNT * 22];
    int small = 65536;
    /* Of this namespace: or the kernel would take all replies off our hands. */
    FILE *wmem = fopen("/proc/sys/net/ipv4/tcp_wmem", "w");
    ck_assert_ptr_nonnull(wmem);
    fputs("4096 16384 65536", wmem);
    ck_assert_int_eq(fclose(wmem), 0);
    limits.backlog = 100000;
    struct fixture *f = start(&limits);
    f->reply = SIZE;
    int fd = client(SOCK_STREAM, "127.0.0.1");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (unsigned i = 0; i < COUNT; i++)
        frame(out + 22 * i, i);
    ck_assert_int_eq(send(fd, out, sizeof out, 0), sizeof out); /* in one piece */
    shutdown(fd, SHUT_WR);
    run(f, 300);
    for (unsigned i = 0; i < COUNT; i++) {
        ck_assert_uint_eq(receive(f, fd, got, sizeof got), sizeof got);
        ck_assert_uint_eq(got[2] * 256u + got[3], i);
    }
    ck_assert(ended(f, fd));
    close(fd);
    stop(f);
}
END_TEST

START_TEST(tcp_caps) {
    if (!loopback_enter("tcp_caps"))
        return;
    struct front_limits limits = front_limits_default;
    uint8_t out[22];
    int fds[12];
    limits.per_client = 3;
    limits.connections = 5;
    struct fixture *f = start(&limits);
    f->hold = true;
    frame(out, 1);
    for (int i = 0; i < 4; i++) {
        fds[i] = client_from(SOCK_STREAM, "127.0.0.9", "127.0.0.1");
        if (i < 3)
            run_until_connected(f, (unsigned)i + 1);
    }
    ck_assert(ended(f, fds[3]));
    ck_assert_uint_eq(front_connections(f->front), 3);
    /* Others still get in; the one that has been idle longest makes room. */
    for (int i = 4; i < 7; i++) {
        char source[32];
        snprintf(source, sizeof source, "127.0.1.%d", i);
        fds[i] = client_from(SOCK_STREAM, source, "127.0.0.1");
        ck_assert_int_eq(send(fds[i], out, 22, 0), 22);
        run_until(f, (unsigned)i - 3);
    }
    ck_assert_uint_eq(front_connections(f->front), 5);
    ck_assert(ended(f, fds[0]));
    ck_assert_uint_eq(f->count, 3);
    for (int i = 0; i < 7; i++)
        close(fds[i]);
    stop(f);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("front");
    TCase *net = tcase_create("loopback");
    tcase_set_timeout(net, 60);
    tcase_add_test(net, udp_replies_from_the_address_asked);
    tcase_add_test(net, udp_batches);
    tcase_add_test(net, udp_impossible_datagrams);
    tcase_add_loop_test(net, c26_pipelined_in_pieces, 0, 4);
    tcase_add_test(net, c26_out_of_order);
    tcase_add_test(net, c26_half_close);
    tcase_add_test(net, c26_many_in_flight);
    tcase_add_test(net, tcp_client_gone_before_the_reply);
    tcase_add_test(net, tcp_length_beyond_any_query);
    tcase_add_test(net, tcp_idle);
    tcase_add_test(net, c26_slow_client);
    tcase_add_test(net, c26_slow_client_catches_up);
    tcase_add_test(net, tcp_caps);
    suite_add_tcase(suite, net);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
