/* shell.c: events in, actions out. */
#include "resolver/shell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/proto/proto.h"
#include "resolver/flow/flow.h"
#include "resolver/image.h"
#include "resolver/upstream/upstream.h"

#define CORE_TURN 256 /* messages read from core before others get their turn */
#define STATS_PERIOD 1000 /* ms */
#define FROM_CORE \
    (PROTO_BIT(OPENED) | PROTO_BIT(REVERSED) | PROTO_BIT(STATE) | PROTO_BIT(POLICY))

struct shell {
    uv_loop_t *loop;
    struct clock clock;
    struct channel core, recorder;
    struct image image;
    struct flow *flow;
    struct front *front;
    struct upstream *upstream;
    uv_poll_t core_poll;
    uv_timer_t flow_timer, stats_timer;
    unsigned handles;
    int failed;
    bool closing;
    struct msg_stats told;
    struct proto_message message; /* the one being received or sent */
};

static void fail(struct shell *s, const char *what, int error) {
    log_error("%s: %s", what, strerror(error));
    s->failed = error ? error : EPROTO;
    uv_stop(s->loop);
}

/* ---- actions ---------------------------------------------------------------------------------- */

static void tell_core(struct shell *s, struct flow_action *a) {
    flow_core_message(s->flow, a, &s->message);
    int r = channel_send(&s->core, &s->message);
    if (r == -EAGAIN) {
        flow_core_busy(s->flow, a);
        return;
    }
    flow_done(s->flow, a);
    if (r < 0)
        fail(s, "message to core", -r);
}

/* The record first: what cannot be recorded is not answered (DESIGN invariant 7). */
static void release(struct shell *s, struct flow_action *a) {
    flow_record(s->flow, a, &s->message);
    int r = channel_send(&s->recorder, &s->message);
    if (r < 0 && r != -EAGAIN)
        fail(s, "message to the recorder", -r);
    const struct flow_peer *to = flow_reply_to(a);
    size_t room;
    uint8_t *out = front_room(s->front, to, &room);
    if (out) {
        int used = flow_reply(s->flow, a, r == 0, out, room);
        front_send(s->front, to, used > 0 ? (size_t)used : 0);
    }
    flow_done(s->flow, a);
}

static void on_flow_timer(uv_timer_t *timer);

static void set_timer(struct shell *s) {
    usec_t deadline = flow_deadline(s->flow), now = clock_now(&s->clock);
    if (deadline == UINT64_MAX) {
        uv_timer_stop(&s->flow_timer);
        return;
    }
    usec_t wait = deadline > now ? deadline - now : 0;
    uv_timer_start(&s->flow_timer, on_flow_timer, (wait + USEC_PER_MSEC - 1) / USEC_PER_MSEC, 0);
}

static void act(struct shell *s) {
    struct flow_action *a;
    while ((a = flow_next(s->flow))) {
        struct flow_asked asked;
        switch (a->kind) {
        case FLOW_ASK:
            asked = flow_asked(a);
            upstream_ask(s->upstream, asked.id, asked.name, asked.type);
            flow_done(s->flow, a);
            break;
        case FLOW_CANCEL:
            upstream_cancel(s->upstream, flow_asked(a).id);
            flow_done(s->flow, a);
            break;
        case FLOW_OPEN:
        case FLOW_REVERSE:
            tell_core(s, a);
            break;
        case FLOW_RELEASE:
            release(s, a);
            break;
        }
    }
    front_flush(s->front);
    set_timer(s);
}

/* ---- events ----------------------------------------------------------------------------------- */

static bool on_query(void *ctx, const struct flow_peer *peer, const uint8_t *bytes, size_t size) {
    struct shell *s = ctx;
    return flow_query(s->flow, peer, bytes, size);
}

static void on_idle(void *ctx) { act(ctx); }

static void on_answer(void *ctx, uint64_t id, const struct wire_answer *answer,
                      const struct addr *server) {
    struct shell *s = ctx;
    flow_upstream_answer(s->flow, id, answer, server);
    act(s);
}

static void on_upstream_failed(void *ctx, uint64_t id, enum reason reason) {
    struct shell *s = ctx;
    flow_upstream_failed(s->flow, id, reason);
    act(s);
}

static void on_flow_timer(uv_timer_t *timer) {
    struct shell *s = timer->data;
    flow_tick(s->flow);
    act(s);
}

