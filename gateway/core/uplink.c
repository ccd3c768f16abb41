/* uplink.c: rtnetlink notices, the gateway's own addresses, and whether IPv6 leads out. */
#include "gateway/core/uplink.h"

#include <errno.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "gateway/core/netlink.h"

#define QUERY_TRIES 8
#define EVENTS_AT_ONCE 1024
#define GROUPS (RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR | \
                RTMGRP_IPV6_ROUTE)

struct own { /* addresses of all interfaces */
    struct addr *addrs;
    size_t used, size;
};

struct uplink {
    struct netlink events, queries;
    struct own own;
};

/* ---- own addresses ----------------------------------------------------------------------- */

static int own_take(void *ctx, const struct nlmsghdr *m) {
    struct own *o = ctx;
    const struct ifaddrmsg *head = mnl_nlmsg_get_payload(m);
    const struct nlattr *a, *address = NULL;
    mnl_attr_for_each(a, m, sizeof *head) {
        uint16_t type = mnl_attr_get_type(a);
        /* On point-to-point links IFA_ADDRESS is the peer's, IFA_LOCAL ours. */
        if (type == IFA_LOCAL || (type == IFA_ADDRESS && !address)) address = a;
    }
    uint16_t length = address ? mnl_attr_get_payload_len(address) : 0;
    if (length != (head->ifa_family == AF_INET ? 4 : 16)) return 0;
    if (o->used == o->size) {
        size_t grown = o->size ? o->size * 2 : 32;
        void *moved = realloc(o->addrs, grown * sizeof *o->addrs);
        if (!moved) return -ENOMEM;
        o->addrs = moved;
        o->size = grown;
    }
    const uint8_t *bytes = mnl_attr_get_payload(address);
    o->addrs[o->used++] = length == 4 ? addr_from4(bytes) : addr_from6(bytes);
    return 0;
}

/* What was known stays when the kernel cannot be asked. */
static int own_read(struct uplink *u) {
    struct own fresh = {0};
    int error = -EINTR;
    for (unsigned try = 0; try < QUERY_TRIES && error == -EINTR; try++) {
        uint64_t space[16];
        struct nlmsghdr *m = mnl_nlmsg_put_header(space);
        struct ifaddrmsg *head = mnl_nlmsg_put_extra_header(m, sizeof *head);
        m->nlmsg_type = RTM_GETADDR;
        m->nlmsg_flags = NLM_F_DUMP;
        head->ifa_family = AF_UNSPEC;
        fresh.used = 0;
        error = netlink_query(&u->queries, m, own_take, &fresh);
    }
    if (error < 0) {
        free(fresh.addrs);
        return error;
    }
    free(u->own.addrs);
    u->own = fresh;
    return 0;
}

bool uplink_is_own(const struct uplink *u, const struct addr *a) {
    for (size_t i = 0; i < u->own.used; i++)
        if (addr_equal(&u->own.addrs[i], a)) return true;
    return false;
}

/* ---- life and notices -------------------------------------------------------------------- */

int uplink_open(struct uplink **ret) {
    struct uplink *u = calloc(1, sizeof *u);
    if (!u) return -ENOMEM;
    int error = netlink_open(&u->events, NETLINK_ROUTE, GROUPS, 1 << 20);
    if (error == 0) error = netlink_open(&u->queries, NETLINK_ROUTE, 0, 1 << 20);
    if (error == 0) error = own_read(u);
    if (error < 0) {
        uplink_close(u);
        return error;
    }
    *ret = u;
    return 0;
}

struct uplink *uplink_close(struct uplink *u) {
    if (!u) return NULL;
    netlink_close(&u->events);
    netlink_close(&u->queries);
    free(u->own.addrs);
    free(u);
    return NULL;
}

int uplink_fd(const struct uplink *u) { return u->events.fd; }

static int notice_take(void *ctx, const struct nlmsghdr *m) {
    (void)ctx;
    (void)m;
    return 0;
}

int uplink_drain(struct uplink *u) {
    int count = netlink_events(&u->events, EVENTS_AT_ONCE, notice_take, NULL);
    if (count < 0 && count != -ENOBUFS) return count;
    if (count == 0) return 0;
    int error = own_read(u);
    return error < 0 ? error : 1;
}

/* ---- IPv6 -------------------------------------------------------------------------------- */

struct search {
    const char *name;
    int index;     /* 0: no such interface */
    bool up, address, route;
};

