/* selftest.h: proof at start that the kernel drops what has no opening, by real packets: a TUN
 * interface stands in for an agent and its destination. */
#ifndef GATEWAY_CORE_SELFTEST_H
#define GATEWAY_CORE_SELFTEST_H

#include "gateway/base/clock.h"
#include "gateway/core/conntrack.h"
#include "gateway/core/elements.h"

#define SELFTEST_MARK 0xffffffffu /* attribution of its flows and elements: no agent has it */
#define SELFTEST_SUBNET4 "198.19.84.64/29"
#define SELFTEST_SUBNET6 "fd54:4741:5445:5354::/64"

enum selftest_fault {
    SELFTEST_PASSED,
    SELFTEST_LEAK,    /* a packet without opening came through */
    SELFTEST_BLOCKED, /* a packet with an opening did not */
    SELFTEST_STAYS,   /* a packet came through after its opening was removed */
    SELFTEST_BROKEN,  /* it could not be carried out: the return value says why */
};
const char *selftest_fault_text(enum selftest_fault fault);

struct selftest_result {
    enum selftest_fault fault;
    int family; /* 4 or 6 in which it failed, 0 */
};

/* Runs on /dev/net/tun opened by somebody else (not attached to an interface), for IPv4 and, unless
 * the kernel has no IPv6, IPv6. The ruleset must be loaded, sysctl_prepare() done. Takes up to about a
 * second. While it runs, forwarding is switched on for its own interface only where the kernel can
 * (IPv4; IPv6 from Linux 6.17), else for all with the ruleset in force; what it switched on it
 * switches off again, so that sysctl_forwarding() remains the caller's decision. Removes interface,
 * elements and flows of its own. The elements group must be empty (it uses begin and commit; counts in
 * elements_transactions()). 0: passed; -EREMOTEIO: failed, see `ret`; other -errno: fault BROKEN. */
int selftest_run(int tun, struct elements *e, struct conntrack *c, const struct clock *clock,
                 struct selftest_result *ret);

#endif
