/* children.c: messages from and to the other processes.
 *
 * Each turn takes a bounded number of messages, so that one talkative process cannot keep the
 * others waiting. A message that cannot be means a process that is not ours any more: the
 * supervisor is asked to end it, and the rest goes on.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/core/core.h"

#define TURN 256u /* messages */

/* ---- sending ------------------------------------------------------------------------------- */

int core_send(struct core *c, struct channel *to) {
    int r = channel_send(to, &c->out);
    if (r == -EAGAIN && to == &c->recorder) c->counts.records_lost++;
    if (r < 0 && r != -EAGAIN)
        log_error("sending a message of type %u: %s", c->out.head.type, strerror(-r));
    return r;
}

static bool send_state(struct core *c) {
    struct msg_state *m = proto_begin(&c->out, PROTO_STATE, 0);
    m->epoch = c->epoch;
    m->log_ok = c->log_ok || core_gateway(c)->when_full == WHEN_FULL_DROP;
    m->ipv6_up = c->ipv6_up;
    int r = core_send(c, &c->resolver);
    if (r == -EAGAIN) c->resolver.sent--; /* sent again: no gap */
    return r != -EAGAIN;
}

static bool send_policy(struct core *c, struct channel *to) {
    struct msg_policy *m = proto_begin(&c->out, PROTO_POLICY, 0);
    m->policy = c->image.id;
    c->out.fds[0] = c->image.fd;
    c->out.fd_count = 1;
    int r = core_send(c, to);
    if (r != -EAGAIN) return true;
    to->sent--;
    if (to == &c->recorder) c->counts.records_lost--;
    return false;
}

/* State before policy: when the resolver decides anew, it no longer believes in old openings. The
 * policy before events that refer to it. */
void core_pay(struct core *c) {
    static const struct { uint32_t what; size_t to; } policies[] = {
        {OWE_POLICY_RESOLVER, offsetof(struct core, resolver)},
        {OWE_POLICY_RECORDER, offsetof(struct core, recorder)},
        {OWE_POLICY_CONTROL, offsetof(struct core, control)},
    };
    if (c->owed & OWE_STATE && send_state(c)) c->owed &= ~(uint32_t)OWE_STATE;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct channel *to = (struct channel *)((uint8_t *)c + policies[i].to);
        if (c->owed & policies[i].what && send_policy(c, to)) c->owed &= ~policies[i].what;
    }
    if (!(c->owed & OWE_POLICY_RECORDER)) record_pay(c);
}

void core_owe(struct core *c, uint32_t what) {
    c->owed |= what;
    core_pay(c);
}

void core_new_epoch(struct core *c) {
    c->epoch++;
    core_owe(c, OWE_STATE);
}

/* ---- receiving ----------------------------------------------------------------------------- */

static void end_child(struct core *c, enum process process) {
    struct msg_child *m = proto_begin(&c->out, PROTO_END_CHILD, 0);
    m->process = process;
    m->pid = c->children[process].pid;
    log_error("%s sent an impossible message and is ended", process_name(process));
    /* Without a pid the supervisor would not know which one: its next bad message says it again. */
    c->children[process].ending = m->pid != 0;
    core_send(c, &c->supervisor);
    record_event(c, EVENT_CHILD_ENDED_BY_CORE, 0, process, UINT32_MAX);
}

/* The next message into c->in. False: none, or one that ended its sender. */
static bool next(struct core *c, struct channel *from, enum process process, uint64_t accept) {
    if (c->children[process].ending) return false;
    int r = channel_receive(from, &c->in, accept);
    if (r == -EBADMSG && from == &c->supervisor) c->stopping = true; /* nobody left to trust */
    if (r == -EBADMSG && from != &c->supervisor) end_child(c, process);
    else if (r < 0) log_error("reading from %s: %s", process_name(process), strerror(-r));
    return r > 0;
}

