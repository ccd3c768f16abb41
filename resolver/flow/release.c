/* release.c: how a query ends: what the record says and what the client is told.
 *
 * The four release functions are the only ones that make a reply, and only release_addrs() gives it
 * addresses: it takes a `const struct opened`, which the kernel's acknowledgement alone makes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "resolver/flow/engine.h"

#define RULE_TEXT_MAX 96 /* in EXTRA-TEXT: a reply over UDP has little room */

/* ---- release ---------------------------------------------------------------------------------- */

static void count(struct flow *f, const struct query *q) {
    switch (reason_answer(q->reason)) {
    case ANSWER_FAIL:
        f->stats.failed++;
        f->stats.open_late += q->reason == REASON_OPEN_LATE;
        break;
    case ANSWER_OK:
        f->stats.answered++;
        break;
    default:
        if (q->reason == REASON_NO_NAME || q->reason == REASON_NO_DATA)
            f->stats.answered++;
        else
            f->stats.denied++;
    }
}

static void release(struct flow *f, struct query *q, enum content content, enum reason reason,
                    uint8_t rcode) {
    usec_t now = flow_now(f);
    query_settle(f, q);
    q->stage = STAGE_RELEASED;
    q->content = content;
    q->reason = reason;
    q->rcode = rcode;
    usec_t latency = now - q->arrived;
    q->latency = latency > UINT32_MAX ? UINT32_MAX : (uint32_t)latency;
    q->grudging = f->gateway->when_full == WHEN_FULL_DROP;
    q->note[0] = '\0';
    q->soa = false;
    q->opened = q->opened_seconds = 0;
    count(f, q);
    action_queue(f, &q->action, FLOW_RELEASE);
}

int release_addrs(struct flow *f, struct query *q, const struct opened *o, bool last) {
    usec_t now = flow_now(f);
    int64_t ttl = opened_ttl(o, f->gateway->grace, now);
    if (ttl < 1 && !last)
        return -EAGAIN;
    if (ttl < 0)
        return -ETIME;
    uint32_t rest = query_rest(q, now);
    usec_t seconds = (opened_deadline(o) - q->arrived) / USEC_PER_SEC;
    release(f, q, CONTENT_ADDRS, REASON_ALLOWED, RC_NOERROR);
    vetted_unref(q->vetted);
    q->vetted = opened_answer(o); /* what was opened is what is told */
    q->ttl = ttl < rest ? (uint32_t)ttl : rest;
    q->opened = opened_count(o);
    q->opened_seconds = q->opened == 0                ? 0
                        : seconds > PROTO_LIFETIME_MAX ? PROTO_LIFETIME_MAX
                                                       : (uint32_t)seconds;
    return 0;
}

void release_others(struct flow *f, struct query *q, const struct permitted *p) {
    enum vetted_kind kind = vetted_kind(permitted_vetted(p));
    if (kind == VETTED_NXDOMAIN &&
        !lookup_other_family_exists(f, &q->wire.name, q->wire.type)) {
        release(f, q, CONTENT_NONE, REASON_NO_NAME, RC_NXDOMAIN);
        q->soa = true;
    } else if (kind == VETTED_OTHERS) {
        release(f, q, CONTENT_OTHERS, REASON_ALLOWED, RC_NOERROR);
    } else {
        release(f, q, CONTENT_NONE, REASON_NO_DATA, RC_NOERROR);
        q->soa = true;
    }
    q->ttl = query_rest(q, flow_now(f));
}

void release_ptr(struct flow *f, struct query *q, const struct name *target, uint32_t ttl) {
    release(f, q, CONTENT_PTR, REASON_ALLOWED, RC_NOERROR);
    q->ttl = ttl;
    q->ptr = *target;
}

/* tool@version:line, deny:line or default: enough for an operator to find the rule, and nothing of
 * how the gateway's files are laid out. */