static void use_policy(struct shell *s, struct proto_message *m) {
    struct image next = {0};
    uint64_t id = ((const struct msg_policy *)proto_body(m))->policy;
    int r = image_map(m->fds[0], &next);
    if (r == 0 && policy_id(&next.policy) != id) {
        image_unmap(&next);
        r = -EPROTO;
    }
    if (r < 0) {
        fail(s, "policy image from core", -r);
        return;
    }
    act(s); /* what was decided under the old one is done under it */
    struct image old = s->image;
    s->image = next;
    flow_policy(s->flow, &s->image.policy);
    if (upstream_configure(s->upstream, policy_gateway(&s->image.policy)) == 0)
        log_error("the policy names no upstream that can be used");
    image_unmap(&old);
    struct msg_policy *used = proto_begin(&s->message, PROTO_POLICY_USED, 0);
    used->policy = id;
    r = channel_send(&s->core, &s->message);
    if (r < 0 && r != -EAGAIN)
        fail(s, "message to core", -r);
}

static void on_core(uv_poll_t *poll, int status, int events) {
    struct shell *s = poll->data;
    (void)status, (void)events;
    for (int i = 0; i < CORE_TURN && !s->failed; i++) {
        int r = channel_receive(&s->core, &s->message, FROM_CORE);
        if (r < 0)
            fail(s, "message from core", -r);
        if (r <= 0)
            break;
        void *body = proto_body(&s->message);
        switch (s->message.head.type) {
        case PROTO_OPENED: flow_opened(s->flow, body); break;
        case PROTO_REVERSED: flow_reversed(s->flow, body); break;
        case PROTO_STATE: flow_state(s->flow, body); break;
        case PROTO_POLICY: use_policy(s, &s->message); break;
        }
    }
    act(s);
}

static void on_stats(uv_timer_t *timer) {
    struct shell *s = timer->data;
    struct msg_stats now = {0};
    flow_stats(s->flow, &now);
    upstream_stats(s->upstream, &now);
    front_stats(s->front, &now);
    if (memcmp(&now, &s->told, sizeof now) == 0)
        return;
    *(struct msg_stats *)proto_begin(&s->message, PROTO_STATS, 0) = now;
    if (channel_send(&s->core, &s->message) == 0)
        s->told = now;
}

/* ---- life ------------------------------------------------------------------------------------- */

static int start(struct shell *s, const struct shell_fds *fds) {
    struct front_sink sink = {.query = on_query, .idle = on_idle, .ctx = s};
    struct upstream_events events = {.answer = on_answer, .failed = on_upstream_failed, .ctx = s};
    struct flow_setup setup = flow_setup_default;
    setup.clock = s->clock;
    int r = image_map(fds->image, &s->image);
    if (r < 0)
        return r;
    s->flow = flow_new(&setup, &s->image.policy);
    s->upstream = upstream_new(s->loop, &s->clock, &upstream_limits_default, &events);
    if (!s->flow || !s->upstream)
        return -ENOMEM;
    if (upstream_configure(s->upstream, policy_gateway(&s->image.policy)) == 0)
        log_error("the policy names no upstream that can be used");
    s->front = front_new(s->loop, &s->clock, &front_limits_default, &fds->sockets, &sink);
    if (!s->front)
        return -EBADF;
    uv_poll_start(&s->core_poll, UV_READABLE, on_core);
    uv_timer_start(&s->stats_timer, on_stats, STATS_PERIOD, STATS_PERIOD);
    return 0;
}

struct shell *shell_new(uv_loop_t *loop, const struct clock *clock, const struct shell_fds *fds) {
    struct shell *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->loop = loop;
    s->clock = *clock;
    s->core.fd = fds->core;
    s->recorder.fd = fds->recorder;
    int r = uv_poll_init(loop, &s->core_poll, fds->core);
    if (r < 0) {
        log_error("channel to core: %s", strerror(-r));
        free(s);
        return NULL;
    }
    uv_timer_init(loop, &s->flow_timer);
    uv_timer_init(loop, &s->stats_timer);
    s->core_poll.data = s->flow_timer.data = s->stats_timer.data = s;
    s->handles = 3;
    r = start(s, fds);
    if (r < 0) {
        log_error("start of the resolver: %s", strerror(-r));
        shell_close(s);
        return NULL;
    }
    return s;
}

int shell_failed(const struct shell *s) { return s->failed; }

static void on_closed(uv_handle_t *handle) {
    struct shell *s = handle->data;
    if (--s->handles > 0)
        return;
    close(s->core.fd);
    close(s->recorder.fd);
    flow_free(s->flow);
    image_unmap(&s->image);
    free(s);
}

void shell_close(struct shell *s) {
    if (s->closing)
        return;
    s->closing = true;
    if (s->front)
        front_close(s->front);
    if (s->upstream)
        upstream_close(s->upstream);
    uv_poll_stop(&s->core_poll);
    uv_close((uv_handle_t *)&s->core_poll, on_closed);
    uv_close((uv_handle_t *)&s->flow_timer, on_closed);
    uv_close((uv_handle_t *)&s->stats_timer, on_closed);
}
