/* ruleset_text.c: the nft text of `table inet tidegate`, made from the policy.
 *
 * Everything that comes from the policy is an address, a number, or an interface name checked here;
 * protocols are numbers, so that no name service is asked. What must outlive a reload (openings,
 * counters, per-source counts) is a named object that is added and never flushed; what the policy
 * says is in rules and anonymous sets, which the flush of the chains takes away.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gateway/core/denied.h"
#include "gateway/core/ruleset.h"
#include "gateway/core/selftest.h"

#define IN_TABLE "inet " RULESET_TABLE " "
/* Per second and source: how many denied packets are logged; the counters count all. */
#define LOG_SOURCE_RATE "20/second burst 40 packets"
#define LOG_TOTAL_RATE "500/second burst 1000 packets"

bool ruleset_ifname_valid(const char *name) {
    /* The first four are paths or switches for all below /proc/sys/net. */
    static const char *const reserved[] = {".", "..", "all", "default", "lo"};
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t length = strnlen(name, POLICY_IFNAME_MAX);
    if (length == 0 || length >= POLICY_IFNAME_MAX || strspn(name, allowed) != length) return false;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strcmp(name, reserved[i]) == 0) return false;
    return true;
}

static bool config_valid(const struct ruleset_config *c) {
    const struct policy_gateway *g = policy_gateway(c->policy);
    if (g->agent_interfaces == 0 || g->agent_interfaces > POLICY_INTERFACES_MAX) return false;
    for (uint32_t i = 0; i < g->agent_interfaces; i++) {
        const char *name = g->agents[i].interface;
        /* An agent on the uplink would let agents pass for the internet. */
        if (!ruleset_ifname_valid(name) || strcmp(name, RULESET_SELFTEST) == 0 ||
            strcmp(name, g->uplink) == 0 || strcmp(name, g->management) == 0)
            return false;
    }
    return ruleset_ifname_valid(g->uplink) && strcmp(g->uplink, RULESET_SELFTEST) != 0 &&
           (g->management[0] == '\0' || ruleset_ifname_valid(g->management));
}

/* ---- rules for each interface or subnet --------------------------------------------------- */

/* One plain rule for each instead of one rule with an anonymous set: while a transaction replaces a
 * ruleset, a packet on its way through the old rules finds the old sets empty already (they are looked
 * up in the generation of the moment). It would lose its interface in mid-course. */

static void put_for(struct buf *b, const char *interface, const char *rest) {
    buf_format(b, "iifname \"%s\" %s\n", interface, rest);
}

static void put_for_agents(struct buf *b, const struct policy_gateway *g, const char *rest) {
    for (uint32_t i = 0; i < g->agent_interfaces; i++) put_for(b, g->agents[i].interface, rest);
    put_for(b, RULESET_SELFTEST, rest);
}

/* Uplink and management. */
static void put_for_outside(struct buf *b, const struct policy_gateway *g, const char *rest) {
    put_for(b, g->uplink, rest);
    if (g->management[0] && strcmp(g->management, g->uplink) != 0)
        put_for(b, g->management, rest);
}

static void put_outwards(struct buf *b, const struct policy_gateway *g, const char *rest) {
    buf_format(b, "oifname \"%s\" %s\n", g->uplink, rest);
    if (g->management[0] && strcmp(g->management, g->uplink) != 0)
        buf_format(b, "oifname \"%s\" %s\n", g->management, rest);
}

static const char *ip_of(const struct prefix *p) { return p->addr.family == 4 ? "ip" : "ip6"; }

/* For each subnet of agents: `before` [iifname of its interface, if `paired`] saddr subnet `after`. */
static void put_for_subnets(struct buf *b, const struct policy *p, bool paired, const char *before,
                            const char *after) {
    const struct policy_gateway *g = policy_gateway(p);
    char text[PREFIX_TEXT_MAX];
    for (uint32_t i = 0; i < g->agent_interfaces; i++)
        for (uint32_t j = 0; j < g->agents[i].subnet_count; j++) {
            const struct prefix *subnet = policy_subnet(p, g->agents[i].subnet_first + j);
            buf_put_text(b, before);
            if (paired) buf_format(b, "iifname \"%s\" ", g->agents[i].interface);
            buf_format(b, "%s saddr %s %s\n", ip_of(subnet), prefix_format(subnet, text), after);
        }
}

