/* conntrack.c: ctnetlink (linux/netfilter/nfnetlink_conntrack.h) by hand: the attributes are few and
 * another library would be one more thing that parses in the privileged process. */
#include "gateway/core/conntrack.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_compat.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/core/netlink.h"

#define EVENT_BUFFER (8 << 20)
#define QUERY_BUFFER (4 << 20)
#define EVENTS_AT_ONCE 256
/* Flows picked from one dump for deletion; more are left to another round. */
#define VICTIMS_MAX 8192
#define ROUNDS_MAX 64
#define QUERY_TRIES 8

struct conntrack {
    struct netlink events, queries;
};

int conntrack_open(struct conntrack **ret) {
    struct conntrack *c = calloc(1, sizeof *c);
    if (!c) return -ENOMEM;
    int error = netlink_open(&c->events, NETLINK_NETFILTER,
                             NF_NETLINK_CONNTRACK_NEW | NF_NETLINK_CONNTRACK_DESTROY,
                             EVENT_BUFFER);
    if (error == 0) error = netlink_open(&c->queries, NETLINK_NETFILTER, 0, QUERY_BUFFER);
    if (error < 0) {
        conntrack_close(c);
        return error;
    }
    *ret = c;
    return 0;
}

struct conntrack *conntrack_close(struct conntrack *c) {
    if (!c) return NULL;
    netlink_close(&c->events);
    netlink_close(&c->queries);
    free(c);
    return NULL;
}

int conntrack_fd(const struct conntrack *c) { return c->events.fd; }

/* ---- reading ----------------------------------------------------------------------------- */

static uint64_t read_u64(const struct nlattr *a) {
    return mnl_attr_get_payload_len(a) == 8 ? be64toh(mnl_attr_get_u64(a)) : 0;
}
static uint32_t read_u32(const struct nlattr *a) {
    return mnl_attr_get_payload_len(a) == 4 ? ntohl(mnl_attr_get_u32(a)) : 0;
}
static uint16_t read_u16(const struct nlattr *a) {
    return mnl_attr_get_payload_len(a) == 2 ? ntohs(mnl_attr_get_u16(a)) : 0;
}
static uint8_t read_u8(const struct nlattr *a) {
    return mnl_attr_get_payload_len(a) == 1 ? mnl_attr_get_u8(a) : 0;
}

static void read_address(const struct nlattr *a, struct conntrack_tuple *t) {
    const uint8_t *bytes = mnl_attr_get_payload(a);
    uint16_t size = mnl_attr_get_payload_len(a);
    switch (mnl_attr_get_type(a)) {
    case CTA_IP_V4_SRC: if (size == 4) t->source = addr_from4(bytes); break;
    case CTA_IP_V4_DST: if (size == 4) t->destination = addr_from4(bytes); break;
    /* Not addr_from6() semantics of mapping: the family is what the kernel says. */
    case CTA_IP_V6_SRC: if (size == 16) t->source = addr_from6(bytes); break;
    case CTA_IP_V6_DST: if (size == 16) t->destination = addr_from6(bytes); break;
    default: break;
    }
}

static void read_protocol(const struct nlattr *a, struct conntrack_tuple *t, uint8_t *protocol) {
    switch (mnl_attr_get_type(a)) {
    case CTA_PROTO_NUM: *protocol = read_u8(a); break;
    case CTA_PROTO_SRC_PORT: t->source_port = read_u16(a); break;
    case CTA_PROTO_DST_PORT: t->destination_port = read_u16(a); break;
    case CTA_PROTO_ICMP_ID:
    case CTA_PROTO_ICMPV6_ID: t->icmp_id = read_u16(a); break;
    case CTA_PROTO_ICMP_TYPE:
    case CTA_PROTO_ICMPV6_TYPE: t->icmp_type = read_u8(a); break;
    case CTA_PROTO_ICMP_CODE:
    case CTA_PROTO_ICMPV6_CODE: t->icmp_code = read_u8(a); break;
    default: break;
    }
}

static void read_tuple(const struct nlattr *nest, struct conntrack_tuple *t, uint8_t *protocol) {
    const struct nlattr *a, *inner;
    mnl_attr_for_each_nested(a, nest) {
        uint16_t type = mnl_attr_get_type(a);
        if (type != CTA_TUPLE_IP && type != CTA_TUPLE_PROTO) continue;
        mnl_attr_for_each_nested(inner, a) {
            if (type == CTA_TUPLE_IP) read_address(inner, t);
            else read_protocol(inner, t, protocol);
        }
    }
}

