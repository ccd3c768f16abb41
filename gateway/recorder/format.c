/* format.c: messages to records. */
#include "gateway/recorder/format.h"

#include <errno.h>
#include <string.h>

static void common(struct record *r, const struct images *im, enum record_kind kind, usec_t time,
                   uint64_t sequence) {
    record_begin(r, kind, time, sequence);
    record_text(r, FIELD_GATEWAY, images_gateway(im));
}

/* The digest; of an image that is not known here, the part of it that the message holds. */
static void put_policy(struct record *r, const struct image *i, uint64_t id) {
    if (i != NULL) {
        record_text(r, FIELD_POLICY, i->digest);
    } else if (id != 0) {
        uint8_t b[8]; /* policy_id() is the first bytes as they stand */
        memcpy(b, &id, sizeof b);
        record_format(r, FIELD_POLICY, "%02x%02x%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
                      b[4], b[5], b[6], b[7]);
    }
}

static void put_agent(struct record *r, const struct image *i, uint32_t agent) {
    if (i == NULL || agent >= policy_agent_count(&i->policy)) return;
    record_text(r, FIELD_AGENT, policy_text(&i->policy, policy_agent(&i->policy, agent)->name));
}

/* Tool and rule. An index the image does not have is not looked up, and then there is no rule. */
static void put_rule(struct record *r, const struct image *i, uint32_t reason, uint32_t agent,
                     uint32_t endpoint, uint32_t deny) {
    if (i == NULL) return;
    const struct policy *p = &i->policy;
    if (agent != POLICY_NONE && agent >= policy_agent_count(p)) return;
    if (endpoint != POLICY_NONE && endpoint >= policy_endpoint_count(p)) return;
    if (deny != POLICY_NONE && deny >= policy_deny_count(p)) return;
    struct decision d = {
        .reason = (enum reason)reason, .agent = agent, .deny = deny, .endpoint = endpoint};
    if (endpoint != POLICY_NONE) {
        const struct policy_tool *t = policy_tool(p, policy_endpoint(p, endpoint)->tool);
        record_format(r, FIELD_TOOL, "%s@%s", policy_text(p, t->name), policy_text(p, t->version));
        d.count = 1;
        d.endpoints[0] = endpoint;
    }
    char text[POLICY_RULE_TEXT_MAX];
    record_copy(r, FIELD_RULE, policy_rule_text(p, &d, text));
}

static void put_answers(struct record *r, const struct msg_query_item *items, unsigned count) {
    record_list_begin(r, FIELD_CHAIN);
    for (unsigned i = 0; i < count; i++)
        if (items[i].kind == 0) record_list_name(r, FIELD_CHAIN, &items[i].name);
    record_list_end(r, FIELD_CHAIN);
    record_list_begin(r, FIELD_ANSWERS);
    for (unsigned i = 0; i < count; i++)
        if (items[i].kind == 1) record_list_address(r, FIELD_ANSWERS, &items[i].remote);
    record_list_end(r, FIELD_ANSWERS);
    record_list_begin(r, FIELD_TTLS);
    for (unsigned i = 0; i < count; i++)
        if (items[i].kind == 1) record_list_number(r, FIELD_TTLS, items[i].ttl);
    record_list_end(r, FIELD_TTLS);
}

