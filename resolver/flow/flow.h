/* flow.h: what happens to one client query, from its bytes to its reply. No I/O, no clock and no
 * randomness of its own: the shell feeds it what arrived, takes actions out and carries them out.
 *
 *   query -> admit (limits) -> decide (policy) -> cache, or ask an upstream -> vet, permit
 *         -> is it open for this client? or ask core to open -> release: record, then reply
 *
 * Each query ends in exactly one release: one record and one reply. The exceptions are counted, not
 * recorded, because nothing is decided: bytes that are no query at all, a retransmission of a query
 * in flight, and what a client sends beyond twice its rate limit.
 */
#ifndef RESOLVER_FLOW_FLOW_H
#define RESOLVER_FLOW_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "gateway/base/addr.h"
#include "gateway/base/clock.h"
#include "gateway/policy/policy.h"
#include "gateway/proto/proto.h"
#include "resolver/wire/wire.h"

struct flow;

struct flow_setup {
    struct clock clock;
    void (*random)(void *ctx, void *bytes, size_t size);
    void *random_ctx;
    usec_t hold;          /* longest wait for core, from the first time it is asked */
    usec_t lookup_limit;  /* longest wait for upstreams: a little over their own budget */
    uint32_t pending;     /* queries in flight, of all clients */
    uint32_t clients;     /* clients remembered at once */
    uint32_t cache_entries;
    size_t cache_bytes;
    uint32_t memos;       /* openings remembered */
    size_t memo_bytes;    /* answers they may pin */
};
extern const struct flow_setup flow_setup_default; /* system clock and randomness */

/* Who asked, and where the reply goes. Copied; only front and shell look at `via`. */
struct flow_peer {
    struct addr client;
    uint16_t port;
    uint16_t transport; /* enum query_transport */
    uint32_t interface; /* UDP: it came in by, 0 unknown */
    struct addr local;  /* UDP: address it was sent to */
    uint64_t via;       /* TCP: the connection */
};

/* `policy` must stay mapped until the flow is freed or told of another one. NULL: out of memory. */
struct flow *flow_new(const struct flow_setup *setup, const struct policy *policy);
struct flow *flow_free(struct flow *f); /* takes NULL; returns NULL */

/* ---- what arrives ----------------------------------------------------------------------------- */

/* Whether it will end in a release; false when it is dropped in silence, see above. */
bool flow_query(struct flow *f, const struct flow_peer *peer, const uint8_t *bytes, size_t size);
/* An upstream's answer to the lookup with this id, parsed and matched; or that there is none:
 * `reason` is one answered with SERVFAIL. Unknown ids (it came too late) are ignored. */
void flow_upstream_answer(struct flow *f, uint64_t id, const struct wire_answer *answer,
                          const struct addr *upstream);
void flow_upstream_failed(struct flow *f, uint64_t id, enum reason reason);
/* Checked messages from core. */
void flow_opened(struct flow *f, const struct msg_opened *m);
void flow_reversed(struct flow *f, const struct msg_reversed *m);
void flow_state(struct flow *f, const struct msg_state *m);
/* Another policy is in force. Pending queries are decided again. The old one must stay mapped until
 * this returns; actions taken out before it must be done. */
void flow_policy(struct flow *f, const struct policy *policy);
/* Time passed: call at flow_deadline(), or any time. */
void flow_tick(struct flow *f);
usec_t flow_deadline(const struct flow *f); /* monotonic; UINT64_MAX: none */

/* ---- what to do ------------------------------------------------------------------------------- */

enum flow_action_kind {
    FLOW_ASK,     /* ask upstreams for flow_asked() */
    FLOW_CANCEL,  /* nobody waits for that lookup any more, or nobody may: send nothing more */
    FLOW_OPEN,    /* send flow_core_message() to core */
    FLOW_REVERSE, /* the same */
    FLOW_RELEASE, /* send flow_record() to the recorder, then flow_reply() to flow_reply_to() */
};

struct flow_action {
    TAILQ_ENTRY(flow_action) link;
    enum flow_action_kind kind;
    bool queued;
};

struct flow_asked {
    uint64_t id;
    const struct name *name;
    uint16_t type;
};

/* The oldest action, or NULL. It is the caller's until flow_done(); meanwhile nothing that arrives
 * may be fed in. */
struct flow_action *flow_next(struct flow *f);
void flow_done(struct flow *f, struct flow_action *a);

struct flow_asked flow_asked(const struct flow_action *a); /* ASK, CANCEL */
void flow_core_message(struct flow *f, const struct flow_action *a, struct proto_message *m);
/* Core is behind (-EAGAIN): the message comes again as an action a little later. Instead of done. */
void flow_core_busy(struct flow *f, struct flow_action *a);

void flow_record(struct flow *f, const struct flow_action *a, struct proto_message *m);
const struct flow_peer *flow_reply_to(const struct flow_action *a);
/* Writes the reply. `recorded` false: the record could not be sent, so unless the configuration says
 * to go on without, it is SERVFAIL and carries nothing. Octets, or -ENOSPC. */
int flow_reply(struct flow *f, const struct flow_action *a, bool recorded, uint8_t *out, size_t size);

/* Adds this engine's counters to *m. */
void flow_stats(const struct flow *f, struct msg_stats *m);

#endif