static void read_counters(const struct nlattr *nest, uint64_t *packets, uint64_t *bytes) {
    const struct nlattr *a;
    mnl_attr_for_each_nested(a, nest) {
        if (mnl_attr_get_type(a) == CTA_COUNTERS_PACKETS) *packets = read_u64(a);
        if (mnl_attr_get_type(a) == CTA_COUNTERS_BYTES) *bytes = read_u64(a);
    }
}

static void read_times(const struct nlattr *nest, struct conntrack_flow *f) {
    const struct nlattr *a;
    mnl_attr_for_each_nested(a, nest) {
        if (mnl_attr_get_type(a) == CTA_TIMESTAMP_START) f->start_ns = read_u64(a);
        if (mnl_attr_get_type(a) == CTA_TIMESTAMP_STOP) f->stop_ns = read_u64(a);
    }
}

/* Whether it is a flow we understand: addresses of one family in both directions. */
static bool flow_read(const struct nlmsghdr *m, struct conntrack_flow *f) {
    const struct nlattr *a;
    uint8_t other;
    mnl_attr_for_each(a, m, sizeof(struct nfgenmsg)) {
        switch (mnl_attr_get_type(a)) {
        case CTA_TUPLE_ORIG: read_tuple(a, &f->original, &f->protocol); break;
        case CTA_TUPLE_REPLY: read_tuple(a, &f->reply, &other); break;
        case CTA_ID: f->id = read_u32(a); break;
        case CTA_MARK: f->mark = read_u32(a); break;
        case CTA_ZONE: f->zone = read_u16(a); break;
        case CTA_STATUS: f->status = read_u32(a); break;
        case CTA_COUNTERS_ORIG:
            f->counted = true;
            read_counters(a, &f->packets_out, &f->bytes_out);
            break;
        case CTA_COUNTERS_REPLY: read_counters(a, &f->packets_in, &f->bytes_in); break;
        case CTA_TIMESTAMP: read_times(a, f); break;
        default: break;
        }
    }
    return f->original.source.family != 0 && f->original.destination.family != 0 &&
           f->reply.source.family != 0 && f->reply.destination.family != 0;
}

struct take {
    conntrack_fn fn;
    void *ctx;
    int count;
};

static int event_take(void *ctx, const struct nlmsghdr *m) {
    struct take *t = ctx;
    struct conntrack_flow f = {0};
    unsigned message = m->nlmsg_type & 0xffu;
    if (m->nlmsg_type >> 8 != NFNL_SUBSYS_CTNETLINK) return 0;
    if (message == IPCTNL_MSG_CT_DELETE) f.event = CONNTRACK_DESTROY;
    else if (message == IPCTNL_MSG_CT_NEW) f.event = CONNTRACK_NEW;
    else return 0;
    if (!flow_read(m, &f)) return 0;
    t->count++;
    return t->fn(t->ctx, &f);
}

int conntrack_receive(struct conntrack *c, conntrack_fn fn, void *ctx) {
    struct take t = {.fn = fn, .ctx = ctx};
    int result = netlink_events(&c->events, EVENTS_AT_ONCE, event_take, &t);
    return result < 0 ? result : t.count;
}

/* ---- asking ------------------------------------------------------------------------------ */

#define ASK_WORDS 64
static struct nlmsghdr *ask(uint64_t space[ASK_WORDS], uint16_t type, uint16_t flags,
                            uint8_t family) {
    struct nlmsghdr *m = mnl_nlmsg_put_header(space);
    struct nfgenmsg *g = mnl_nlmsg_put_extra_header(m, sizeof *g);
    m->nlmsg_type = (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | type);
    m->nlmsg_flags = flags;
    *g = (struct nfgenmsg){.nfgen_family = family, .version = NFNETLINK_V0};
    return m;
}

static int dump_take(void *ctx, const struct nlmsghdr *m) {
    struct take *t = ctx;
    struct conntrack_flow f = {.event = CONNTRACK_DUMPED};
    if (!flow_read(m, &f)) return 0;
    t->count++;
    return t->fn(t->ctx, &f);
}