void format_query(struct record *r, const struct images *im, uint64_t sequence,
                  const struct msg_query *q, const struct msg_query_item *items, unsigned count) {
    char text[16];
    const struct image *i = images_find(im, q->policy);
    common(r, im, KIND_QUERY, q->time, sequence);
    put_policy(r, i, q->policy);
    put_agent(r, i, q->agent);
    put_rule(r, i, q->reason, q->agent, q->endpoint, q->deny);
    record_address(r, FIELD_SOURCE, &q->client);
    record_text(r, FIELD_DECISION, decision_of(q->reason));
    record_text(r, FIELD_REASON, reason_tag(q->reason));
    record_name(r, FIELD_NAME, &q->name);
    if (q->name.length != 0) record_copy(r, FIELD_TYPE, type_name(q->type, text));
    record_copy(r, FIELD_RCODE, rcode_name(q->rcode, text));
    put_answers(r, items, count);
    record_number(r, FIELD_OPENED, q->opened);
    if (q->opened > 0 && q->opened_seconds > 0 && q->time < UINT64_MAX / 2)
        record_time(r, FIELD_OPENED_UNTIL, q->time + q->opened_seconds * USEC_PER_SEC);
    record_address(r, FIELD_UPSTREAM, &q->upstream);
    if (q->from != FROM_NONE) record_text(r, FIELD_CACHE, q->from == FROM_CACHE ? "hit" : "miss");
    record_number(r, FIELD_LATENCY, q->latency_usec);
    record_text(r, FIELD_TRANSPORT, q->transport == TRANSPORT_TCP ? "tcp" : "udp");
    record_number(r, FIELD_CLIENT_PORT, q->client_port);
    record_format(r, FIELD_REF, "%016llx", (unsigned long long)q->ref);
}

void format_flow(struct record *r, const struct images *im, uint64_t sequence,
                 const struct msg_flow *f) {
    static const char *const ends[] = {
        [FLOW_ENDED] = "ended", [FLOW_REVOKED] = "revoked", [FLOW_KILLED] = "killed"};
    char text[4];
    const struct image *i = images_find(im, f->policy);
    common(r, im, KIND_FLOW, f->time, sequence);
    put_policy(r, i, f->policy);
    put_agent(r, i, f->agent);
    if (f->endpoint != POLICY_NONE)
        put_rule(r, i, REASON_ALLOWED, f->agent, f->endpoint, POLICY_NONE);
    record_address(r, FIELD_SOURCE, &f->client);
    record_text(r, FIELD_DECISION, "allow");
    record_text(r, FIELD_REASON, reason_tag(REASON_ALLOWED));
    record_name(r, FIELD_NAME, &f->name);
    record_number(r, FIELD_CLIENT_PORT, f->client_port);
    record_address(r, FIELD_REMOTE, &f->remote);
    record_number(r, FIELD_PORT, f->remote_port);
    record_copy(r, FIELD_PROTOCOL, protocol_name((uint8_t)f->protocol, text));
    record_number(r, FIELD_BYTES_OUT, f->bytes_out);
    record_number(r, FIELD_BYTES_IN, f->bytes_in);
    record_number(r, FIELD_PACKETS_OUT, f->packets_out);
    record_number(r, FIELD_PACKETS_IN, f->packets_in);
    record_number(r, FIELD_DURATION, f->duration_usec);
    if (f->end <= FLOW_KILLED) record_text(r, FIELD_END, ends[f->end]);
    record_number(r, FIELD_FLOW_ID, f->id);
    record_number(r, FIELD_MARK, f->mark);
}

static const char *denial_note(const struct denial *d) {
    if (d->folded) return "folded";
    switch ((enum packet_note)d->note) {
    case PACKET_FRAGMENT:
        return "fragment";
    case PACKET_TRUNCATED:
        return "truncated";
    case PACKET_MALFORMED:
        return "malformed";
    case PACKET_WHOLE:
        break;
    }
    return NULL;
}

/* Whose packet it was: the sender's, or of one from outside the receiver's. A spoofed source names
 * nobody. */
static uint32_t denial_agent(const struct image *i, const struct denial *d) {
    const struct addr *whose = d->reason == REASON_UNSOLICITED ? &d->remote : &d->source;
    if (d->reason == REASON_SPOOFED || whose->family == 0) return POLICY_NONE;
    return policy_agent_of(&i->policy, whose);
}