static void put_static(struct buf *b, const struct ruleset_config *c, int family) {
    char source[PREFIX_TEXT_MAX], remote[PREFIX_TEXT_MAX];
    bool any = false;
    for (uint32_t i = 0; i < policy_static_count(c->policy); i++) {
        const struct policy_static *s = policy_static(c->policy, i);
        if (s->source.addr.family != family) continue;
        buf_format(b, any ? ",\n" : "add element " IN_TABLE "static%d {\n", family);
        any = true;
        buf_format(b, "%s . %s . %u . ", prefix_format(&s->source, source),
                   prefix_format(&s->remote, remote), (unsigned)s->protocol);
        if (s->port_first == s->port_last) buf_format(b, "%u", (unsigned)s->port_first);
        else buf_format(b, "%u-%u", (unsigned)s->port_first, (unsigned)s->port_last);
        buf_format(b, " : %u", (unsigned)c->static_mark(c->ctx, i));
    }
    if (any) buf_put_text(b, " }\n");
}

/* ---- objects that outlive reloads -------------------------------------------------------- */

static void put_objects(struct buf *b, uint32_t map_size) {
    for (int family = 4; family <= 6; family += 2) {
        const char *ip = family == 4 ? "ip" : "ip6";
        buf_format(b,
                   "add map " IN_TABLE "open%d { typeof %s saddr . %s daddr . meta l4proto . "
                   "th dport : meta mark; size %u; flags timeout; }\n",
                   family, ip, ip, (unsigned)map_size);
        buf_format(b,
                   "add map " IN_TABLE "static%d { typeof %s saddr . %s daddr . meta l4proto . "
                   "th dport : meta mark; flags interval; }\n"
                   "flush map " IN_TABLE "static%d\n",
                   family, ip, ip, family);
        buf_format(b,
                   "add set " IN_TABLE "denied%d { type ipv%d_addr; size 65535; "
                   "flags dynamic,timeout; timeout 1h; }\n"
                   "add set " IN_TABLE "pace%d { type ipv%d_addr; size 65535; "
                   "flags dynamic,timeout; timeout 1m; }\n",
                   family, family, family, family);
    }
    for (uint32_t r = REASON_NO_OPENING; r <= REASON_UNSOLICITED; r++)
        buf_format(b, "add counter " IN_TABLE "%s\n", reason_tag(r));
    /* Longer than the resolver takes for an answer, and no more: by default a flow that was asked
     * over twice stays in the tracker for two minutes and yields to nobody, so that a host with
     * random ports, an agent or not, could fill it for everybody. */
    for (int family = 4; family <= 6; family += 2)
        buf_format(b,
                   "add ct timeout " IN_TABLE "dns%d { protocol udp; l3proto %s; "
                   "policy = { unreplied : 8, replied : 8 }; }\n",
                   family, family == 4 ? "ip" : "ip6");
}

/* ---- chains ------------------------------------------------------------------------------ */

static void put_log(struct buf *b, uint32_t reason) {
    buf_format(b, "log prefix \"" DENIED_PREFIX "%s\" group %u snaplen %u\n", reason_tag(reason),
               (unsigned)DENIED_GROUP, (unsigned)DENIED_BYTES_MAX);
}

/* What happens to a denied packet: counted, counted by source where the source is known to be real,
 * logged at a bounded rate, then refused or dropped by the caller's chain. A source over its rate
 * is not logged; a full `pace` set (an agent that walks through its /64) only leaves the total. */
static void put_deny_chain(struct buf *b, uint32_t reason, bool by_source, const char *verdict) {
    buf_format(b, "chain deny-%s {\n counter name \"%s\"\n", reason_tag(reason),
               reason_tag(reason));
    buf_put_text(b, "iifname \"" RULESET_SELFTEST "\" drop\n");
    if (by_source)
        buf_put_text(b, "update @denied4 { ip saddr counter }\n"
                        "update @denied6 { ip6 saddr counter }\n"
                        "update @pace4 { ip saddr limit rate over " LOG_SOURCE_RATE " } goto refuse\n"
                        "update @pace6 { ip6 saddr limit rate over " LOG_SOURCE_RATE
                        " } goto refuse\n");
    buf_put_text(b, "limit rate " LOG_TOTAL_RATE " ");
    put_log(b, reason);
    buf_format(b, "%s\n}\n", verdict);
}

