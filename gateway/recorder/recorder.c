/* recorder.c: messages in, records into the queue. */
#include "gateway/recorder/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/recorder/output.h"

#define RECEIVE_MAX 256 /* messages of one channel before the other has its turn */

static const uint64_t accepted[SENDER_COUNT] = {
    [SENDER_CORE] = PROTO_BIT(POLICY) | PROTO_BIT(DENIED) | PROTO_BIT(FLOW) | PROTO_BIT(EVENT),
    [SENDER_RESOLVER] = PROTO_BIT(QUERY),
};

/* ---- losses -------------------------------------------------------------------------------- */

static void lose(struct recorder *r, uint64_t *which, uint64_t count) {
    *which += count;
    r->state.now.lost += count;
}

static uint64_t *lost_by(struct recorder *r, enum sender from) {
    return from == SENDER_CORE ? &r->state.now.lost_core : &r->state.now.lost_resolver;
}

static uint64_t *done_by(struct recorder *r, enum sender from) {
    return from == SENDER_CORE ? &r->state.now.done_core : &r->state.now.done_resolver;
}

/* A gap is what the sender could not send, or what a predecessor of ours read and took with it. A
 * number that does not go up is a sender that was started again; what it lost before its first
 * message to arrive is counted too, what its predecessor lost at the end cannot be known. */
static void note_sequence(struct recorder *r, enum sender from, uint64_t sequence) {
    uint64_t *done = done_by(r, from);
    uint64_t expected = sequence > *done ? *done + 1 : 1;
    if (sequence > expected) lose(r, lost_by(r, from), sequence - expected);
    *done = sequence;
}

/* ---- messages ------------------------------------------------------------------------------ */

static void apply_policy(struct recorder *r) {
    const struct image *i = images_current(&r->images);
    const struct policy_gateway *g = policy_gateway(&i->policy);
    r->store.segment_bytes =
        g->log_segment_bytes != 0 ? g->log_segment_bytes : STORE_SEGMENT_DEFAULT;
    r->store.keep = g->log_keep;
    r->tell = true; /* when_full may have changed what the state means */
}

static void take_policy(struct recorder *r, struct proto_message *m) {
    const struct msg_policy *body = proto_body(m);
    uint64_t id = body->policy;
    int e = images_add(&r->images, m->fds[0]);
    if (e < 0) {
        log_error("core sent a policy image that cannot be used: %s", strerror(-e));
        return;
    }
    if (images_current(&r->images)->id != id) log_error("core sent an image under another name");
    apply_policy(r);
    struct proto_message *answer = &r->answer;
    struct msg_policy *used = proto_begin(answer, PROTO_POLICY_USED, 0);
    used->policy = images_current(&r->images)->id;
    e = channel_send(&r->channels[SENDER_CORE], answer);
    if (e < 0) log_warn("cannot tell core that the policy is in use: %s", strerror(-e));
}

static void take_query(struct recorder *r, struct proto_message *m) {
    const struct msg_query *q = proto_body(m);
    const struct msg_query_item *items = m->head.items > 0 ? proto_item(m, 0) : NULL;
    format_query(&r->record, &r->images, r->state.now.sequence + 1, q, items, m->head.items);
    if (!output_put(r, false)) lose(r, &r->state.now.lost_resolver, 1);
}

static void take_denied(struct recorder *r, struct proto_message *m) {
    const struct msg_denied *d = proto_body(m);
    struct packet p;
    size_t size = d->length < sizeof d->bytes ? d->length : sizeof d->bytes;
    packet_parse(d->bytes, size, d->protocol, &p);
    denials_add(r->denials, &p, d->reason, d->interface_name, d->time, clock_now(r->clock));
    r->state.now.held++;
}

static void take_message(struct recorder *r, enum sender from, struct proto_message *m) {
    note_sequence(r, from, m->head.sequence);
    switch (m->head.type) {
    case PROTO_QUERY:
        take_query(r, m);
        break;
    case PROTO_DENIED:
        take_denied(r, m);
        break;
    case PROTO_FLOW:
        format_flow(&r->record, &r->images, r->state.now.sequence + 1, proto_body(m));
        if (!output_put(r, false)) lose(r, &r->state.now.lost_core, 1);
        break;
    case PROTO_EVENT:
        format_event(&r->record, &r->images, r->state.now.sequence + 1, proto_body(m));
        if (!output_put(r, true)) lose(r, &r->state.now.lost_core, 1);
        break;
    case PROTO_POLICY:
        take_policy(r, m);
        break;
    }
    state_commit(&r->state);
}

/* The resolver can be on a new policy before we have read of it: core's message is then in the
 * other channel. */
static void policy_first(struct recorder *r, struct proto_message *m) {
    const struct msg_query *q = proto_body(m);
    if (m->head.type == PROTO_QUERY && images_find(&r->images, q->policy) == NULL)
        recorder_receive(r, SENDER_CORE);
}