void format_denial(struct record *r, const struct images *im, uint64_t sequence,
                   const struct denial *d) {
    char text[4];
    const struct image *i = images_current(im);
    common(r, im, KIND_DENIED, d->first, sequence);
    put_policy(r, i, 0);
    if (i != NULL) put_agent(r, i, denial_agent(i, d));
    record_address(r, FIELD_SOURCE, &d->source);
    record_text(r, FIELD_DECISION, "deny");
    record_text(r, FIELD_REASON, reason_tag(d->reason));
    record_text(r, FIELD_RULE, "default");
    record_address(r, FIELD_REMOTE, &d->remote);
    if (d->has_protocol) record_copy(r, FIELD_PROTOCOL, protocol_name(d->protocol, text));
    if (d->has_ports) {
        record_number(r, FIELD_CLIENT_PORT, d->source_port);
        record_number(r, FIELD_PORT, d->port);
    }
    if (d->has_icmp) {
        record_number(r, FIELD_ICMP_TYPE, d->icmp_type);
        record_number(r, FIELD_ICMP_CODE, d->icmp_code);
    }
    char interface[sizeof d->interface + 1] = "";
    memcpy(interface, d->interface, sizeof d->interface);
    if (interface[0] != '\0') record_copy(r, FIELD_INTERFACE, interface);
    record_text(r, FIELD_NOTE, denial_note(d));
    record_time(r, FIELD_UNTIL, d->last);
    record_number(r, FIELD_COUNT, d->count);
}

/* Puts the numbers into the sentence of the table: `count`, and `other` or the process it is. */
static void put_sentence(struct record *r, const char *text, uint64_t count, uint64_t other,
                         const char *process) {
    char sentence[512];
    struct buf b = buf_over(sentence, sizeof sentence - 1);
    while (*text != '\0') {
        if (strncmp(text, "`count`", 7) == 0) {
            buf_put_u64(&b, count);
            text += 7;
        } else if (strncmp(text, "`other`", 7) == 0) {
            if (process != NULL)
                buf_put_text(&b, process);
            else
                buf_put_u64(&b, other);
            text += 7;
        } else {
            buf_put_char(&b, *text++);
        }
    }
    sentence[b.used] = '\0';
    record_copy(r, FIELD_TEXT, sentence);
}

void format_event(struct record *r, const struct images *im, uint64_t sequence,
                  const struct msg_event *e) {
    char tag[32];
    common(r, im, event_kind(e->code), e->time, sequence);
    put_policy(r, images_find(im, e->policy), e->policy);
    if (event_tag(e->code, tag) == NULL) return;
    bool process = event_names_process(e->code) && e->other < PROCESS_COUNT;
    record_copy(r, FIELD_EVENT, tag);
    record_number(r, FIELD_COUNT, e->count);
    if (process)
        record_text(r, FIELD_PROCESS, process_name((uint32_t)e->other));
    else
        record_number(r, FIELD_OTHER, e->other);
    if (e->uid != UINT32_MAX) record_number(r, FIELD_UID, e->uid);
    put_sentence(r, event_text(e->code), e->count, e->other,
                 process ? process_name((uint32_t)e->other) : NULL);
}

void format_own(struct record *r, const struct images *im, uint64_t sequence,
                const struct own_record *o) {
    static const struct {
        const char *tag, *text;
    } own[OWN_COUNT] = {
#define X(id, tag, text) [OWN_##id] = {tag, text},
        OWN_EVENT_TABLE(X)
#undef X
    };
    common(r, im, KIND_LOSS, o->time, sequence);
    put_policy(r, images_current(im), 0);
    const char *process = o->process < PROCESS_COUNT ? process_name(o->process) : NULL;
    record_text(r, FIELD_EVENT, own[o->event].tag);
    record_number(r, FIELD_COUNT, o->count);
    record_text(r, FIELD_PROCESS, process);
    if (o->error != 0) record_text(r, FIELD_ERROR, strerrorname_np(o->error));
    if (o->duration != 0) record_number(r, FIELD_DURATION, o->duration);
    put_sentence(r, own[o->event].text, o->count, 0, process);
}
