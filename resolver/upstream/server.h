/* server.h: which upstream to ask next. Pure: time comes in as an argument.
 *
 * Each server has a smoothed round trip time (RFC 6298 section 2), and the fastest is asked first.
 * One that is not chosen seems a little faster each time, so that it is measured again some day. One
 * that fails several times in a row is left alone for a while, twice as long each time; then the next
 * question goes to it as well, in parallel, as a probe: nobody waits for a server thought dead.
 */
#ifndef RESOLVER_UPSTREAM_SERVER_H
#define RESOLVER_UPSTREAM_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/base/addr.h"
#include "gateway/base/clock.h"
#include "gateway/policy/policy.h"

#define SERVER_TIMEOUT_FIRST (400 * USEC_PER_MSEC)
#define SERVER_TIMEOUT_MIN   (200 * USEC_PER_MSEC)
#define SERVER_TIMEOUT_MAX   (1000 * USEC_PER_MSEC)
#define SERVER_FAILS_DEAD    3 /* in a row */
#define SERVER_AWAY_MIN      (1 * USEC_PER_SEC)
#define SERVER_AWAY_MAX      (60 * USEC_PER_SEC)

struct server {
    struct addr address;
    uint16_t port;
    usec_t rtt, variation; /* 0: never measured */
    unsigned fails;
    usec_t away;      /* how long it is left alone; 0: it is not */
    usec_t back;      /* when it may be probed */
    bool probing;
};

struct servers {
    struct server list[POLICY_UPSTREAMS_MAX];
    unsigned count;
    uint32_t generation; /* changes whenever indexes do */
};

/* Takes the plain upstreams of the configuration; one that was there before keeps what is known of
 * it. Those with TLS are not used: they must not be asked in the clear. Returns how many are used. */
unsigned servers_set(struct servers *s, const struct policy_gateway *g);
/* The best one not in `tried` (bit mask of indexes), or -1. One that is away comes last. */
int servers_choose(struct servers *s, uint32_t tried);
/* One that is due to be probed, now marked as such, or -1. */
int servers_probe(struct servers *s, usec_t now);
/* How long to wait for an answer before asking elsewhere as well. */
usec_t server_timeout(const struct server *s);
void server_answered(struct server *s, usec_t rtt);
/* `hard`: the network says it is not there. */
void server_failed(struct server *s, bool hard, usec_t now);

#endif