static void rule_text(const struct policy *p, const struct decision *d, char text[RULE_TEXT_MAX]) {
    if (d->deny != POLICY_NONE) {
        snprintf(text, RULE_TEXT_MAX, "deny:%u", policy_deny(p, d->deny)->line);
    } else if (d->endpoint != POLICY_NONE) {
        const struct policy_endpoint *e = policy_endpoint(p, d->endpoint);
        const struct policy_tool *t = policy_tool(p, e->tool);
        snprintf(text, RULE_TEXT_MAX, "%.40s@%.30s:%u", policy_text(p, t->name),
                 policy_text(p, t->version), e->line);
    } else {
        snprintf(text, RULE_TEXT_MAX, "default");
    }
}

static uint8_t denied_rcode(const struct flow *f) {
    switch ((enum policy_deny_answer)f->gateway->deny) {
    case DENY_REFUSED: return RC_REFUSED;
    case DENY_NODATA: return RC_NOERROR;
    case DENY_NXDOMAIN: break;
    }
    return RC_NXDOMAIN;
}

static uint8_t rcode_of(const struct flow *f, enum reason reason) {
    switch (reason_answer(reason)) {
    case ANSWER_DENY: return denied_rcode(f);
    case ANSWER_NX: return RC_NXDOMAIN;
    case ANSWER_OK:
    case ANSWER_HINFO:
    case ANSWER_NODATA: return RC_NOERROR;
    case ANSWER_REFUSED: return RC_REFUSED;
    case ANSWER_FORMERR: return RC_FORMERR;
    case ANSWER_NOTIMP: return RC_NOTIMP;
    case ANSWER_BADVERS: return RC_BADVERS;
    case ANSWER_FAIL:
    case ANSWER_NONE: break;
    }
    return RC_SERVFAIL;
}

void release_refuse(struct flow *f, struct query *q, enum reason reason) {
    uint8_t rcode = rcode_of(f, reason);
    if (reason == REASON_CHAIN_DENIED && q->vetted) {
        const struct wire_hop *hops;
        unsigned n = vetted_chain(q->vetted, &hops);
        for (unsigned i = 0; i < n && q->decision.deny == POLICY_NONE; i++)
            q->decision.deny = policy_denies(f->policy, hops[i].target);
    }
    release(f, q, CONTENT_NONE, reason, rcode);
    q->soa = (rcode == RC_NXDOMAIN || rcode == RC_NOERROR) &&
             reason_answer(reason) != ANSWER_HINFO;
    q->ttl = DENIED_TTL;
    if (!q->wire.edns || reason_ede(reason) == EDE_NONE)
        return;
    if (reason_answer(reason) == ANSWER_FAIL) {
        snprintf(q->note, NOTE_MAX, "failed %s ref=%016llx", reason_tag(reason),
                 (unsigned long long)q->ref);
        return;
    }
    char rule[RULE_TEXT_MAX];
    rule_text(f->policy, &q->decision, rule);
    snprintf(q->note, NOTE_MAX, "denied %s rule=%s ref=%016llx", reason_tag(reason), rule,
             (unsigned long long)q->ref);
}

/* ---- record ----------------------------------------------------------------------------------- */

static const struct query *query_of(const struct flow_action *a) {
    return (const struct query *)((uintptr_t)a - offsetof(struct query, action));
}

/* The chain is recorded however the query ended; addresses when they were told or when they are what
 * it was denied for. */
static unsigned record_parts(const struct query *q, const struct wire_hop **hops, unsigned *hop_count,
                             const struct addr **addrs) {
    *hop_count = 0;
    if (!q->vetted)
        return 0;
    *hop_count = vetted_chain(q->vetted, hops);
    if (q->content == CONTENT_ADDRS || q->reason == REASON_REBINDING)
        return vetted_addrs(q->vetted, addrs);
    return 0;
}

