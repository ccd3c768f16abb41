/* barrier.h: a second lock on forwarding, independent of nftables: policy routing rules that send
 * packets of our interfaces nowhere unless the ruleset's prerouting chain has marked them. While
 * somebody has flushed the ruleset, nothing is routed; the gateway itself stays reachable, since the
 * local table comes first. The rules name interfaces and hold before these exist. They are never
 * removed, whatever policy says later. */
#ifndef GATEWAY_CORE_BARRIER_H
#define GATEWAY_CORE_BARRIER_H

#include "gateway/policy/policy.h"

#define BARRIER_PRIORITY 5 /* the local table has 0, main 32766 */

/* Adds the rules that are missing, for every agent interface, the uplink and management, IPv4 and
 * IPv6. Number of rules added (0: all stood), or -errno. */
int barrier_install(const struct policy *p);
/* Number of rules that are missing, or -errno. */
int barrier_verify(const struct policy *p);

#endif