static void put_deny_chains(struct buf *b) {
    /* Refused, not dropped: a client that waits for a timeout is a support call. */
    buf_put_text(b, "chain refuse {\n"
                    "meta l4proto 6 reject with tcp reset\n"
                    "reject with icmpx type admin-prohibited\n}\n");
    put_deny_chain(b, REASON_NO_OPENING, true, "goto refuse");
    put_deny_chain(b, REASON_ENCRYPTED_DNS, true, "goto refuse");
    put_deny_chain(b, REASON_SPOOFED, false, "drop");
    put_deny_chain(b, REASON_INVALID_STATE, false, "drop");
    put_deny_chain(b, REASON_LOCAL_SERVICE, false, "drop");
    put_deny_chain(b, REASON_UNSOLICITED, false, "drop");
}

/* Before routing. Fragments have been put together by connection tracking (priority -400), so every
 * rule sees whole packets. */
static void put_prerouting(struct buf *b, const struct policy *p) {
    const struct policy_gateway *g = policy_gateway(p);
    char mark[64];
    snprintf(mark, sizeof mark, "meta mark set %u", RULESET_PACKET_MARK);
    buf_put_text(b, "chain prerouting {\n"
                    "type filter hook prerouting priority -300; policy accept;\n"
                    "iifname \"lo\" accept\n");
    put_for_outside(b, g, mark);
    put_for_agents(b, g, "goto antispoof");
    put_for_subnets(b, p, false, "", "goto deny-spoofed");
    buf_format(b, "}\nchain antispoof {\n%s\n", mark);
    /* Routing and mobility headers change where a packet goes. */
    buf_put_text(b, "exthdr rt exists goto deny-invalid-state\n"
                    "exthdr mh exists goto deny-invalid-state\n");
    put_for_subnets(b, p, true, "", "return");
    put_for(b, RULESET_SELFTEST, "ip saddr " SELFTEST_SUBNET4 " return");
    put_for(b, RULESET_SELFTEST, "ip6 saddr " SELFTEST_SUBNET6 " return");
    /* What hosts send before they have an address, or from a link-local one: neighbour discovery
     * (RFC 4861), duplicate address detection, MLD (RFC 3810); none of it is forwarded. */
    buf_put_text(b, "ip6 saddr { fe80::/10, ::/128 } icmpv6 type { 131, 132, 133, 135, 136, 143 } return\n"
                    /* Chatter on the link (mDNS, DHCP with nobody to answer) is nobody's attempt. */
                    "ip6 saddr { fe80::/10, ::/128 } ip6 daddr ff02::/16 drop\n"
                    "ip saddr 0.0.0.0 ip daddr 255.255.255.255 drop\n"
                    "goto deny-spoofed\n}\n");
}

/* Queries to an address of the gateway are answered from it as they are; others are turned to it,
 * also those to where no route leads: for IPv6, but not for IPv4, that is another type. */
static void put_dstnat(struct buf *b, const struct policy_gateway *g) {
    buf_put_text(b, "chain to-resolver {\n"
                    "meta nfproto ipv4 meta l4proto 17 ct timeout set \"dns4\"\n"
                    "meta nfproto ipv6 meta l4proto 17 ct timeout set \"dns6\"\n"
                    /* Events core has no use for: a flood of queries must not push out others'. */
                    "ct event set label\n"
                    "fib daddr type local accept\nfib daddr type anycast accept\n"
                    "fib daddr type broadcast accept\nfib daddr type multicast accept\n"
                    "redirect\n}\n"
                    "chain dstnat {\ntype nat hook prerouting priority -100; policy accept;\n");
    put_for_agents(b, g, "udp dport 53 goto to-resolver");
    put_for_agents(b, g, "tcp dport 53 goto to-resolver");
    buf_put_text(b, "}\n");
}

/* An error carries what its sender likes, and the kernel compares only its destination with the flow
 * it is about: so an agent's must be about a flow of its own subnet. */
