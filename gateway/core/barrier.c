/* barrier.c: rules by rtnetlink: "iif NAME fwmark 0/0xffffffff priority 5 blackhole". */
#include "gateway/core/barrier.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "gateway/core/netlink.h"
#include "gateway/core/ruleset.h"

#define NAMES_MAX (POLICY_INTERFACES_MAX + 2)
#define QUERY_TRIES 8

struct names {
    const char *name[NAMES_MAX];
    size_t count;
};

static void name_add(struct names *n, const char *name) {
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->name[i], name) == 0) return;
    n->name[n->count++] = name;
}

static int names_of(const struct policy *p, struct names *n) {
    const struct policy_gateway *g = policy_gateway(p);
    if (g->agent_interfaces > POLICY_INTERFACES_MAX) return -EINVAL;
    for (uint32_t i = 0; i < g->agent_interfaces; i++) name_add(n, g->agents[i].interface);
    name_add(n, g->uplink);
    if (g->management[0]) name_add(n, g->management);
    for (size_t i = 0; i < n->count; i++)
        if (!ruleset_ifname_valid(n->name[i])) return -EINVAL;
    return 0;
}

static int rule_add(struct netlink *route, int family, const char *name) {
    uint64_t space[32];
    struct nlmsghdr *m = mnl_nlmsg_put_header(space);
    struct fib_rule_hdr *head = mnl_nlmsg_put_extra_header(m, sizeof *head);
    m->nlmsg_type = RTM_NEWRULE;
    m->nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL;
    head->family = (uint8_t)family;
    head->action = FR_ACT_BLACKHOLE;
    mnl_attr_put_u32(m, FRA_PRIORITY, BARRIER_PRIORITY);
    mnl_attr_put_u32(m, FRA_FWMARK, 0);
    mnl_attr_put_u32(m, FRA_FWMASK, UINT32_MAX);
    mnl_attr_put_strz(m, FRA_IIFNAME, name);
    return netlink_request(route, m);
}

/* ---- reading ----------------------------------------------------------------------------- */

struct rules {
    const struct names *names;
    bool present[NAMES_MAX];
};

struct rule {
    uint32_t priority, mark, mask;
    const char *name;
    bool other; /* has a selector that makes it narrower */
};

static void rule_read(const struct nlmsghdr *m, struct rule *r) {
    const struct nlattr *a;
    mnl_attr_for_each(a, m, sizeof(struct fib_rule_hdr)) {
        uint16_t size = mnl_attr_get_payload_len(a);
        uint32_t value = size == 4 ? mnl_attr_get_u32(a) : 0;
        switch (mnl_attr_get_type(a)) {
        case FRA_PRIORITY: r->priority = value; break;
        case FRA_FWMARK: r->mark = value; break;
        case FRA_FWMASK: r->mask = value; break;
        case FRA_IIFNAME:
            if (size > 0 && mnl_attr_get_str(a)[size - 1] == '\0') r->name = mnl_attr_get_str(a);
            break;
        case FRA_OIFNAME: case FRA_SRC: case FRA_DST: case FRA_UID_RANGE: case FRA_IP_PROTO:
        case FRA_SPORT_RANGE: case FRA_DPORT_RANGE: case FRA_TUN_ID: case FRA_L3MDEV:
            r->other = true;
            break;
        default: break;
        }
    }
}

static int rule_take(void *ctx, const struct nlmsghdr *m) {
    struct rules *rules = ctx;
    const struct fib_rule_hdr *head = mnl_nlmsg_get_payload(m);
    struct rule r = {.name = ""};
    /* FRA_UID_RANGE of a rule for everybody and FRA_L3MDEV 0 are not sent by the kernel. */
    rule_read(m, &r);
    if (head->action != FR_ACT_BLACKHOLE || (head->flags & FIB_RULE_INVERT) || head->tos != 0 ||
        r.priority != BARRIER_PRIORITY || r.mark != 0 || r.mask != UINT32_MAX || r.other)
        return 0;
    for (size_t i = 0; i < rules->names->count; i++)
        if (strcmp(r.name, rules->names->name[i]) == 0) rules->present[i] = true;
    return 0;
}

static int rules_read(struct netlink *route, int family, struct rules *rules) {
    int error = -EINTR;
    for (unsigned try = 0; try < QUERY_TRIES && error == -EINTR; try++) {
        uint64_t space[16];
        struct nlmsghdr *m = mnl_nlmsg_put_header(space);
        struct fib_rule_hdr *head = mnl_nlmsg_put_extra_header(m, sizeof *head);
        m->nlmsg_type = RTM_GETRULE;
        m->nlmsg_flags = NLM_F_DUMP;
        head->family = (uint8_t)family;
        memset(rules->present, 0, sizeof rules->present);
        error = netlink_query(route, m, rule_take, rules);
    }
    /* A kernel booted without IPv6 routes none. */
    return error == -EAFNOSUPPORT || error == -EOPNOTSUPP ? -EAFNOSUPPORT : error;
}

/* Missing rules of one family; adds them when `install`. */
static int family_check(struct netlink *route, int family, const struct names *names,
                        bool install) {
    struct rules rules = {.names = names};
    int missing = 0, error = rules_read(route, family, &rules);
    if (error == -EAFNOSUPPORT && family == AF_INET6) return 0;
    if (error < 0) return error;
    for (size_t i = 0; i < names->count; i++) {
        if (rules.present[i]) continue;
        missing++;
        if (!install) continue;
        error = rule_add(route, family, names->name[i]);
        if (error < 0 && error != -EEXIST) return error;
    }
    return missing;
}

static int barrier_check(const struct policy *p, bool install) {
    struct names names = {.count = 0};
    struct netlink route = {.fd = -1};
    int four, six = 0, error = names_of(p, &names);
    if (error == 0) error = netlink_open(&route, NETLINK_ROUTE, 0, 1 << 20);
    if (error < 0) return error;
    four = family_check(&route, AF_INET, &names, install);
    if (four >= 0) six = family_check(&route, AF_INET6, &names, install);
    netlink_close(&route);
    if (four < 0) return four;
    return six < 0 ? six : four + six;
}

int barrier_install(const struct policy *p) { return barrier_check(p, true); }
int barrier_verify(const struct policy *p) { return barrier_check(p, false); }
