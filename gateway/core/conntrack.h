/* conntrack.h: flows in the kernel's connection tracker: events, dump, selective delete. */
#ifndef GATEWAY_CORE_CONNTRACK_H
#define GATEWAY_CORE_CONNTRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/base/addr.h"

enum conntrack_event { CONNTRACK_DUMPED, CONNTRACK_NEW, CONNTRACK_DESTROY };

struct conntrack_tuple {
    struct addr source, destination;
    uint16_t source_port, destination_port; /* host order; TCP, UDP, SCTP, DCCP, UDP-Lite; else 0 */
    uint16_t icmp_id;                       /* ICMP and ICMPv6 */
    uint8_t icmp_type, icmp_code;
};

struct conntrack_flow {
    enum conntrack_event event;
    struct conntrack_tuple original, reply; /* original: as the client sent it, before NAT */
    uint8_t protocol;
    uint16_t zone;
    uint32_t id;     /* a flow's number while it lives: a hash of where it is and of its tuple, so a
                        later flow can have it again, even one with the same tuple */
    uint32_t mark;   /* 0: not marked */
    uint32_t status; /* IPS_* bits */
    bool counted;    /* counters below are known (nf_conntrack_acct) */
    uint64_t packets_out, bytes_out, packets_in, bytes_in; /* out: original direction */
    uint64_t start_ns, stop_ns; /* realtime; 0: unknown (nf_conntrack_timestamp) */
};

/* Negative stops with that value. */
typedef int (*conntrack_fn)(void *ctx, const struct conntrack_flow *flow);

struct conntrack;
int conntrack_open(struct conntrack **ret); /* 0 or -errno */
struct conntrack *conntrack_close(struct conntrack *c); /* takes NULL, returns NULL */

/* Readable when events wait. Every NEW and DESTROY in this network namespace, the gateway's own
 * flows and those of the self-test (mark SELFTEST_MARK) included: look at the mark. A NEW event is
 * sent when the first packet has passed, so the mark is final. */
int conntrack_fd(const struct conntrack *c);
/* Reads what waits, bounded. Number of events given to `fn`; -ENOBUFS: events were lost: dump and
 * compare, then go on; -errno, or what `fn` returned. */
int conntrack_receive(struct conntrack *c, conntrack_fn fn, void *ctx);

/* Gives every flow with (mark & mask) == mark of both families; mask 0: all. Number, -EINTR when
 * inconsistent (ask again), -errno. `fn` must not use `c`. */
int conntrack_dump(struct conntrack *c, uint32_t mark, uint32_t mask, conntrack_fn fn, void *ctx);

/* Deletes this one flow, by its original tuple, zone and id. 1 deleted, 0 was gone already, -errno. */
int conntrack_delete(struct conntrack *c, const struct conntrack_flow *flow);
/* Deletes the flows with (mark & mask) == mark for which `wanted` is true (NULL: all of them).
 * Number deleted, or -errno. A flow that began while the dump went on may be missed: remove its
 * opening first, then no new ones begin. */
typedef bool (*conntrack_wanted_fn)(void *ctx, const struct conntrack_flow *flow);
int conntrack_delete_where(struct conntrack *c, uint32_t mark, uint32_t mask,
                           conntrack_wanted_fn wanted, void *ctx);
/* Deletes the flows that started from an address of one of the prefixes and have mark 0 or one for
 * which `known` says false, other than those to the gateway itself (`known` NULL: only mark 0).
 * They could be flows from before the gateway took over. Number deleted, or -errno. */
int conntrack_delete_unknown(struct conntrack *c, const struct prefix *prefixes, size_t count,
                             bool (*known)(void *ctx, uint32_t mark), void *ctx);

#endif