static void put_agent_errors(struct buf *b, const struct policy *p) {
    const struct policy_gateway *g = policy_gateway(p);
    char text[PREFIX_TEXT_MAX];
    buf_put_text(b, "chain agent-errors {\n"
                    "meta l4proto != 1 meta l4proto != 58 goto deny-no-opening\n");
    for (uint32_t i = 0; i < g->agent_interfaces; i++)
        for (uint32_t j = 0; j < g->agents[i].subnet_count; j++) {
            const struct prefix *subnet = policy_subnet(p, g->agents[i].subnet_first + j);
            const char *ip = ip_of(subnet), *range = prefix_format(subnet, text);
            buf_format(b, "%s saddr %s ct original %s saddr %s ct mark != 0 accept\n", ip, range,
                       ip, range);
        }
    buf_put_text(b, "goto deny-no-opening\n}\n");
}

static void put_forward(struct buf *b, const struct policy *p) {
    const struct policy_gateway *g = policy_gateway(p);
    put_agent_errors(b, p);
    buf_put_text(b, "chain forward {\ntype filter hook forward priority 0; policy drop;\n"
                    "ct state invalid goto deny-invalid-state\n"
                    /* Mark 0: from before the gateway, or not opened by it. Never let on. */
                    "ct state established ct mark != 0 accept\n");
    put_for_agents(b, g, "goto from-agents");
    /* Only errors about a marked flow; no helper's expectation. */
    buf_put_text(b, "ct state related meta l4proto 1 ct mark != 0 accept\n"
                    "ct state related meta l4proto 58 ct mark != 0 accept\n"
                    "goto deny-unsolicited\n}\n"
                    "chain from-agents {\n"
                    "ct state related goto agent-errors\n"
                    /* Options that hosts have no use for across a router (RFC 7045, RFC 9098). */
                    "exthdr hbh exists goto deny-no-opening\n"
                    "exthdr dst exists goto deny-no-opening\n"
                    "ct state != new goto deny-no-opening\n"
                    "ct mark set ip saddr . ip daddr . meta l4proto . th dport map @open4\n"
                    "ct mark set ip6 saddr . ip6 daddr . meta l4proto . th dport map @open6\n"
                    "ct mark != 0 accept\n"
                    "ct mark set ip saddr . ip daddr . meta l4proto . th dport map @static4\n"
                    "ct mark set ip6 saddr . ip6 daddr . meta l4proto . th dport map @static6\n"
                    "ct mark != 0 accept\n"
                    "udp dport 853 goto deny-encrypted-dns\n"
                    "tcp dport 853 goto deny-encrypted-dns\n"
                    "goto deny-no-opening\n}\n");
}

static void put_input(struct buf *b, const struct policy *p) {
    const struct policy_gateway *g = policy_gateway(p);
    char text[PREFIX_TEXT_MAX];
    buf_put_text(b, "chain input {\ntype filter hook input priority 0; policy drop;\n"
                    "iifname \"lo\" accept\n"
                    "ct state established,related accept\n");
    put_for_agents(b, g, "goto input-agents");
    buf_put_text(b, "ct state invalid drop\n");
    for (uint32_t i = 0; i < g->management_subnet_count && g->management[0]; i++) {
        const struct prefix *subnet = policy_subnet(p, g->management_subnet_first + i);
        buf_format(b, "iifname \"%s\" %s saddr %s accept\n", g->management, ip_of(subnet),
                   prefix_format(subnet, text));
    }
    /* Neighbour discovery is real only with hop limit 255 (RFC 4861 section 6.1); no redirects. */
    put_for_outside(b, g, "icmpv6 type { 134, 135, 136 } ip6 hoplimit 255 accept");
    put_for_outside(b, g, "icmpv6 type { 130, 131, 132, 143 } accept");
    put_for_outside(b, g, "udp sport 67 udp dport 68 accept");
    put_for_outside(b, g, "ip6 saddr fe80::/10 udp sport 547 udp dport 546 accept");
    buf_put_text(b, "}\nchain input-agents {\n"
                    "icmpv6 type { 133, 135, 136 } ip6 hoplimit 255 accept\n"
                    "icmpv6 type { 131, 132, 143 } accept\n"
                    "ct state invalid goto deny-invalid-state\n"
                    "ct state new udp dport 53 accept\n"
                    "ct state new tcp dport 53 accept\n"
                    "icmp type 8 limit rate 100/second burst 200 packets accept\n"
                    "icmpv6 type 128 limit rate 100/second burst 200 packets accept\n"
                    "fib daddr type { broadcast, multicast } drop\n"
                    "goto deny-local-service\n}\n");
}