void core_from_resolver(struct core *c) {
    const uint64_t accept = PROTO_BIT(OPEN) | PROTO_BIT(REVERSE) | PROTO_BIT(STATS) |
                            PROTO_BIT(POLICY_USED);
    for (unsigned i = 0; i < TURN && next(c, &c->resolver, PROCESS_RESOLVER, accept); i++) {
        switch (c->in.head.type) {
        case PROTO_OPEN: open_take(c); break;
        case PROTO_REVERSE:
            open_commit(c); /* in the order they were sent */
            open_reverse(c);
            break;
        case PROTO_STATS: c->stats = *(const struct msg_stats *)proto_body(&c->in); break;
        default: break; /* POLICY_USED: nothing waits for it */
        }
    }
    open_commit(c);
}

static void log_state(struct core *c, const struct msg_log_state *m) {
    bool changed = c->log_ok != (m->ok != 0);
    c->log_ok = m->ok != 0;
    c->log_error = m->error;
    if (!changed) return;
    if (c->log_ok) log_note("the log is written again; openings go on");
    else log_error("the log cannot be written: errno %u", m->error);
    core_owe(c, OWE_STATE);
    record_event(c, c->log_ok ? EVENT_LOG_RESUMED : EVENT_LOG_STOPPED, m->lost, m->error,
                 UINT32_MAX);
}

void core_from_recorder(struct core *c) {
    const uint64_t accept = PROTO_BIT(LOG_STATE) | PROTO_BIT(POLICY_USED);
    for (unsigned i = 0; i < TURN && next(c, &c->recorder, PROCESS_RECORDER, accept); i++)
        if (c->in.head.type == PROTO_LOG_STATE) log_state(c, proto_body(&c->in));
}

void core_from_control(struct core *c) {
    const uint64_t accept = PROTO_BIT(ASK_STATUS) | PROTO_BIT(ASK_OPENINGS) |
                            PROTO_BIT(ASK_RELOAD) | PROTO_BIT(POLICY_USED);
    for (unsigned i = 0; i < TURN && next(c, &c->control, PROCESS_CONTROL, accept); i++) {
        switch (c->in.head.type) {
        case PROTO_ASK_STATUS: status_ask(c); break;
        case PROTO_ASK_OPENINGS: status_openings(c); break;
        case PROTO_ASK_RELOAD: reload_ask(c); break;
        default: break;
        }
    }
}

/* A child that has just begun knows neither state nor, if that changed meanwhile, the policy. */
static void child_began(struct core *c, uint32_t process) {
    switch (process) {
    case PROCESS_RESOLVER:
        c->stats = (struct msg_stats){0};
        core_owe(c, OWE_STATE | OWE_POLICY_RESOLVER);
        break;
    case PROCESS_RECORDER: core_owe(c, OWE_POLICY_RECORDER); break;
    case PROCESS_CONTROL: core_owe(c, OWE_POLICY_CONTROL); break;
    default: break;
    }
}

static void child_told(struct core *c, const struct msg_child *m) {
    c->children[m->process] = (struct core_child){.pid = m->running ? m->pid : 0,
                                                  .restarts = m->restarts};
    if (m->running) child_began(c, m->process);
    else record_event(c, EVENT_CHILD_ENDED, m->status, m->process, UINT32_MAX);
}

static void stop(struct core *c) {
    record_all_flows(c);
    record_denied(c);
    record_second(c);
    record_event(c, EVENT_STOP, 0, 0, UINT32_MAX);
    proto_begin(&c->out, PROTO_STOPPED, 0);
    core_send(c, &c->supervisor);
    c->stopping = true;
}

void core_from_supervisor(struct core *c) {
    const uint64_t accept = PROTO_BIT(LOADED) | PROTO_BIT(CHILD) | PROTO_BIT(STOP);
    while (!c->stopping && next(c, &c->supervisor, PROCESS_CORE, accept)) {
        switch (c->in.head.type) {
        case PROTO_LOADED: reload_loaded(c); break;
        case PROTO_CHILD: child_told(c, proto_body(&c->in)); break;
        default: stop(c); break;
        }
    }
}
