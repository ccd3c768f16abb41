/* tcp.c: connections: framing, pipelining, slow clients, idle ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "resolver/front/internal.h"

#define OUT_KEEP 8192 /* an empty output buffer larger than this is given back */
#define IN_FLIGHT_MAX 16 /* queries of one connection; the next ones wait in its buffer */

static void on_ready(uv_poll_t *poll, int status, int events);

/* ---- life ------------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle) {
    struct connection *c = handle->data;
    struct front *f = c->front;
    free(c->out);
    free(c);
    front_unref(f);
}

static bool closed(const struct connection *c) { return c->fd < 0; }

void connection_close(struct connection *c) {
    struct front *f = c->front;
    if (closed(c))
        return;
    uv_poll_stop(&c->poll);
    uv_close((uv_handle_t *)&c->poll, on_closed);
    close(c->fd);
    c->fd = -1;
    slots_release(&f->ids, c->id);
    TAILQ_REMOVE(&f->connections, c, order);
    f->connection_count--;
}

static void progressed(struct connection *c) {
    struct front *f = c->front;
    c->progress = clock_now(&f->clock);
    TAILQ_REMOVE(&f->connections, c, order);
    TAILQ_INSERT_TAIL(&f->connections, c, order);
}

static unsigned count_of(const struct front *f, const struct addr *client) {
    const struct connection *c;
    unsigned n = 0;
    TAILQ_FOREACH(c, &f->connections, order)
        n += addr_equal(&c->client, client);
    return n;
}

/* Room for one more: the connection that has waited longest without a query in flight goes. */
static bool make_room(struct front *f) {
    struct connection *c;
    if (f->connection_count < f->limits.connections)
        return true;
    TAILQ_FOREACH(c, &f->connections, order) {
        if (c->in_flight > 0)
            continue;
        connection_close(c);
        return true;
    }
    return false;
}

/* 0, or negative: the descriptor is still the caller's. */
static int connection_new(struct front *f, int fd, const struct sockaddr_storage *sa) {
    struct addr client;
    uint16_t port;
    if (addr_from_sockaddr((const struct sockaddr *)sa, &client, &port) < 0 ||
        count_of(f, &client) >= f->limits.per_client || !make_room(f))
        return -EUSERS;
    struct connection *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->id = slots_take(&f->ids, c);
    if (!c->id || uv_poll_init(f->loop, &c->poll, fd) < 0) {
        slots_release(&f->ids, c->id);
        free(c);
        return -ENOMEM;
    }
    f->handles++;
    c->poll.data = c;
    c->front = f;
    c->fd = fd;
    c->client = client;
    c->port = port;
    c->progress = clock_now(&f->clock);
    TAILQ_INSERT_TAIL(&f->connections, c, order);
    f->connection_count++;
    f->accepted++;
    c->events = UV_READABLE;
    if (uv_poll_start(&c->poll, UV_READABLE, on_ready) < 0)
        connection_close(c);
    return 0;
}

