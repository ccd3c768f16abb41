/* upstream.c: one question: which server when, and when to give up.
 *
 * A round tries each server once, fastest first. The next is tried as soon as one fails, or when one
 * has been silent for its timeout; attempts stay open, so a slow answer still counts. When all have
 * been tried and are silent, a new round begins with twice the wait, until the budget is spent. When
 * all have failed outright, waiting would change nothing: it ends at once.
 */
#include "resolver/upstream/upstream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/arena.h"
#include "resolver/upstream/internal.h"

#define ARENA_LIMIT (4u << 20) /* 1,024 records and 64 KiB of data fit */

const struct upstream_limits upstream_limits_default = {
    .budget = 5 * USEC_PER_SEC,
    .sockets = 4096,
};

struct upstream *upstream_new(uv_loop_t *loop, const struct clock *clock,
                              const struct upstream_limits *limits,
                              const struct upstream_events *events) {
    struct upstream *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->arena = arena_new(ARENA_LIMIT);
    if (!u->arena) {
        free(u);
        return NULL;
    }
    u->loop = loop;
    u->clock = *clock;
    u->limits = *limits;
    u->events = *events;
    TAILQ_INIT(&u->parked);
    TAILQ_INIT(&u->lingering);
    return u;
}

unsigned upstream_configure(struct upstream *u, const struct policy_gateway *g) {
    return servers_set(&u->servers, g);
}

void upstream_unref(struct upstream *u) {
    u->handles--;
    if (!u->closing || u->handles > 0)
        return;
    arena_free(u->arena);
    free(u);
}

/* ---- questions -------------------------------------------------------------------------------- */

static struct question **place_of(struct upstream *u, uint64_t id) {
    struct question **link = &u->table[(id ^ id >> 20) % QUESTION_HASH];
    while (*link && (*link)->id != id)
        link = &(*link)->next;
    return link;
}

static void on_timer_closed(uv_handle_t *handle) {
    struct question *q = handle->data;
    struct upstream *u = q->upstream;
    free(q);
    upstream_unref(u);
}

static void unpark_some(struct upstream *u);

static void on_timer(uv_timer_t *timer);

/* Nothing of it is open any more. */
static void question_close(struct question *q) {
    if (q->lingers)
        TAILQ_REMOVE(&q->upstream->lingering, q, parked);
    q->lingers = false;
    while (q->count > 0)
        attempt_close(q->attempts[0]);
    uv_timer_stop(&q->timer);
    uv_close((uv_handle_t *)&q->timer, on_timer_closed);
}

/* It has its result, or needs none. A probe may still be out: the answer that came was faster than
 * the server probed, which says nothing against it. */
static void question_end(struct question *q) {
    struct upstream *u = q->upstream;
    bool probing = false;
    q->over = true;
    struct question **link = place_of(u, q->id);
    *link = q->next;
    if (q->is_parked)
        TAILQ_REMOVE(&u->parked, q, parked);
    for (unsigned i = q->count; i-- > 0;) {
        if (q->attempts[i]->probe && !u->closing)
            probing = true;
        else
            attempt_close(q->attempts[i]);
    }
    if (!probing) {
        question_close(q);
        return;
    }
    q->lingers = true;
    TAILQ_INSERT_TAIL(&u->lingering, q, parked);
    uv_timer_start(&q->timer, on_timer, SERVER_TIMEOUT_MAX / USEC_PER_MSEC, 0);
}

static void question_fail(struct question *q) {
    static const enum reason reasons[] = {[END_NETWORK] = REASON_UPSTREAM_NETWORK,
                                          [END_TIMEOUT] = REASON_UPSTREAM_TIMEOUT,
                                          [END_ERROR] = REASON_UPSTREAM_ERROR};
    struct upstream *u = q->upstream;
    uint64_t id = q->id;
    enum reason reason = reasons[q->last];
    question_end(q);
    u->events.failed(u->events.ctx, id, reason);
    unpark_some(u);
}

