/* flows.h: live flows that openings let through, as the connection tracker tells. Pure. */
#ifndef GATEWAY_CORE_FLOWS_H
#define GATEWAY_CORE_FLOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/core/conntrack.h"
#include "gateway/core/ledger.h"

struct flows;

struct flow {
    uint64_t id;           /* conntrack's: unique among live flows only, so the rest counts too */
    struct ledger_key key; /* the opening it came in by */
    uint16_t client_port;
    uint32_t mark;
    uint64_t start_ns;      /* realtime; 0: unknown */
    struct name_ref *name;  /* NULL: not known */
    bool revoked;           /* its end is our doing */
};

/* Room for `max` (below 2^31) flows; more are not tracked. NULL when out of memory. `names` outlives
 * it. */
struct flows *flows_new(uint32_t max, struct names *names, const uint8_t key[HASH_KEY_SIZE]);
struct flows *flows_free(struct flows *f); /* takes NULL, returns NULL */

/* What the kernel says of a flow, without a name. */
struct flow flow_of(const struct conntrack_flow *c);
/* 1 added (keeps a reference on the name); 0 it was there; -ENOSPC: full, counted. */
int flows_add(struct flows *f, const struct flow *flow);
/* The name is borrowed. */
bool flows_find(const struct flows *f, const struct flow *like, struct flow *ret);
/* Notes that the flow's end will be our doing. */
void flows_revoke(struct flows *f, const struct flow *like);
/* Removes the flow; *ret_flow's name is the caller's to drop. False: it was not tracked. */
bool flows_take(struct flows *f, const struct flow *like, struct flow *ret_flow);
/* Whether a flow lives that came in by the opening. */
bool flows_live(const struct flows *f, const struct ledger_key *key);

/* Comparison with a dump: a new round; the dumped ones are seen; those that were not are dropped.
 * flows_sweep() says how many. */
void flows_round(struct flows *f);
void flows_see(struct flows *f, const struct flow *like);
uint32_t flows_sweep(struct flows *f);

uint32_t flows_count(const struct flows *f);
/* Those whose end is not our doing: all of them, and those of the mark's agent. */
uint32_t flows_standing(const struct flows *f);
uint32_t flows_of_agent(const struct flows *f, uint32_t mark);
uint32_t flows_most(const struct flows *f); /* the mark, with endpoint 0, of who has most of them */
uint64_t flows_untracked(const struct flows *f); /* that found no room, since the start */

#endif
