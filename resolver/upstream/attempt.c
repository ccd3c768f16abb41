/* attempt.c: one try at one server over UDP, or over TCP when the answer did not fit. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/base/arena.h"
#include "resolver/upstream/internal.h"

#define PORT_FIRST 1024
#define PORT_TRIES 8
#define PACKETS_A_TURN 16 /* read from one socket before others get their turn */
#define STREAM_MAX (2 + WIRE_MAX)

struct server *attempt_server(const struct attempt *a) {
    struct servers *s = &a->upstream->servers;
    return a->generation == s->generation ? &s->list[a->server] : NULL;
}

/* The kernel would choose at random too, but among 28,000 ports by default; this is from 64,000
 * (RFC 5452 section 9.2). Taken ports are passed over; in the end the kernel may choose. */
static void bind_randomly(int fd, uint8_t family) {
    const struct addr any = {.family = family};
    for (int i = 0; i < PORT_TRIES; i++) {
        struct sockaddr_storage sa;
        uint16_t port = (uint16_t)(PORT_FIRST + random_below(65536 - PORT_FIRST));
        socklen_t size = addr_to_sockaddr(&any, port, &sa);
        if (bind(fd, (struct sockaddr *)&sa, size) == 0 || errno != EADDRINUSE)
            return;
    }
}

