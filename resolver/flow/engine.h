/* engine.h: what the files of flow/ share. Private to the folder.
 *
 *   flow.c     the engine: actions, deadlines, inputs from core, reload
 *   query.c    one query's way: admit, decide, serve, open
 *   lookup.c   one question to upstreams, shared by all who wait for it
 *   release.c  how a query ends: record and reply
 *   client.c   limits per client
 */
#ifndef RESOLVER_FLOW_ENGINE_H
#define RESOLVER_FLOW_ENGINE_H

#include "resolver/cache/cache.h"
#include "resolver/flow/client.h"
#include "resolver/flow/flow.h"
#include "resolver/opening/opening.h"
#include "resolver/opening/slots.h"
#include "resolver/vet/vet.h"

#define ASKS_AGAIN_MAX 3               /* per query or ask: then it fails */
#define CORE_BUSY_RETRY (5 * USEC_PER_MSEC)
#define NEGATIVE_TTL_MIN 5u            /* seconds an upstream's negative answer is kept */
#define NEGATIVE_TTL_MAX 900u          /* RFC 2308 section 5 allows hours; policy and zones change */
#define DENIED_TTL 10u                 /* of the synthetic SOA under our own denials */
#define NOTE_MAX 192                   /* EXTRA-TEXT */

enum stage {
    STAGE_NEW,
    STAGE_LOOKUP,   /* in lookup->waiting */
    STAGE_OPENING,  /* in wait->waiting, in flow->holding */
    STAGE_REVERSE,  /* in flow->holding */
    STAGE_RELEASED, /* its action is queued or being carried out */
};

enum content { CONTENT_NONE, CONTENT_ADDRS, CONTENT_OTHERS, CONTENT_PTR };

/* One client query in flight. */
struct query {
    struct flow_action action; /* REVERSE, then RELEASE */
    TAILQ_ENTRY(query) waiting;
    TAILQ_ENTRY(query) holding;
    TAILQ_ENTRY(query) mine; /* client->queries */
    TAILQ_ENTRY(query) all;  /* flow->queries */
    struct query *next_free;
    enum stage stage;
    bool held;    /* in flow->holding */
    bool pending; /* in client->queries and flow->queries, and counted */
    uint32_t agent; /* under which it is counted in flow->by_agent */
    bool stale;   /* core knows a newer policy than we do: decided again when it arrives */
    struct client *client;
    struct lookup *lookup;
    struct open_wait *wait;
    uint64_t reverse_id;
    unsigned asks;       /* how often it went to core */
    usec_t hold_until;   /* set when core is asked first */
    struct vetted *vetted;
    usec_t expiry;       /* of the vetted answer */

    struct flow_peer peer;
    struct wire_query wire;
    struct decision decision;
    uint64_t policy, ref;
    usec_t arrived, arrived_realtime;
    enum query_source from;
    struct addr upstream;

    /* set by release */
    enum content content;
    enum reason reason;
    uint8_t rcode;
    bool soa;
    uint32_t ttl;        /* of records, or of the SOA */
    uint32_t opened, opened_seconds;
    uint32_t latency;
    bool grudging;       /* goes out even if it cannot be recorded */
    struct name ptr;
    char note[NOTE_MAX];
};

enum lookup_state { LOOKUP_ASKING, LOOKUP_NX, LOOKUP_ENDED };

/* One (name, type) being asked upstream. */
struct lookup {
    struct flow_action action; /* ASK, CANCEL */
    TAILQ_ENTRY(lookup) order; /* flow->lookups, oldest first */
    struct lookup *next;       /* hash chain */
    uint64_t id;
    struct name name;
    uint16_t type;
    enum lookup_state state;
    bool sent; /* the shell has seen ASK */
    usec_t deadline;
    struct vetted *nx; /* LOOKUP_NX: NXDOMAIN that waits for the other family's answer */
    struct addr upstream;
    struct query_list waiting;
};

/* One ask to core and who waits for it. */
struct open_wait {
    struct flow_action action; /* OPEN */
    TAILQ_ENTRY(open_wait) order; /* flow->waits, oldest first */
    struct asking *asking;
    struct query_list waiting;
};