int conntrack_dump(struct conntrack *c, uint32_t mark, uint32_t mask, conntrack_fn fn,
                   void *ctx) {
    struct take t = {.fn = fn, .ctx = ctx};
    uint64_t space[ASK_WORDS];
    struct nlmsghdr *m = ask(space, IPCTNL_MSG_CT_GET, NLM_F_DUMP, AF_UNSPEC);
    if (mask != 0) {
        mnl_attr_put_u32(m, CTA_MARK, htonl(mark));
        mnl_attr_put_u32(m, CTA_MARK_MASK, htonl(mask));
    }
    int error = netlink_query(&c->queries, m, dump_take, &t);
    return error < 0 ? error : t.count;
}

static bool protocol_has_ports(uint8_t protocol) {
    return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE ||
           protocol == IPPROTO_SCTP || protocol == IPPROTO_DCCP || protocol == IPPROTO_GRE;
}

static void put_tuple(struct nlmsghdr *m, const struct conntrack_flow *f) {
    const struct conntrack_tuple *t = &f->original;
    bool four = t->source.family == 4;
    size_t size = four ? 4 : 16;
    struct nlattr *tuple = mnl_attr_nest_start(m, CTA_TUPLE_ORIG);
    struct nlattr *nest = mnl_attr_nest_start(m, CTA_TUPLE_IP);
    mnl_attr_put(m, four ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, size, t->source.bytes);
    mnl_attr_put(m, four ? CTA_IP_V4_DST : CTA_IP_V6_DST, size, t->destination.bytes);
    mnl_attr_nest_end(m, nest);
    nest = mnl_attr_nest_start(m, CTA_TUPLE_PROTO);
    mnl_attr_put_u8(m, CTA_PROTO_NUM, f->protocol);
    if (protocol_has_ports(f->protocol)) {
        mnl_attr_put_u16(m, CTA_PROTO_SRC_PORT, htons(t->source_port));
        mnl_attr_put_u16(m, CTA_PROTO_DST_PORT, htons(t->destination_port));
    }
    if (f->protocol == IPPROTO_ICMP || f->protocol == IPPROTO_ICMPV6) {
        bool v4 = f->protocol == IPPROTO_ICMP;
        mnl_attr_put_u8(m, v4 ? CTA_PROTO_ICMP_TYPE : CTA_PROTO_ICMPV6_TYPE, t->icmp_type);
        mnl_attr_put_u8(m, v4 ? CTA_PROTO_ICMP_CODE : CTA_PROTO_ICMPV6_CODE, t->icmp_code);
        mnl_attr_put_u16(m, v4 ? CTA_PROTO_ICMP_ID : CTA_PROTO_ICMPV6_ID, htons(t->icmp_id));
    }
    mnl_attr_nest_end(m, nest);
    mnl_attr_nest_end(m, tuple);
}

int conntrack_delete(struct conntrack *c, const struct conntrack_flow *flow) {
    uint64_t space[ASK_WORDS];
    struct nlmsghdr *m = ask(space, IPCTNL_MSG_CT_DELETE, 0,
                             flow->original.source.family == 4 ? AF_INET : AF_INET6);
    put_tuple(m, flow);
    if (flow->zone != 0) mnl_attr_put_u16(m, CTA_ZONE, htons(flow->zone));
    /* With the id, a new flow that took the same tuple meanwhile is not hit. */
    mnl_attr_put_u32(m, CTA_ID, htonl(flow->id));
    int error = netlink_request(&c->queries, m);
    if (error == -ENOENT) return 0;
    return error < 0 ? error : 1;
}

/* ---- deleting by choice ------------------------------------------------------------------ */

struct victims {
    conntrack_wanted_fn wanted;
    void *ctx;
    struct conntrack_flow *flows;
    size_t used, size;
    bool more; /* the dump had more than VICTIMS_MAX */
};

static int victim_take(void *ctx, const struct conntrack_flow *flow) {
    struct victims *v = ctx;
    if (v->wanted && !v->wanted(v->ctx, flow)) return 0;
    if (v->used == VICTIMS_MAX) {
        v->more = true;
        return 0;
    }
    if (v->used == v->size) {
        size_t grown = v->size ? v->size * 2 : 64;
        void *moved = realloc(v->flows, grown * sizeof *v->flows);
        if (!moved) return -ENOMEM;
        v->flows = moved;
        v->size = grown;
    }
    v->flows[v->used++] = *flow;
    return 0;
}

/* One dump and the deletion of what it gave. Seeing a flow twice does no harm, missing one does: an
 * inconsistent dump is deleted from and asked for once more. */
