/* ruleset.h: `table inet tidegate` in the kernel: made from the policy, loaded in one transaction,
 * watched for changes by others.
 *
 * The text is loaded by libnftables in a child process of its own, because that library may call
 * exit() and keeps netlink state. The caller must be single-threaded. Needs fork, wait4, pipe2, netlink
 * sockets, and to open files below /etc read-only, which may be absent. The library asks getpwnam() for
 * each uid: a program under a filter of system calls defines that away, as main.c does.
 */
#ifndef GATEWAY_CORE_RULESET_H
#define GATEWAY_CORE_RULESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gateway/base/buf.h"
#include "gateway/core/netlink.h"
#include "gateway/policy/policy.h"

#define RULESET_TABLE "tidegate"
#define RULESET_MAP_SIZE 1048576u   /* elements of open4 and of open6 */
#define RULESET_PACKET_MARK 0x54474154u /* set on packets of our interfaces; see barrier.h */
#define RULESET_SELFTEST "tgselftest"   /* counts as an agent interface; see selftest.h */

struct ruleset_config {
    const struct policy *policy;
    /* Attribution mark of policy_static(policy, i); never 0. */
    uint32_t (*static_mark)(void *ctx, uint32_t index);
    void *ctx;
    uid_t resolver;    /* may talk to the upstreams and to nobody else */
    uint32_t map_size; /* 0: RULESET_MAP_SIZE */
};

/* Writes the nft text of a whole ruleset. `rebuild` false: chains are flushed and filled again, the
 * maps of openings keep their elements. `rebuild` true: the table is removed and made anew in the
 * same transaction; the maps are empty afterwards. -EINVAL: an interface name or a value that must
 * not get into the text; -ENOSPC: `out` is too small (ruleset_text_max() suffices). */
int ruleset_text(const struct ruleset_config *c, bool rebuild, struct buf *out);
size_t ruleset_text_max(const struct ruleset_config *c);

struct ruleset {
    struct netlink netlink; /* private: queries only */
    uint8_t digest[32];     /* of our table as it was right after the load */
    uint32_t generation;    /* of the kernel's ruleset at that moment */
    bool loaded;
};

#define RULESET_ERROR_MAX 1024
/* Opens the query socket. 0 or -errno. */
int ruleset_open(struct ruleset *ret);
void ruleset_close(struct ruleset *r);

/* Loads or replaces the ruleset in one transaction; there is no moment without default deny.
 * 0: the maps kept their elements and remaining lifetimes (or were empty before).
 * 1: the table had foreign objects or other definitions and was made anew: the maps of openings are
 *    empty, the caller adds its openings again. `rebuild` asks for that from the start.
 * -errno: nothing changed; `error` (RULESET_ERROR_MAX bytes) has the library's words, or "".
 * -EAGAIN: somebody else keeps changing rulesets; try again.
 * On success generation and digest are what the kernel has. */
int ruleset_load(struct ruleset *r, const struct ruleset_config *c, bool rebuild, char *error);

/* The kernel's generation number: one more with each transaction on any table of this network
 * namespace, ours included (elements_transactions() counts those). 0 or -errno. Cheap: 3 us. */
int ruleset_generation(struct ruleset *r, uint32_t *ret);
/* Whether our table still is what we loaded: flags of the table, chains with hooks and policies,
 * rules and their order, definitions of sets, maps and counters, elements of static4 and static6
 * (not those of open4 and open6: compare these with the ledger by elements_dump()).
 * 1 unchanged, 0 changed or gone, -errno. */
int ruleset_verify(struct ruleset *r);
/* The digest that ruleset_verify() compares; -ENOENT when there is no such table. */
int ruleset_digest(struct ruleset *r, uint8_t ret[32]);

/* Packets denied since the table was made, by reason. `count` and `reason` hold RULESET_COUNTERS.
 * 0 or -errno (-ENOENT: the table is gone). */
#define RULESET_COUNTERS 6
struct ruleset_counter { uint32_t reason; uint64_t packets, bytes; };
int ruleset_counters(struct ruleset *r, struct ruleset_counter ret[RULESET_COUNTERS]);

/* Letters, digits, '.', '_', '-', 1..15 of them, and none of ".", "..", "all", "default", "lo": what
 * may stand in the text, and in paths of switches. */
bool ruleset_ifname_valid(const char *name);

#endif