static bool add_attempt(struct question *q, unsigned server, bool tcp, bool probe) {
    enum attempt_end end;
    if (q->tries == ATTEMPTS_MAX)
        return false;
    q->tries++;
    struct attempt *a = attempt_start(q, server, tcp, &end);
    if (!a) {
        q->last = end;
        server_failed(&q->upstream->servers.list[server], true, clock_now(&q->upstream->clock));
        return false;
    }
    a->probe = probe;
    q->attempts[q->count++] = a;
    return true;
}

/* Whether any attempt of the present servers may still be answered. */
static bool still_open(const struct question *q) {
    for (unsigned i = 0; i < q->count; i++)
        if (!q->attempts[i]->failed)
            return true;
    return false;
}

static void set_timer(struct question *q, usec_t wait) {
    usec_t spent = clock_now(&q->upstream->clock) - q->started;
    usec_t left = q->upstream->limits.budget > spent ? q->upstream->limits.budget - spent : 0;
    if (wait > left)
        wait = left;
    uv_timer_start(&q->timer, on_timer, (wait + USEC_PER_MSEC - 1) / USEC_PER_MSEC, 0);
}

/* Tries the next server of this round. False: none is left. */
static bool try_next(struct question *q) {
    struct upstream *u = q->upstream;
    if (q->generation != u->servers.generation) {
        q->generation = u->servers.generation;
        q->tried = 0;
    }
    for (;;) {
        int server = servers_choose(&u->servers, q->tried);
        if (server < 0 || q->tries == ATTEMPTS_MAX)
            return false;
        q->tried |= UINT32_C(1) << server;
        if (!add_attempt(q, (unsigned)server, false, false))
            continue;
        set_timer(q, server_timeout(&u->servers.list[server]) << q->rounds);
        return true;
    }
}

static void question_begin(struct question *q) {
    struct upstream *u = q->upstream;
    q->generation = u->servers.generation;
    int probe = servers_probe(&u->servers, clock_now(&u->clock));
    if (!try_next(q)) {
        q->last = END_NETWORK;
        set_timer(q, 0); /* fails from the loop, not from here */
    } else if (probe >= 0 && !(q->tried >> probe & 1)) {
        add_attempt(q, (unsigned)probe, false, true);
        return;
    }
    if (probe >= 0 && probe < (int)u->servers.count)
        u->servers.list[probe].probing = false; /* asked in earnest, or not at all */
}

/* Silent servers so far: too slow to be waited for alone. */
static void blame_silent(struct question *q) {
    usec_t now = clock_now(&q->upstream->clock);
    for (unsigned i = 0; i < q->count; i++) {
        struct attempt *a = q->attempts[i];
        if (a->failed)
            continue;
        a->failed = true;
        q->upstream->stats.upstream_timeouts++;
        struct server *s = attempt_server(a);
        if (s)
            server_failed(s, false, now);
    }
}

static void on_timer(uv_timer_t *timer) {
    struct question *q = timer->data;
    struct upstream *u = q->upstream;
    if (q->over) { /* the probe got no answer */
        blame_silent(q);
        question_close(q);
        return;
    }
    if (q->is_parked) {
        q->last = END_TIMEOUT;
        question_fail(q);
        return;
    }
    if (still_open(q))
        q->last = END_TIMEOUT;
    blame_silent(q);
    bool spent = clock_now(&u->clock) - q->started + USEC_PER_MSEC >= u->limits.budget;
    if (q->count == 0 || spent) {
        question_fail(q);
        return;
    }
    if (try_next(q))
        return;
    q->tried = 0; /* all silent: another round, with more patience */
    q->rounds++;
    if (!try_next(q))
        set_timer(q, u->limits.budget); /* no more attempts allowed: what is open may yet answer */
}

static void unpark_some(struct upstream *u) {
    struct question *q;
    while (u->sockets < u->limits.sockets && (q = TAILQ_FIRST(&u->parked))) {
        TAILQ_REMOVE(&u->parked, q, parked);
        q->is_parked = false;
        question_begin(q);
    }
}