void tcp_acceptable(uv_poll_t *poll, int status, int events) {
    struct listener *l = poll->data;
    (void)status, (void)events;
    for (int i = 0; i < TCP_ACCEPTS; i++) {
        struct sockaddr_storage sa = {0};
        socklen_t size = sizeof sa;
        int fd = accept4(l->fd, (struct sockaddr *)&sa, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
            continue;
        if (fd < 0)
            return;
        if (connection_new(l->front, fd, &sa) < 0)
            close(fd);
    }
}

/* ---- writing ---------------------------------------------------------------------------------- */

static size_t untaken(const struct connection *c) { return c->out_used - c->out_from; }

/* Whether a whole query is in the buffer. */
static bool frame_ready(const struct connection *c) {
    return c->in_used >= 2 && c->in_used >= 2 + ((size_t)c->in[0] << 8 | c->in[1]);
}

/* A client that has much in flight, or does not take its replies, is not served further for now: so
 * memory for it is bounded, and it waits rather than fails. */
static bool may_ask(const struct connection *c) {
    return c->in_flight < IN_FLIGHT_MAX && untaken(c) < c->front->limits.backlog / 2;
}

/* Polls for what the connection's state calls for, and closes it when nothing can come of it. */
static void settle(struct connection *c) {
    struct front *f = c->front;
    if (closed(c))
        return;
    if (frame_ready(c) && may_ask(c)) { /* not from here: actions may be under way */
        c->kicked = true;
        uv_timer_start(&f->kick, tcp_kicked, 0, 0);
    }
    if (c->no_more && c->in_flight == 0 && untaken(c) == 0 && !frame_ready(c)) {
        connection_close(c);
        return;
    }
    bool room = c->in_used < sizeof c->in;
    int want = (untaken(c) > 0 ? UV_WRITABLE : 0) |
               (!c->no_more && room && may_ask(c) ? UV_READABLE : 0);
    if (want == c->events)
        return;
    c->events = want;
    if (want == 0)
        uv_poll_stop(&c->poll);
    else if (uv_poll_start(&c->poll, want, on_ready) < 0)
        connection_close(c);
}

static void write_out(struct connection *c) {
    while (c->out_from < c->out_used) {
        ssize_t put = send(c->fd, c->out + c->out_from, c->out_used - c->out_from,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            return;
        if (put < 0) {
            connection_close(c);
            return;
        }
        c->out_from += (size_t)put;
        progressed(c);
    }
    c->out_from = c->out_used = 0;
    if (c->out_size > OUT_KEEP) {
        free(c->out);
        c->out = NULL;
        c->out_size = 0;
    }
}

/* Space behind what waits: moved to the front, grown if it must be. */
static bool reserve(struct connection *c, size_t size) {
    size_t waiting = untaken(c);
    if (c->out_from > 0) {
        memmove(c->out, c->out + c->out_from, waiting);
        c->out_from = 0;
        c->out_used = waiting;
    }
    if (c->out_size - c->out_used >= size)
        return true;
    uint8_t *out = realloc(c->out, c->out_used + size);
    if (!out)
        return false;
    c->out = out;
    c->out_size = c->out_used + size;
    return true;
}

uint8_t *tcp_room(struct front *f, const struct flow_peer *to, size_t *ret_size) {
    struct connection *c = slots_find(&f->ids, to->via);
    if (!c)
        return NULL;
    if (!reserve(c, 2 + (size_t)WIRE_MAX)) {
        connection_close(c);
        return NULL;
    }
    *ret_size = WIRE_MAX;
    return c->out + c->out_used + 2;
}

void tcp_send(struct front *f, const struct flow_peer *to, size_t used) {
    struct connection *c = slots_find(&f->ids, to->via);
    if (!c)
        return;
    if (c->in_flight > 0)
        c->in_flight--;
    if (used > 0) {
        uint8_t *at = c->out + c->out_used;
        at[0] = (uint8_t)(used >> 8);
        at[1] = (uint8_t)used;
        c->out_used += 2 + used;
        write_out(c);
    }
    settle(c);
}

/* ---- reading ---------------------------------------------------------------------------------- */

/* Feeds whole frames as far as the client may ask. How many, or -1: it is closed. */
static int take_frames(struct connection *c) {
    struct front *f = c->front;
    size_t from = 0;
    int taken = 0;
    struct flow_peer peer = {.client = c->client, .port = c->port, .transport = TRANSPORT_TCP,
                             .via = c->id};
    while (c->in_used - from >= 2 && may_ask(c)) {
        size_t size = (size_t)c->in[from] << 8 | c->in[from + 1];
        if (size > TCP_QUERY_MAX) {
            connection_close(c);
            return -1;
        }
        if (c->in_used - from < 2 + size)
            break;
        c->in_flight++;
        progressed(c);
        if (!f->sink.query(f->sink.ctx, &peer, c->in + from + 2, size))
            c->in_flight--;
        from += 2 + size;
        taken++;
    }
    memmove(c->in, c->in + from, c->in_used - from);
    c->in_used -= from;
    return taken;
}

static void serve(struct connection *c) {
    struct front *f = c->front;
    while (!closed(c) && take_frames(c) > 0)
        f->sink.idle(f->sink.ctx);
    settle(c);
}

static void read_in(struct connection *c) {
    ssize_t got = recv(c->fd, c->in + c->in_used, sizeof c->in - c->in_used, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got < 0) {
        connection_close(c);
        return;
    }
    if (got == 0)
        c->no_more = true; /* half-closed: what was asked is still answered */
    c->in_used += (size_t)got;
}

/* Connections that may ask again after replies went out. */
void tcp_kicked(uv_timer_t *timer) {
    struct front *f = timer->data;
    struct connection *c, *next;
    for (c = TAILQ_FIRST(&f->connections); c; c = next) {
        next = TAILQ_NEXT(c, order);
        if (!c->kicked)
            continue;
        c->kicked = false;
        serve(c);
        next = TAILQ_FIRST(&f->connections); /* what was served may have moved or closed others */
    }
}

static void on_ready(uv_poll_t *poll, int status, int events) {
    struct connection *c = poll->data;
    if (closed(c))
        return;
    if (status < 0) {
        connection_close(c);
        return;
    }
    if (events & UV_WRITABLE)
        write_out(c);
    if (!closed(c) && (events & UV_READABLE) && !c->no_more && c->in_used < sizeof c->in)
        read_in(c);
    serve(c);
}

/* ---- idle ------------------------------------------------------------------------------------- */

/* The list is in order of last progress. What has queries in flight waits for upstreams, not for the
 * client, so it may stay; unless it also leaves replies untaken. */
void tcp_expire(struct front *f) {
    usec_t now = clock_now(&f->clock);
    struct connection *c, *next;
    for (c = TAILQ_FIRST(&f->connections); c; c = next) {
        next = TAILQ_NEXT(c, order);
        usec_t quiet = now - c->progress;
        if (quiet < f->limits.idle)
            return;
        if (c->in_flight == 0 || c->out_used > c->out_from || quiet >= 2 * f->limits.idle)
            connection_close(c);
    }
}