static void put_upstreams(struct buf *b, const struct ruleset_config *c) {
    const struct policy_gateway *g = policy_gateway(c->policy);
    char text[ADDR_TEXT_MAX];
    for (uint32_t i = 0; i < g->upstream_count && i < POLICY_UPSTREAMS_MAX; i++) {
        const struct addr *a = &g->upstreams[i].address;
        buf_format(b, "meta skuid %u %s daddr %s meta l4proto %s th dport %u accept\n",
                   (unsigned)c->resolver, a->family == 4 ? "ip" : "ip6", addr_format(a, text),
                   g->upstreams[i].tls_name[0] ? "6" : "{ 6, 17 }",
                   (unsigned)g->upstreams[i].port);
    }
}

static void put_output(struct buf *b, const struct ruleset_config *c) {
    const struct policy_gateway *g = policy_gateway(c->policy);
    buf_put_text(b, "chain output {\ntype filter hook output priority 0; policy drop;\n"
                    "ct state established,related accept\n");
    put_upstreams(b, c);
    /* Answers to agents are in flows that these began. It has no business with services of the
     * gateway itself either, which may trust whoever comes by loopback. */
    if (c->resolver != 0) buf_format(b, "meta skuid %u drop\n", (unsigned)c->resolver);
    buf_put_text(b, "oifname \"lo\" accept\n"
                    "icmpv6 type { 1, 2, 3, 4, 131, 132, 133, 135, 136, 143 } accept\n"
                    "icmp type { 3, 11, 12 } accept\n");
    put_outwards(b, g, "udp sport 68 udp dport 67 accept");
    put_outwards(b, g, "udp sport 546 udp dport 547 accept");
    /* The resolver may run as root in a lab: then root's freedom must not be the resolver's. */
    if (c->resolver != 0) put_outwards(b, g, "meta skuid 0 accept");
    buf_put_text(b, "}\n");
}

static void put_postrouting(struct buf *b, const struct policy *p) {
    const struct policy_gateway *g = policy_gateway(p);
    char before[64];
    snprintf(before, sizeof before, "oifname \"%s\" ", g->uplink);
    /* Without masquerading the chain stands empty: the set of chains is always the same. */
    buf_put_text(b, "chain postrouting {\ntype nat hook postrouting priority 100; policy accept;\n");
    if (g->masquerade) put_for_subnets(b, p, false, before, "masquerade");
    buf_put_text(b, "}\n");
}

size_t ruleset_text_max(const struct ruleset_config *c) {
    const struct policy_gateway *g = policy_gateway(c->policy);
    size_t subnets = g->management_subnet_count;
    for (uint32_t i = 0; i < g->agent_interfaces && i < POLICY_INTERFACES_MAX; i++)
        subnets += g->agents[i].subnet_count;
    /* Each subnet stands at most five times, with an interface or two beside it. */
    return 65536 + subnets * 5 * (PREFIX_TEXT_MAX + 2 * POLICY_IFNAME_MAX + 64) +
           (size_t)policy_static_count(c->policy) * (2 * PREFIX_TEXT_MAX + 64);
}

int ruleset_text(const struct ruleset_config *c, bool rebuild, struct buf *out) {
    const struct policy *p = c->policy;
    const struct policy_gateway *g = policy_gateway(p);

    if (!config_valid(c)) return -EINVAL;
    for (uint32_t i = 0; i < policy_static_count(p); i++)
        if (c->static_mark(c->ctx, i) == 0) return -EINVAL;
    buf_put_text(out, "add table " IN_TABLE "\n");
    /* "add" before "delete": a delete of nothing is an error. */
    if (rebuild) buf_put_text(out, "delete table " IN_TABLE "\nadd table " IN_TABLE "\n");
    else buf_put_text(out, "flush table " IN_TABLE "\n");
    put_objects(out, c->map_size ? c->map_size : RULESET_MAP_SIZE);
    put_static(out, c, 4);
    put_static(out, c, 6);
    buf_put_text(out, "table " IN_TABLE "{\n");
    put_deny_chains(out);
    put_prerouting(out, p);
    put_dstnat(out, g);
    put_forward(out, p);
    put_input(out, p);
    put_output(out, c);
    put_postrouting(out, p);
    buf_put_text(out, "}\n");
    return out->overflow ? -ENOSPC : 0;
}