void flow_record(struct flow *f, const struct flow_action *a, struct proto_message *m) {
    (void)f;
    const struct query *q = query_of(a);
    const struct wire_hop *hops = NULL;
    const struct addr *addrs = NULL;
    unsigned hop_count, addr_count = record_parts(q, &hops, &hop_count, &addrs);
    struct msg_query *r = proto_begin(m, PROTO_QUERY, hop_count + addr_count);
    r->time = q->arrived_realtime;
    r->policy = q->policy;
    r->ref = q->ref;
    r->client = q->peer.client;
    r->client_port = q->peer.port;
    if (q->wire.question) {
        r->type = q->wire.type;
        r->name = q->wire.name;
    }
    r->reason = q->reason;
    r->rcode = q->rcode;
    r->agent = q->decision.agent;
    r->endpoint = q->decision.endpoint;
    r->deny = q->decision.deny;
    r->opened = q->opened;
    r->opened_seconds = q->opened_seconds;
    r->latency_usec = q->latency;
    r->transport = q->peer.transport;
    r->from = q->from;
    if (q->from == FROM_UPSTREAM)
        r->upstream = q->upstream;
    for (unsigned i = 0; i < hop_count; i++) {
        struct msg_query_item *item = proto_item(m, i);
        item->ttl = hops[i].ttl;
        item->name = *hops[i].target;
    }
    for (unsigned i = 0; i < addr_count; i++) {
        struct msg_query_item *item = proto_item(m, hop_count + i);
        item->kind = 1;
        item->ttl = q->content == CONTENT_ADDRS ? q->ttl : 0;
        item->remote = addrs[i];
    }
}

/* ---- reply ------------------------------------------------------------------------------------ */

const struct flow_peer *flow_reply_to(const struct flow_action *a) { return &query_of(a)->peer; }

static void reply_content(const struct query *q, struct wire_reply *r, struct wire_record *ptr) {
    if (q->vetted && (q->content != CONTENT_NONE || q->reason == REASON_NO_NAME ||
                      q->reason == REASON_NO_DATA))
        r->chain_count = vetted_chain(q->vetted, &r->chain);
    switch (q->content) {
    case CONTENT_ADDRS:
        r->addr_count = vetted_addrs(q->vetted, &r->addrs);
        break;
    case CONTENT_OTHERS:
        r->other_count = vetted_others(q->vetted, &r->others);
        break;
    case CONTENT_PTR:
        ptr->owner = q->wire.name;
        ptr->type = TYPE_PTR;
        ptr->class = 1;
        ptr->ttl = q->ttl;
        ptr->rdata = q->ptr.wire;
        ptr->rdata_size = q->ptr.length;
        r->others = ptr;
        r->other_count = 1;
        break;
    case CONTENT_NONE:
        break;
    }
}

int flow_reply(struct flow *f, const struct flow_action *a, bool recorded, uint8_t *out,
               size_t size) {
    (void)f;
    const struct query *q = query_of(a);
    size_t limit = q->peer.transport == TRANSPORT_TCP ? WIRE_MAX : q->wire.udp_size;
    if (limit > WIRE_UDP_SIZE && q->peer.transport != TRANSPORT_TCP)
        limit = WIRE_UDP_SIZE;
    if (!recorded && !q->grudging) {
        struct wire_reply unrecorded = {.rcode = RC_SERVFAIL, .ede = reason_ede(REASON_LOG_FULL),
                                        .ede_text = "failed log-full"};
        return wire_build_reply(&q->wire, &unrecorded, limit, out, size);
    }
    struct wire_record ptr;
    struct wire_reply r = {
        .rcode = q->rcode,
        .synthetic_soa = q->soa,
        .soa_ttl = q->ttl,
        .ttl = q->ttl,
        .ede = reason_ede(q->reason),
        .ede_text = q->note[0] ? q->note : NULL,
        .hinfo = reason_answer(q->reason) == ANSWER_HINFO,
    };
    reply_content(q, &r, &ptr);
    return wire_build_reply(&q->wire, &r, limit, out, size);
}