TAILQ_HEAD(action_list, flow_action);
TAILQ_HEAD(lookup_list, lookup);
TAILQ_HEAD(open_wait_list, open_wait);

struct flow {
    struct flow_setup setup;
    const struct policy *policy;
    uint64_t policy_id;
    const struct policy_gateway *gateway;
    bool log_ok, ipv6_up;

    struct cache *cache;
    struct opening *opening;
    struct clients *clients;
    struct slots reverses; /* id -> query */
    struct slots lookup_ids;
    struct lookup **lookup_table;
    uint32_t lookup_mask;
    uint64_t seed;

    struct action_list actions;
    struct action_list busy; /* for core, again at busy_until */
    usec_t busy_until;
    struct query_list queries; /* pending, all stages but released */
    struct query_list holding; /* by hold_until */
    struct lookup_list lookups;
    struct open_wait_list waits;
    uint32_t pending;
    uint32_t *by_agent; /* pending queries by the policy's agents, nobody's last; NULL: no memory */
    struct query *free_queries;

    uint8_t randomness[512]; /* bytes not used yet are at its end */
    unsigned randomness_left;
    struct msg_stats stats;
};

/* flow.c */
void action_queue(struct flow *f, struct flow_action *a, enum flow_action_kind kind);
void action_remove(struct flow *f, struct flow_action *a);
uint64_t flow_random(struct flow *f);
static inline usec_t flow_now(const struct flow *f) { return clock_now(&f->setup.clock); }

/* Seconds left of the vetted answer, a begun one counting as whole, so that a fresh answer is told with
 * its whole TTL. What the opening allows is another matter and rounded down. */
static inline uint32_t query_rest(const struct query *q, usec_t now) {
    return q->expiry > now ? (uint32_t)((q->expiry - now + USEC_PER_SEC - 1) / USEC_PER_SEC) : 0;
}

/* query.c */
struct query *query_take(struct flow *f); /* NULL: out of memory */
void query_free(struct flow *f, struct query *q);
/* Takes it out of the lookup, ask or reverse question it waits for; the hold goes on. */
void query_detach(struct flow *f, struct query *q);
/* Detaches it and ends the hold: it waits for nothing any more and counts no more as pending. */
void query_settle(struct flow *f, struct query *q);
/* Counts what is pending by the agents of the present policy. */
void query_count_agents(struct flow *f);
/* Serves the vetted answer in q->vetted. */
void query_serve(struct flow *f, struct query *q);
/* What a lookup gave, for one of those who waited. Takes over the reference. */
void query_found(struct flow *f, struct query *q, struct vetted *v, usec_t expiry,
                 enum query_source from);
/* Decides again under the present policy, wherever it waits. */
void query_redecide(struct flow *f, struct query *q);
/* Ends an ask to core; nobody waits for it any more. */
void open_wait_free(struct flow *f, struct open_wait *w);

/* lookup.c */
struct lookup *lookup_find(struct flow *f, const struct name *name, uint16_t type);
/* Makes one and queues its ASK. NULL: out of memory or ids. */
struct lookup *lookup_start(struct flow *f, const struct name *name, uint16_t type);
void lookup_fail(struct flow *f, struct lookup *l, enum reason reason);
/* Cancels it if nobody waits. */
void lookup_abandon(struct flow *f, struct lookup *l);
void lookup_free(struct flow *f, struct lookup *l);
/* Whether an NXDOMAIN for this address type must be told as NODATA, because the other family's
 * addresses are known. */
bool lookup_other_family_exists(struct flow *f, const struct name *name, uint16_t type);

/* release.c: the only ways a query ends. */

/* With addresses: only what was opened for this client, told for no longer than it stays open.
 * -EAGAIN when the opening has less than a second left to tell of and `last` is false (core can be
 * asked again), -ETIME when it does not even outlast the grace. Nothing is released then. */
int release_addrs(struct flow *f, struct query *q, const struct opened *o, bool last);
/* Without addresses: other types, NODATA, NXDOMAIN. */
void release_others(struct flow *f, struct query *q, const struct permitted *p);
void release_ptr(struct flow *f, struct query *q, const struct name *target, uint32_t ttl);
/* Denied or failed. */
void release_refuse(struct flow *f, struct query *q, enum reason reason);

#endif
