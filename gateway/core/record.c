/* record.c: what core tells the recorder: events, flows that ended, denied packets. */
#include <errno.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/core/core.h"
#include "gateway/core/selftest.h"

#define DRAIN_MAX 4096u /* turns: a kernel that never stops telling must not hold us */

/* ---- events -------------------------------------------------------------------------------- */

static bool is_lost(int r) { return r == -EAGAIN; }

/* A message that is sent again, or whose loss is told otherwise, leaves no gap in the numbers. */
static int send_unnumbered_if_lost(struct core *c) {
    int r = core_send(c, &c->recorder);
    if (is_lost(r)) {
        c->recorder.sent--;
        c->counts.records_lost--;
    }
    return r;
}

bool record_pay(struct core *c) {
    while (c->event_count > 0) {
        struct msg_event *m = proto_begin(&c->out, PROTO_EVENT, 0);
        *m = c->events[c->event_first];
        if (is_lost(send_unnumbered_if_lost(c))) return false;
        c->event_first = (c->event_first + 1) % CORE_EVENTS_MAX;
        c->event_count--;
    }
    return true;
}

void record_event(struct core *c, enum event_code code, uint64_t count, uint64_t other,
                  uint32_t uid) {
    if (c->event_count == CORE_EVENTS_MAX) {
        /* The recorder sees this one as a gap in the numbers, and says so. */
        c->recorder.sent++;
        c->counts.records_lost++;
        return;
    }
    c->events[(c->event_first + c->event_count++) % CORE_EVENTS_MAX] = (struct msg_event){
        .time = clock_realtime(c->config.clock), .policy = c->image.id, .code = code, .uid = uid,
        .count = count, .other = other};
    core_pay(c);
}

/* ---- flows --------------------------------------------------------------------------------- */

static void flow_began(struct core *c, struct flow *flow) {
    struct ledger_claim claim;
    if (ledger_shown(c->ledger, &flow->key, NULL, &claim) && claim.mark == flow->mark)
        flow->name = claim.name;
    flows_add(c->flows, flow);
}

static void flow_ended(struct core *c, const struct conntrack_flow *told, const struct flow *flow) {
    struct msg_flow *m = proto_begin(&c->out, PROTO_FLOW, 0);
    const struct policy *p = &c->record->policy;
    m->time = clock_realtime(c->config.clock);
    m->policy = c->record->id;
    m->id = flow->id;
    m->client = flow->key.client;
    m->remote = flow->key.remote;
    m->client_port = flow->client_port;
    m->remote_port = flow->key.port;
    m->protocol = flow->key.protocol;
    m->mark = flow->mark;
    if (!marks_read(c->marks, p, flow->mark, &m->agent, &m->endpoint))
        m->agent = m->endpoint = POLICY_NONE;
    m->end = flow->revoked ? FLOW_REVOKED : FLOW_ENDED;
    name_ref_read(flow->name, &m->name);
    m->bytes_out = told->bytes_out;
    m->bytes_in = told->bytes_in;
    m->packets_out = told->packets_out;
    m->packets_in = told->packets_in;
    uint64_t stop_ns = told->stop_ns ? told->stop_ns : m->time * 1000;
    uint64_t start_ns = told->start_ns ? told->start_ns : flow->start_ns;
    if (start_ns && stop_ns > start_ns) m->duration_usec = (stop_ns - start_ns) / 1000;
    c->counts.flows_ended++;
    core_send(c, &c->recorder);
}

static int on_flow(void *ctx, const struct conntrack_flow *told) {
    struct core *c = ctx;
    if (told->mark == 0 || told->mark == SELFTEST_MARK) return 0;
    struct flow flow = flow_of(told), known;
    if (told->event == CONNTRACK_NEW) {
        flow_began(c, &flow);
        share_judge(c, told);
        return 0;
    }
    if (flows_take(c->flows, &flow, &known)) {
        flow_ended(c, told, &known);
        names_drop(c->names, known.name);
    } else {
        flow_ended(c, told, &flow); /* found no room, or began before our time */
    }
    return 0;
}

bool record_flows(struct core *c) {
    int r = conntrack_receive(c->conntrack, on_flow, c);
    if (r == -ENOBUFS) reconcile_flows(c);
    else if (r < 0 && r != -EAGAIN) log_error("reading flow events: %s", strerror(-r));
    return r > 0;
}

void record_all_flows(struct core *c) {
    for (unsigned i = 0; i < DRAIN_MAX && record_flows(c); i++) {}
}

/* ---- denied packets ------------------------------------------------------------------------ */

static int on_denied(void *ctx, const struct msg_denied *packet) {
    struct core *c = ctx;
    struct msg_denied *m = proto_begin(&c->out, PROTO_DENIED, 0);
    *m = *packet;
    c->counts.denied_packets++;
    if (is_lost(send_unnumbered_if_lost(c))) c->denied_lost++;
    return 0;
}

void record_denied(struct core *c) {
    int r = denied_receive(c->denied, on_denied, c);
    if (r < 0 && r != -EAGAIN) log_error("reading denied packets: %s", strerror(-r));
}

void record_second(struct core *c) {
    c->denied_lost += denied_lost(c->denied);
    if (c->denied_lost == 0) return;
    record_event(c, EVENT_LOST_DENIED, c->denied_lost, 0, UINT32_MAX);
    c->counts.denied_lost += c->denied_lost;
    c->denied_lost = 0;
}
