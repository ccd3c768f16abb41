/* upstream_peer.h: upstream/ with a loop of its own, and servers on loopback that the test plays. */
#ifndef TESTS_UNIT_UPSTREAM_PEER_H
#define TESTS_UNIT_UPSTREAM_PEER_H

#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <uv.h>

#include "gateway/base/clock.h"
#include "resolver/upstream/upstream.h"
#include "tests/unit/dns_message.h"
#include "tests/unit/loopback.h"

#define PORT 5300
#define SECOND 1000 /* ms */
#define WAIT (20 * SECOND) /* for what must come, on a busy machine too */

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

static inline void on_answer(void *ctx, uint64_t id, const struct wire_answer *a, const struct addr *from) {
    struct fixture *f = ctx;
    f->answers++;
    f->last_id = id;
    f->rcode = a->rcode;
    f->records = a->count;
    f->from = *from;
}

static inline void on_failed(void *ctx, uint64_t id, enum reason reason) {
    struct fixture *f = ctx;
    f->failures++;
    f->last_id = id;
    f->reason = reason;
}

static inline void add_server(struct fixture *f, const char *address, uint16_t port) {
    unsigned i = f->gateway.upstream_count++;
    ck_assert_int_eq(addr_parse(address, &f->gateway.upstreams[i].address), 0);
    f->gateway.upstreams[i].port = port;
}

static inline struct fixture *start(usec_t budget, unsigned sockets) {
    struct fixture *f = calloc(1, sizeof *f);
    struct upstream_limits limits = {.budget = budget, .sockets = sockets};
    struct upstream_events events = {.answer = on_answer, .failed = on_failed, .ctx = f};
    uv_loop_init(&f->loop);
    f->u = upstream_new(&f->loop, &clock_system, &limits, &events);
    ck_assert_ptr_nonnull(f->u);
    return f;
}

static inline void stop(struct fixture *f) {
    ck_assert_uint_eq(upstream_sockets(f->u), 0);
    upstream_close(f->u);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&f->loop), 0);
    free(f);
}

static inline void ask(struct fixture *f, uint64_t id, const char *name) {
    struct name n = name_of(name);
    upstream_ask(f->u, id, &n, 1);
}

static inline uint64_t now_ms(void) { return clock_now(&clock_system) / 1000; }

/* Runs the loop for that long, or until `answers` and `failures` reach so many. */
static inline void run(struct fixture *f, unsigned ms, unsigned events) {
    uint64_t end = now_ms() + ms;
    while (now_ms() < end && f->answers + f->failures < events) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(500);
    }
}

static inline int server(int type, const char *address, uint16_t port) {
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

static inline bool take_within(struct fixture *f, int fd, struct packet *p, unsigned ms) {
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

static inline void take(struct fixture *f, int fd, struct packet *p) {
    ck_assert_msg(take_within(f, fd, p, WAIT), "no query came");
}

/* An answer to it with `count` addresses. */
static inline void answer_to(const struct packet *query, unsigned rcode, bool truncated, unsigned count,
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

static inline void send_to(int fd, const struct packet *to, const struct message *m) {
    ck_assert_int_eq(sendto(fd, m->bytes, m->size, 0, (const struct sockaddr *)&to->peer,
                            to->peer_size), (int)m->size);
}

static inline struct msg_stats stats_of(struct fixture *f) {
    struct msg_stats s = {0};
    upstream_stats(f->u, &s);
    return s;
}

#endif