static int open_socket(const struct server *s, bool tcp) {
    int domain = s->address.family == 6 ? AF_INET6 : AF_INET;
    int fd = socket(domain, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (!tcp)
        bind_randomly(fd, s->address.family);
    struct sockaddr_storage sa;
    socklen_t size = addr_to_sockaddr(&s->address, s->port, &sa);
    if (connect(fd, (struct sockaddr *)&sa, size) < 0 && errno != EINPROGRESS) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

static void on_closed(uv_handle_t *handle) {
    struct attempt *a = handle->data;
    struct upstream *u = a->upstream;
    free(a->stream);
    free(a);
    upstream_unref(u);
}

void attempt_close(struct attempt *a) {
    struct server *s = attempt_server(a);
    struct question *q = a->question;
    for (unsigned i = 0; i < q->count; i++)
        if (q->attempts[i] == a) {
            q->attempts[i] = q->attempts[--q->count];
            break;
        }
    if (a->probe && s)
        s->probing = false;
    a->question = NULL;
    uv_poll_stop(&a->poll);
    uv_close((uv_handle_t *)&a->poll, on_closed);
    close(a->fd);
    a->upstream->sockets--;
}

/* ---- UDP -------------------------------------------------------------------------------------- */

static bool from_server(const struct attempt *a, const struct sockaddr_storage *sa) {
    struct addr from;
    uint16_t port;
    return addr_from_sockaddr((const struct sockaddr *)sa, &from, &port) == 0 &&
           port == a->port && addr_equal(&from, &a->address);
}

/* Judges a message; true when the attempt is over. */
static bool judge(struct attempt *a, const uint8_t *bytes, size_t size) {
    struct upstream *u = a->upstream;
    struct question *q = a->question;
    struct wire_answer answer;
    arena_reset(u->arena);
    int r = wire_answer_parse(bytes, size, a->id, &q->name, q->type, u->arena, &answer);
    if (r < 0) {
        u->stats.upstream_mismatched++;
        return false;
    }
    question_answered(a, &answer);
    return true;
}

static void udp_readable(struct attempt *a) {
    struct upstream *u = a->upstream;
    for (int i = 0; i < PACKETS_A_TURN; i++) {
        /* Packets that came between bind() and connect() are from anyone, so look. */
        struct sockaddr_storage sa = {0};
        struct iovec data = {u->buffer, sizeof u->buffer};
        struct msghdr h = {.msg_name = &sa, .msg_namelen = sizeof sa, .msg_iov = &data,
                           .msg_iovlen = 1};
        ssize_t got = recvmsg(a->fd, &h, MSG_DONTWAIT);
        if (got < 0) {
            if (errno == EAGAIN || errno == EINTR)
                return;
            question_failed(a, END_NETWORK); /* ICMP: nobody there */
            return;
        }
        if (!from_server(a, &sa) || (h.msg_flags & MSG_TRUNC)) {
            u->stats.upstream_mismatched++;
            continue;
        }
        if (judge(a, u->buffer, (size_t)got))
            return;
    }
}

/* ---- TCP -------------------------------------------------------------------------------------- */

static void tcp_writable(struct attempt *a) {
    while (a->done < a->used) {
        ssize_t put = send(a->fd, a->stream + a->done, a->used - a->done,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0) {
            if (errno != EAGAIN && errno != EINTR)
                question_failed(a, END_NETWORK);
            return;
        }
        a->done += (size_t)put;
    }
    a->connected = true;
    a->used = a->done = 0;
}

static void tcp_readable(struct attempt *a) {
    for (int i = 0; i < PACKETS_A_TURN; i++) {
        size_t want = a->used < 2 ? 2 : 2 + ((size_t)a->stream[0] << 8 | a->stream[1]);
        ssize_t got = recv(a->fd, a->stream + a->used, want - a->used, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            question_failed(a, END_NETWORK);
            return;
        }
        a->used += (size_t)got;
        if (a->used < 2)
            continue;
        want = 2 + ((size_t)a->stream[0] << 8 | a->stream[1]);
        if (a->used < want)
            continue;
        /* What does not fit the question is of no use on a connection that is ours alone. */
        if (!judge(a, a->stream + 2, want - 2))
            question_failed(a, END_ERROR);
        return;
    }
}

/* ---- both ------------------------------------------------------------------------------------- */

static void on_ready(uv_poll_t *poll, int status, int events) {
    struct attempt *a = poll->data;
    (void)events;
    if (!a->question)
        return;
    if (!a->tcp) {
        udp_readable(a);
        return;
    }
    if (status < 0) {
        question_failed(a, END_NETWORK);
        return;
    }
    if (!a->connected) {
        tcp_writable(a);
        if (a->question && a->connected)
            uv_poll_start(&a->poll, UV_READABLE, on_ready);
        return;
    }
    tcp_readable(a);
}

static int send_query(struct attempt *a, const struct question *q) {
    uint8_t query[QUERY_MAX];
    random_bytes(&a->id, sizeof a->id);
    int size = wire_build_upstream(a->id, &q->name, q->type, query, sizeof query);
    if (size < 0)
        return size;
    if (!a->tcp)
        return send(a->fd, query, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
    a->stream = malloc(STREAM_MAX);
    if (!a->stream)
        return -ENOMEM;
    a->stream[0] = (uint8_t)(size >> 8);
    a->stream[1] = (uint8_t)size;
    memcpy(a->stream + 2, query, (size_t)size);
    a->used = 2 + (size_t)size;
    return 0;
}

struct attempt *attempt_start(struct question *q, unsigned server, bool tcp,
                              enum attempt_end *ret_end) {
    struct upstream *u = q->upstream;
    const struct server *s = &u->servers.list[server];
    struct attempt *a = calloc(1, sizeof *a);
    *ret_end = END_ERROR;
    if (!a)
        return NULL;
    a->fd = open_socket(s, tcp);
    if (a->fd < 0 || uv_poll_init(u->loop, &a->poll, a->fd) < 0) {
        if (a->fd >= 0)
            close(a->fd);
        free(a);
        *ret_end = END_NETWORK;
        return NULL;
    }
    u->sockets++;
    u->handles++;
    a->poll.data = a;
    a->upstream = u;
    a->question = q;
    a->tcp = tcp;
    a->server = server;
    a->generation = u->servers.generation;
    a->address = s->address;
    a->port = s->port;
    a->sent = clock_now(&u->clock);
    u->stats.upstream_queries++;
    if (send_query(a, q) < 0 || uv_poll_start(&a->poll, tcp ? UV_WRITABLE : UV_READABLE,
                                              on_ready) < 0) {
        attempt_close(a);
        *ret_end = END_NETWORK;
        return NULL;
    }
    return a;
}
