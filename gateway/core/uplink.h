/* uplink.h: whether the uplink has IPv6, which addresses are the gateway's own, and notice of
 * changes of links, addresses and routes. */
#ifndef GATEWAY_CORE_UPLINK_H
#define GATEWAY_CORE_UPLINK_H

#include <stdbool.h>

#include "gateway/base/addr.h"

struct uplink;
int uplink_open(struct uplink **ret); /* 0 or -errno */
struct uplink *uplink_close(struct uplink *u); /* takes NULL, returns NULL */
/* Readable when something changed. */
int uplink_fd(const struct uplink *u);
/* Reads all notices. 1: links, addresses or routes changed (or notices were lost), look again;
 * 0: nothing; -errno. */
int uplink_drain(struct uplink *u);
/* Whether an interface of the gateway has the address, as of the last notice read. */
bool uplink_is_own(const struct uplink *u, const struct addr *a);
/* 1: a usable unicast route by this interface covers 2000::/3 (a default route, or shorter than or
 * equal to /3), the interface is up and has a global IPv6 address; 0: not; -errno. An interface that
 * does not exist: 0. */
int uplink_ipv6(struct uplink *u, const char *interface);

#endif