void upstream_ask(struct upstream *u, uint64_t id, const struct name *name, uint16_t type) {
    struct question *q = calloc(1, sizeof *q);
    if (!q)
        return; /* the flow's own limit ends the wait */
    q->upstream = u;
    q->id = id;
    q->name = *name;
    q->type = type;
    q->started = clock_now(&u->clock);
    uv_timer_init(u->loop, &q->timer);
    u->handles++;
    q->timer.data = q;
    struct question **link = place_of(u, id);
    q->next = NULL;
    *link = q;
    if (u->sockets < u->limits.sockets) {
        question_begin(q);
        return;
    }
    q->is_parked = true;
    TAILQ_INSERT_TAIL(&u->parked, q, parked);
    set_timer(q, u->limits.budget);
}

void upstream_cancel(struct upstream *u, uint64_t id) {
    struct question *q = *place_of(u, id);
    if (!q)
        return;
    question_end(q);
    unpark_some(u);
}

/* ---- what attempts report --------------------------------------------------------------------- */

void question_failed(struct attempt *a, enum attempt_end end) {
    struct question *q = a->question;
    struct upstream *u = q->upstream;
    struct server *s = attempt_server(a);
    if (s && end != END_ERROR)
        server_failed(s, end == END_NETWORK, clock_now(&u->clock));
    bool probe = a->probe;
    attempt_close(a);
    if (q->over) {
        question_close(q);
        return;
    }
    if (probe)
        return;
    q->last = end;
    if (still_open(q))
        return; /* somebody else is being waited for; the timer runs */
    if (!try_next(q))
        question_fail(q);
}

/* The same server again over TCP. A connection takes two more round trips, so the timer starts anew;
 * when it runs out the next server is tried as well. */
static void ask_over_tcp(struct attempt *a) {
    struct question *q = a->question;
    unsigned server = a->server;
    bool same = attempt_server(a) != NULL;
    attempt_close(a);
    if (same && add_attempt(q, server, true, false))
        set_timer(q, SERVER_TIMEOUT_MAX << q->rounds);
    else if (!still_open(q) && !try_next(q))
        question_fail(q);
}

/* Whether the server works at all, whatever it said about this name. */
static void judge_server(struct attempt *a, const struct wire_answer *answer) {
    struct server *s = attempt_server(a);
    usec_t now = clock_now(&a->upstream->clock);
    unsigned rcode = answer->extended_rcode;
    if (!s)
        return;
    if (rcode == RC_NOERROR || rcode == RC_NXDOMAIN || rcode == RC_SERVFAIL)
        server_answered(s, now - a->sent);
    else
        server_failed(s, false, now); /* it refuses us, or does not understand us */
}

void question_answered(struct attempt *a, const struct wire_answer *answer) {
    struct question *q = a->question;
    struct upstream *u = q->upstream;
    judge_server(a, answer);
    if (q->over) { /* a probe, and that is all that was to be known */
        question_close(q);
        return;
    }
    if (answer->truncated && !a->tcp) {
        ask_over_tcp(a);
        return;
    }
    if (answer->truncated ||
        (answer->extended_rcode != RC_NOERROR && answer->extended_rcode != RC_NXDOMAIN)) {
        question_failed(a, END_ERROR);
        return;
    }
    struct addr server = a->address;
    uint64_t id = q->id;
    question_end(q);
    u->events.answer(u->events.ctx, id, answer, &server);
    unpark_some(u);
}

/* ---- the rest --------------------------------------------------------------------------------- */

void upstream_stats(const struct upstream *u, struct msg_stats *m) {
    m->upstream_queries += u->stats.upstream_queries;
    m->upstream_timeouts += u->stats.upstream_timeouts;
    m->upstream_mismatched += u->stats.upstream_mismatched;
}

unsigned upstream_sockets(const struct upstream *u) { return u->sockets; }

void upstream_close(struct upstream *u) {
    u->closing = true;
    u->handles++; /* not yet, while this loop goes on */
    for (unsigned i = 0; i < QUESTION_HASH; i++)
        while (u->table[i])
            question_end(u->table[i]);
    while (!TAILQ_EMPTY(&u->lingering))
        question_close(TAILQ_FIRST(&u->lingering));
    upstream_unref(u);
}
