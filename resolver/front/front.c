/* front.c: making and closing the listeners; UDP or TCP by the peer. */
#include "resolver/front/front.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "resolver/front/internal.h"

#define EXPIRE_PERIOD 500 /* ms */

const struct front_limits front_limits_default = {
    .connections = 1024,
    .per_client = 32,
    .idle = 10 * USEC_PER_SEC, /* RFC 7766 section 6.2.3: seconds */
    .backlog = 256 * 1024,
};

static void front_free(struct front *f) {
    free(f->in);
    for (int i = 0; i < 2; i++) {
        free(f->out[i]);
        free(f->udp[i]);
        free(f->tcp[i]);
    }
    slots_destroy(&f->ids);
    free(f);
}

void front_unref(struct front *f) {
    f->handles--;
    if (f->closing && f->handles == 0)
        front_free(f);
}

static void on_listener_closed(uv_handle_t *handle) {
    front_unref(((struct listener *)handle->data)->front);
}

static void on_timer_closed(uv_handle_t *handle) { front_unref(handle->data); }

static void on_timer(uv_timer_t *timer) { tcp_expire(timer->data); }

static struct listener *listen_on(struct front *f, int fd, uv_poll_cb ready) {
    struct listener *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        uv_poll_init(f->loop, &l->poll, fd) < 0) {
        free(l);
        return NULL;
    }
    l->fd = fd;
    l->front = f;
    l->poll.data = l;
    f->handles++;
    uv_poll_start(&l->poll, UV_READABLE, ready);
    return l;
}

static int start(struct front *f, const struct front_sockets *s) {
    f->in = calloc(1, sizeof *f->in);
    if (!f->in)
        return -ENOMEM;
    for (int i = 0; i < 2; i++) {
        if (s->udp[i] >= 0) {
            f->out[i] = calloc(1, sizeof *f->out[i]);
            if (!f->out[i])
                return -ENOMEM;
            int r = udp_prepare(s->udp[i], i);
            if (r < 0)
                return r;
            if (!(f->udp[i] = listen_on(f, s->udp[i], udp_readable)))
                return -EBADF;
        }
        if (s->tcp[i] >= 0 && !(f->tcp[i] = listen_on(f, s->tcp[i], tcp_acceptable)))
            return -EBADF;
    }
    return 0;
}

struct front *front_new(uv_loop_t *loop, const struct clock *clock, const struct front_limits *limits,
                        const struct front_sockets *sockets, const struct front_sink *sink) {
    struct front *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->loop = loop;
    f->clock = *clock;
    f->limits = *limits;
    f->sink = *sink;
    TAILQ_INIT(&f->connections);
    uint32_t ids = 64;
    while (ids < limits->connections)
        ids <<= 1;
    uv_timer_init(loop, &f->timer);
    uv_timer_init(loop, &f->kick);
    f->timer.data = f->kick.data = f;
    f->handles = 2;
    int r = slots_init(&f->ids, ids, 0);
    if (r == 0)
        r = start(f, sockets);
    if (r < 0) {
        log_error("listeners: %s", strerror(-r));
        front_close(f);
        return NULL;
    }
    uv_timer_start(&f->timer, on_timer, EXPIRE_PERIOD, EXPIRE_PERIOD);
    return f;
}

uint8_t *front_room(struct front *f, const struct flow_peer *to, size_t *ret_size) {
    return to->transport == TRANSPORT_TCP ? tcp_room(f, to, ret_size) : udp_room(f, to, ret_size);
}

void front_send(struct front *f, const struct flow_peer *to, size_t used) {
    if (to->transport == TRANSPORT_TCP)
        tcp_send(f, to, used);
    else if (used > 0)
        udp_send(f, to, used);
}

void front_flush(struct front *f) {
    udp_flush(f, 0);
    udp_flush(f, 1);
}

void front_stats(const struct front *f, struct msg_stats *m) { m->tcp_connections += f->accepted; }

unsigned front_connections(const struct front *f) { return f->connection_count; }

static void listener_close(struct listener *l) {
    if (!l)
        return;
    uv_poll_stop(&l->poll);
    uv_close((uv_handle_t *)&l->poll, on_listener_closed);
    close(l->fd);
}

void front_close(struct front *f) {
    f->closing = true;
    while (!TAILQ_EMPTY(&f->connections))
        connection_close(TAILQ_FIRST(&f->connections));
    for (int i = 0; i < 2; i++) {
        listener_close(f->udp[i]);
        listener_close(f->tcp[i]);
    }
    uv_close((uv_handle_t *)&f->timer, on_timer_closed);
    uv_close((uv_handle_t *)&f->kick, on_timer_closed);
}