static int link_take(void *ctx, const struct nlmsghdr *m) {
    struct search *s = ctx;
    const struct ifinfomsg *head = mnl_nlmsg_get_payload(m);
    const struct nlattr *a;
    mnl_attr_for_each(a, m, sizeof *head) {
        size_t size = mnl_attr_get_payload_len(a);
        if (mnl_attr_get_type(a) != IFLA_IFNAME || size != strlen(s->name) + 1 ||
            memcmp(mnl_attr_get_str(a), s->name, size) != 0)
            continue;
        s->index = head->ifi_index;
        s->up = (head->ifi_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
    }
    return 0;
}

static int address_take(void *ctx, const struct nlmsghdr *m) {
    struct search *s = ctx;
    const struct ifaddrmsg *head = mnl_nlmsg_get_payload(m);
    const struct nlattr *a;
    uint32_t flags = head->ifa_flags;
    if (head->ifa_family != AF_INET6 || (int)head->ifa_index != s->index ||
        head->ifa_scope != RT_SCOPE_UNIVERSE)
        return 0;
    mnl_attr_for_each(a, m, sizeof *head)
        if (mnl_attr_get_type(a) == IFA_FLAGS && mnl_attr_get_payload_len(a) == 4)
            flags = mnl_attr_get_u32(a);
    if (!(flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED))) s->address = true;
    return 0;
}

/* Whether one of several next hops leaves by the interface. */
static bool nexthops_have(const struct nlattr *a, int index) {
    const uint8_t *data = mnl_attr_get_payload(a);
    size_t left = mnl_attr_get_payload_len(a);
    struct rtnexthop hop;
    while (left >= sizeof hop) {
        memcpy(&hop, data, sizeof hop);
        if (hop.rtnh_len < sizeof hop || hop.rtnh_len > left) return false;
        if (hop.rtnh_ifindex == index && !(hop.rtnh_flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN)))
            return true;
        size_t step = RTNH_ALIGN(hop.rtnh_len);
        if (step > left) return false;
        data += step;
        left -= step;
    }
    return false;
}

/* 2000::/3 is covered by a prefix of at most 3 bits that agrees with 001: ::/0, ::/1, ::/2, 2000::/3. */
static bool prefix_covers_global(const struct rtmsg *head, const struct nlattr *destination) {
    uint8_t first = 0;
    if (head->rtm_dst_len > 3) return false;
    if (destination && mnl_attr_get_payload_len(destination) == 16)
        first = *(const uint8_t *)mnl_attr_get_payload(destination);
    uint8_t mask = (uint8_t)(0xff00u >> head->rtm_dst_len);
    return (first & mask) == (0x20 & mask);
}

static int route_take(void *ctx, const struct nlmsghdr *m) {
    struct search *s = ctx;
    const struct rtmsg *head = mnl_nlmsg_get_payload(m);
    const struct nlattr *a, *destination = NULL;
    bool here = false;
    if (head->rtm_family != AF_INET6 || head->rtm_type != RTN_UNICAST || head->rtm_src_len != 0 ||
        (head->rtm_flags & (RTM_F_CLONED | RTNH_F_DEAD | RTNH_F_LINKDOWN)))
        return 0;
    mnl_attr_for_each(a, m, sizeof *head) {
        switch (mnl_attr_get_type(a)) {
        case RTA_DST: destination = a; break;
        case RTA_OIF:
            if (mnl_attr_get_payload_len(a) == 4 && (int)mnl_attr_get_u32(a) == s->index)
                here = true;
            break;
        case RTA_MULTIPATH: here = here || nexthops_have(a, s->index); break;
        default: break;
        }
    }
    if (here && prefix_covers_global(head, destination)) s->route = true;
    return 0;
}

static int dump(struct uplink *u, uint16_t type, netlink_fn fn, struct search *s) {
    int error = -EINTR;
    for (unsigned try = 0; try < QUERY_TRIES && error == -EINTR; try++) {
        uint64_t space[16];
        struct nlmsghdr *m = mnl_nlmsg_put_header(space);
        /* Each of the three heads begins with the family octet; the longest suits them all. */
        size_t size = type == RTM_GETLINK   ? sizeof(struct ifinfomsg)
                      : type == RTM_GETADDR ? sizeof(struct ifaddrmsg)
                                            : sizeof(struct rtmsg);
        uint8_t *head = mnl_nlmsg_put_extra_header(m, size);
        m->nlmsg_type = type;
        m->nlmsg_flags = NLM_F_DUMP;
        head[0] = type == RTM_GETLINK ? AF_UNSPEC : AF_INET6;
        error = netlink_query(&u->queries, m, fn, s);
    }
    return error;
}

int uplink_ipv6(struct uplink *u, const char *interface) {
    struct search s = {.name = interface};
    int error = dump(u, RTM_GETLINK, link_take, &s);
    if (error < 0) return error;
    if (s.index == 0 || !s.up) return 0;
    error = dump(u, RTM_GETADDR, address_take, &s);
    if (error == 0) error = dump(u, RTM_GETROUTE, route_take, &s);
    if (error == -EAFNOSUPPORT || error == -EOPNOTSUPP) return 0; /* no IPv6 in this kernel */
    if (error < 0) return error;
    return s.address && s.route ? 1 : 0;
}
