/* ledger.h: what core has opened, for whom, by which name, until when. Pure: no I/O, the time is
 * passed in.
 *
 * An opening is one element of the kernel's maps: (client, remote, protocol, port). A claim is what
 * one name holds on an opening. Two names of one content network often lead to the same address, so
 * an opening can have several claims; it lives as long as the longest of them, and that one (the
 * newer among equals) is what the kernel shows: its mark and its name. Therefore
 *   - a claim that ends by time never needs a change in the kernel,
 *   - taking one name's claim away (a policy change) leaves the other name's opening in place.
 * Claims are grouped by (client, name, remote) for the bound on addresses per name.
 */
#ifndef GATEWAY_CORE_LEDGER_H
#define GATEWAY_CORE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/base/addr.h"
#include "gateway/base/clock.h"
#include "gateway/core/names.h"

struct ledger;

struct ledger_key { /* client and remote are of one family */
    struct addr client, remote;
    uint16_t port;
    uint8_t protocol;
};

struct ledger_claim {
    struct ledger_key key;
    uint32_t mark;
    usec_t deadline;       /* monotonic */
    struct name_ref *name; /* borrowed: lives as long as the claim */
};

/* Room for `max` (below 2^31) claims. NULL when out of memory. `names` outlives the ledger. */
struct ledger *ledger_new(uint32_t max, struct names *names, const uint8_t key[HASH_KEY_SIZE],
                          usec_t now);
struct ledger *ledger_free(struct ledger *l); /* takes NULL, returns NULL */

/* Makes sure that the next `count` ledger_put() succeed: 0, -ENOSPC or -ENOMEM. Called before the
 * kernel is asked, so that nothing the kernel took can fail to be booked. */
int ledger_reserve(struct ledger *l, uint32_t count);
/* Books a claim, or moves its deadline (never back: somebody was told the later one) and mark.
 * Keeps a reference on the name. Moves the address to the young end of its name. 0 or -ENOSPC. */
int ledger_put(struct ledger *l, const struct ledger_key *key, struct name_ref *name,
               uint32_t mark, usec_t deadline);
/* Takes a claim away. Whether it was there. */
bool ledger_remove(struct ledger *l, const struct ledger_key *key, const struct name_ref *name);

/* The claim the kernel shows for the opening, looking past claims of `except` (NULL: none). */
bool ledger_shown(const struct ledger *l, const struct ledger_key *key,
                  const struct name_ref *except, struct ledger_claim *ret);
/* The claim of this very name. */
bool ledger_find(const struct ledger *l, const struct ledger_key *key,
                 const struct name_ref *name, struct ledger_claim *ret);
/* The claim of the client on the address, at any port, that lives longest beyond `now`. */
bool ledger_reverse(const struct ledger *l, const struct addr *client, const struct addr *remote,
                    usec_t now, struct ledger_claim *ret);

/* Drops claims that ended before `now`, at most `limit` of them; their number. At most one second
 * late. *ret_openings: openings that have no claim any more. */
uint32_t ledger_expire(struct ledger *l, usec_t now, uint32_t limit, uint32_t *ret_openings);

/* Pages through all claims. *cursor starts at 0; a claim that exists throughout comes exactly once
 * whatever is added and removed meanwhile. False: no more, and *cursor is 0. Looks at up to
 * *budget places and then returns false with *cursor != 0: go on from there. */
bool ledger_next(const struct ledger *l, uint64_t *cursor, uint32_t *budget,
                 struct ledger_claim *ret);

/* For the comparison with the kernel: notes that the opening was seen in this round, and tells. */
void ledger_see(struct ledger *l, const struct ledger_key *key, uint8_t round);
bool ledger_seen(const struct ledger *l, const struct ledger_key *key, uint8_t round);

/* Addresses the name holds for the client. */
uint32_t ledger_addresses(const struct ledger *l, const struct addr *client,
                          const struct name_ref *name);
/* These addresses from the longest untouched to the youngest: *walk starts at 0. The ledger must
 * not change between calls. */
bool ledger_oldest(const struct ledger *l, const struct addr *client, const struct name_ref *name,
                   uint32_t *walk, struct addr *ret_remote);
/* The claims of (client, name, remote), likewise. */
bool ledger_ports(const struct ledger *l, const struct addr *client, const struct name_ref *name,
                  const struct addr *remote, uint32_t *walk, struct ledger_claim *ret);

uint32_t ledger_client_claims(const struct ledger *l, const struct addr *client);
uint32_t ledger_agent_claims(const struct ledger *l, uint32_t mark); /* of the mark's agent */
uint32_t ledger_openings(const struct ledger *l, uint8_t family); /* distinct elements; 0: all */
uint32_t ledger_claims(const struct ledger *l);
size_t ledger_bytes(const struct ledger *l); /* memory in use, names not included */

#endif