int recorder_receive(struct recorder *r, enum sender from) {
    struct proto_message *m = &r->messages[from]; /* one each: policy_first() reads in between */
    for (unsigned i = 0; i < RECEIVE_MAX && recorder_wants(r, from); i++) {
        int e = channel_receive(&r->channels[from], m, accepted[from]);
        if (e == -EBADMSG) {
            r->bad[from]++;
            continue;
        }
        if (e <= 0) return e;
        policy_first(r, m);
        take_message(r, from, m);
    }
    return 1;
}

bool recorder_wants(const struct recorder *r, enum sender from) {
    return from != SENDER_RESOLVER || !output_failing(r) || !output_refuses(r) || output_room(r);
}

/* ---- time ---------------------------------------------------------------------------------- */

/* While the log cannot be written packets go on being counted in the table, where nothing of them
 * is lost but their times. */
static void write_denials(struct recorder *r, usec_t until) {
    const struct denial *d;
    while (!output_failing(r) && (d = denials_due(r->denials, until)) != NULL) {
        format_denial(&r->record, &r->images, r->state.now.sequence + 1, d);
        if (!output_put(r, false)) {
            if (output_failing(r)) return; /* it failed just now: as above */
            lose(r, &r->state.now.lost_denied, d->count);
        }
        r->state.now.held -= d->count < r->state.now.held ? d->count : r->state.now.held;
        denials_drop(r->denials);
        state_commit(&r->state);
    }
}

static void report_bad(struct recorder *r) {
    static const uint32_t process[SENDER_COUNT] = {PROCESS_CORE, PROCESS_RESOLVER};
    for (enum sender from = 0; from < SENDER_COUNT; from++) {
        if (r->bad[from] == 0) continue;
        struct own_record o = {
            .event = OWN_BAD_MESSAGES, .count = r->bad[from], .process = process[from]};
        if (!output_put_own(r, &o)) return;
        log_error("%llu impossible messages came from %s", (unsigned long long)r->bad[from],
                  process_name(process[from]));
        r->bad[from] = 0;
    }
}

void recorder_flush(struct recorder *r) {
    if (!output_failing(r)) output_tell_losses(r);
    output_flush(r);
    output_tell(r);
}

void recorder_tick(struct recorder *r) {
    usec_t now = clock_now(r->clock);
    if (output_failing(r) && now >= r->next_retry) output_retry(r);
    write_denials(r, now);
    if (now >= r->next_sync) {
        r->next_sync = now + RECORDER_SYNC;
        if (!output_failing(r)) report_bad(r);
        output_sync(r);
    }
    if (now >= r->next_tell) r->tell = true;
    recorder_flush(r);
}

usec_t recorder_wait(const struct recorder *r) {
    usec_t now = clock_now(r->clock), next = r->next_tell;
    if (r->next_sync < next) next = r->next_sync;
    if (output_failing(r)) {
        if (r->next_retry < next) next = r->next_retry;
    } else if (denials_next(r->denials) < next) {
        next = denials_next(r->denials);
    }
    return next > now ? next - now : 0;
}

/* ---- life ---------------------------------------------------------------------------------- */

int recorder_start(struct recorder *r, const struct recorder_setup *setup) {
    memset(r, 0, sizeof *r);
    r->clock = setup->clock;
    for (enum sender from = 0; from < SENDER_COUNT; from++)
        r->channels[from].fd = setup->channels[from];
    store_init(&r->store, setup->directory, setup->clock);
    if (setup->host != NULL) snprintf(r->images.host, sizeof r->images.host, "%s", setup->host);
    r->denials = denials_new();
    int e = images_add(&r->images, setup->image);
    if (e == 0) e = r->denials == NULL ? -ENOMEM : state_map(&r->state, setup->state);
    if (e < 0) {
        recorder_free(r);
        return e;
    }
    apply_policy(r);
    lose(r, &r->state.now.lost_denied, r->state.now.held); /* a predecessor took them along */
    r->state.now.held = 0;
    state_commit(&r->state);
    r->next_sync = clock_now(r->clock) + RECORDER_SYNC;
    output_start(r);
    recorder_flush(r);
    return 0;
}

#define STOP_ROUNDS 64 /* of RECEIVE_MAX messages: more than a channel holds */

void recorder_stop(struct recorder *r) {
    for (enum sender from = 0; from < SENDER_COUNT; from++)
        for (unsigned i = 0; i < STOP_ROUNDS && recorder_receive(r, from) > 0; i++)
            recorder_flush(r);
    if (output_failing(r)) output_retry(r);
    write_denials(r, UINT64_MAX);
    report_bad(r);
    recorder_flush(r);
    output_sync(r);
}

void recorder_free(struct recorder *r) {
    store_close(&r->store);
    state_unmap(&r->state);
    images_free(&r->images);
    r->denials = denials_free(r->denials);
}