static int delete_round(struct conntrack *c, struct victims *v, uint32_t mark, uint32_t mask,
                        bool *ret_again) {
    int deleted = 0;
    v->used = 0;
    v->more = false;
    int error = conntrack_dump(c, mark, mask, victim_take, v);
    if (error < 0 && error != -EINTR) return error;
    *ret_again = error == -EINTR || v->more;
    for (size_t i = 0; i < v->used; i++) {
        int one = conntrack_delete(c, &v->flows[i]);
        if (one < 0) return one;
        deleted += one;
    }
    return deleted;
}

int conntrack_delete_where(struct conntrack *c, uint32_t mark, uint32_t mask,
                           conntrack_wanted_fn wanted, void *ctx) {
    struct victims v = {.wanted = wanted, .ctx = ctx};
    int deleted = 0;
    bool again = true;
    for (unsigned round = 0; round < ROUNDS_MAX && again; round++) {
        int one = delete_round(c, &v, mark, mask, &again);
        if (one < 0) {
            free(v.flows);
            return one;
        }
        deleted += one;
    }
    free(v.flows);
    return again ? -EAGAIN : deleted;
}

/* ---- deleting what nobody answers for ---------------------------------------------------- */

struct unknown {
    const struct prefix *prefixes;
    size_t count;
    bool (*known)(void *ctx, uint32_t mark);
    void *ctx;
    struct addr *local; /* the gateway's own addresses */
    size_t local_used, local_size;
};

static int local_take(void *ctx, const struct nlmsghdr *m) {
    struct unknown *u = ctx;
    const struct ifaddrmsg *head = mnl_nlmsg_get_payload(m);
    const struct nlattr *a, *address = NULL;
    mnl_attr_for_each(a, m, sizeof *head) {
        uint16_t type = mnl_attr_get_type(a);
        /* On point-to-point links IFA_ADDRESS is the peer's, IFA_LOCAL ours. */
        if (type == IFA_LOCAL || (type == IFA_ADDRESS && !address)) address = a;
    }
    if (!address) return 0;
    if (u->local_used == u->local_size) {
        size_t grown = u->local_size ? u->local_size * 2 : 32;
        void *moved = realloc(u->local, grown * sizeof *u->local);
        if (!moved) return -ENOMEM;
        u->local = moved;
        u->local_size = grown;
    }
    uint16_t size = mnl_attr_get_payload_len(address);
    if (head->ifa_family == AF_INET && size == 4)
        u->local[u->local_used++] = addr_from4(mnl_attr_get_payload(address));
    if (head->ifa_family == AF_INET6 && size == 16)
        u->local[u->local_used++] = addr_from6(mnl_attr_get_payload(address));
    return 0;
}

static int local_read(struct unknown *u) {
    struct netlink route = {.fd = -1};
    uint64_t space[16];
    int error = netlink_open(&route, NETLINK_ROUTE, 0, 1 << 20);
    if (error < 0) return error;
    error = -EINTR;
    for (unsigned try = 0; try < QUERY_TRIES && error == -EINTR; try++) {
        struct nlmsghdr *m = mnl_nlmsg_put_header(space);
        struct ifaddrmsg *head = mnl_nlmsg_put_extra_header(m, sizeof *head);
        m->nlmsg_type = RTM_GETADDR;
        m->nlmsg_flags = NLM_F_DUMP;
        head->ifa_family = AF_UNSPEC;
        u->local_used = 0;
        error = netlink_query(&route, m, local_take, u);
    }
    netlink_close(&route);
    return error;
}

static bool unknown_wanted(void *ctx, const struct conntrack_flow *f) {
    const struct unknown *u = ctx;
    bool inside = false;
    if (f->mark != 0 && (!u->known || u->known(u->ctx, f->mark))) return false;
    for (size_t i = 0; i < u->count && !inside; i++)
        inside = prefix_contains(&u->prefixes[i], &f->original.source);
    /* Who answers is the source of the reply direction, after redirection. */
    for (size_t i = 0; i < u->local_used && inside; i++)
        if (addr_equal(&u->local[i], &f->reply.source)) inside = false;
    return inside;
}

int conntrack_delete_unknown(struct conntrack *c, const struct prefix *prefixes, size_t count,
                             bool (*known)(void *ctx, uint32_t mark), void *ctx) {
    struct unknown u = {.prefixes = prefixes, .count = count, .known = known, .ctx = ctx};
    int result = local_read(&u);
    if (result == 0) result = conntrack_delete_where(c, 0, 0, unknown_wanted, &u);
    free(u.local);
    return result;
}
