/* selftest.c: three packets for each family through a TUN interface: without opening (must vanish),
 * with one (must come out), with it removed (must vanish). The second is the control: without it a
 * test that never sees a packet would always pass. */
#include "gateway/core/selftest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "gateway/core/netlink.h"
#include "gateway/core/ruleset.h"
#include "gateway/core/sysctl.h"

#define REMOTE_PORT 7 /* any: no opening of an agent has this destination */
#define DENIED_WAIT (60 * USEC_PER_MSEC) /* forwarding happens within write(); this is ample */
/* What must come out is tried again: on a busy machine the interface may not be ready at once. */
#define ALLOWED_WAIT  (100 * USEC_PER_MSEC)
#define ALLOWED_TRIES 10
#define OPENING_MS 10000
#define TOKEN_SIZE 16

struct packet {
    uint8_t bytes[40 + 8 + TOKEN_SIZE];
    size_t size;
    size_t token; /* offset */
};

struct run {
    int tun, index, family;
    struct netlink route;
    struct elements *elements;
    const struct clock *clock;
    bool forwarding6; /* switched on for all by us */
    uint16_t port;    /* source port of the last packet */
};

const char *selftest_fault_text(enum selftest_fault fault) {
    switch (fault) {
    case SELFTEST_PASSED: return "passed";
    case SELFTEST_LEAK: return "a packet without an opening was forwarded";
    case SELFTEST_BLOCKED: return "a packet with an opening was not forwarded";
    case SELFTEST_STAYS: return "a packet was forwarded after its opening was removed";
    case SELFTEST_BROKEN: return "the test could not be carried out";
    }
    return "unknown";
}

/* ---- the interface ----------------------------------------------------------------------- */

static struct nlmsghdr *link_message(uint64_t space[32], uint16_t type) {
    struct nlmsghdr *m = mnl_nlmsg_put_header(space);
    struct ifinfomsg *head = mnl_nlmsg_put_extra_header(m, sizeof *head);
    m->nlmsg_type = type;
    head->ifi_family = AF_UNSPEC;
    return m;
}

static int link_remove(struct run *r) {
    uint64_t space[32];
    struct nlmsghdr *m = link_message(space, RTM_DELLINK);
    mnl_attr_put_strz(m, IFLA_IFNAME, RULESET_SELFTEST);
    int error = netlink_request(&r->route, m);
    return error == -ENODEV ? 0 : error;
}

static int index_take(void *ctx, const struct nlmsghdr *m) {
    *(int *)ctx = ((const struct ifinfomsg *)mnl_nlmsg_get_payload(m))->ifi_index;
    return 0;
}

static int link_up(struct run *r) {
    uint64_t space[32];
    struct nlmsghdr *m = link_message(space, RTM_GETLINK);
    mnl_attr_put_strz(m, IFLA_IFNAME, RULESET_SELFTEST);
    int error = netlink_query(&r->route, m, index_take, &r->index);
    if (error < 0) return error;
    m = link_message(space, RTM_NEWLINK);
    struct ifinfomsg *head = mnl_nlmsg_get_payload(m);
    head->ifi_index = r->index;
    head->ifi_flags = IFF_UP;
    head->ifi_change = IFF_UP;
    return netlink_request(&r->route, m);
}

/* Host `number` of the self-test's subnet. */
static struct addr host(int family, uint8_t number) {
    struct prefix subnet;
    /* Constants of our own: they parse. */
    (void)prefix_parse(family == 4 ? SELFTEST_SUBNET4 : SELFTEST_SUBNET6, &subnet);
    struct addr a = subnet.addr;
    a.bytes[family == 4 ? 3 : 15] = (uint8_t)(a.bytes[family == 4 ? 3 : 15] + number);
    return a;
}

static int address_add(struct run *r, int family) {
    uint64_t space[32];
    struct addr own = host(family, 1);
    size_t size = family == 4 ? 4 : 16;
    struct nlmsghdr *m = mnl_nlmsg_put_header(space);
    struct ifaddrmsg *head = mnl_nlmsg_put_extra_header(m, sizeof *head);
    m->nlmsg_type = RTM_NEWADDR;
    m->nlmsg_flags = NLM_F_CREATE | NLM_F_REPLACE;
    head->ifa_family = family == 4 ? AF_INET : AF_INET6;
    head->ifa_prefixlen = family == 4 ? 29 : 64;
    head->ifa_flags = family == 6 ? IFA_F_NODAD : 0;
    head->ifa_index = (uint32_t)r->index;
    mnl_attr_put(m, IFA_LOCAL, size, own.bytes);
    mnl_attr_put(m, IFA_ADDRESS, size, own.bytes);
    return netlink_request(&r->route, m);
}

/* The descriptor may still hold an interface from a run that was cut short: once that interface is
 * deleted, the kernel lets the same descriptor make another. */
static int interface_make(struct run *r) {
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int flags, error = link_remove(r);
    if (error < 0) return error;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", RULESET_SELFTEST);
    if (ioctl(r->tun, TUNSETIFF, &request) != 0) return -errno;
    flags = fcntl(r->tun, F_GETFL);
    if (flags < 0 || fcntl(r->tun, F_SETFL, flags | O_NONBLOCK) != 0) return -errno;
    error = link_up(r);
    if (error == 0) error = address_add(r, 4);
    if (error == 0) error = sysctl_set("ipv4/conf/" RULESET_SELFTEST "/forwarding", "1");
    return error;
}

/* 1 IPv6 is ready, 0 the kernel has none, -errno. */
static int interface_six(struct run *r) {
    char value[SYSCTL_VALUE_MAX];
    int error = sysctl_set("ipv6/conf/" RULESET_SELFTEST "/disable_ipv6", "0");
    if (error == -ENOENT) return 0;
    if (error == 0) error = address_add(r, 6);
    if (error < 0) return error;
    /* Since Linux 6.17 one interface can forward alone, as for IPv4. */
    error = sysctl_set("ipv6/conf/" RULESET_SELFTEST "/force_forwarding", "1");
    if (error == 0) return 1;
    if (error != -ENOENT) return error;
    error = sysctl_get("ipv6/conf/all/forwarding", value);
    if (error < 0) return error;
    if (strcmp(value, "1") == 0) return 1;
    error = sysctl_set("ipv6/conf/all/forwarding", "1");
    if (error < 0) return error;
    r->forwarding6 = true;
    return 1;
}

/* ---- packets ----------------------------------------------------------------------------- */

static void put_u16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* RFC 1071, over an even number of octets. */
static uint32_t sum_words(const uint8_t *bytes, size_t size, uint32_t sum) {
    for (size_t i = 0; i + 1 < size; i += 2) sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    return sum;
}

static uint16_t sum_fold(uint32_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

/* A UDP packet from host 2 to host 3 with a random payload to know it by. */
static void packet_make(const struct run *r, struct packet *p) {
    struct addr source = host(r->family, 2), remote = host(r->family, 3);
    size_t size = r->family == 4 ? 4 : 16, head = r->family == 4 ? 20 : 40;
    uint32_t payload = 8 + TOKEN_SIZE, sum;
    *p = (struct packet){.size = head + payload, .token = head + 8};
    uint8_t *ip = p->bytes, *udp = p->bytes + head;
    if (r->family == 4) {
        ip[0] = 0x45;
        put_u16(ip + 2, (uint32_t)p->size);
        ip[8] = 64;
        ip[9] = IPPROTO_UDP;
    } else {
        ip[0] = 0x60;
        put_u16(ip + 4, payload);
        ip[6] = IPPROTO_UDP;
        ip[7] = 64;
    }
    memcpy(ip + head - 2 * size, source.bytes, size);
    memcpy(ip + head - size, remote.bytes, size);
    if (r->family == 4) put_u16(ip + 10, sum_fold(sum_words(ip, head, 0)));
    put_u16(udp, r->port);
    put_u16(udp + 2, REMOTE_PORT);
    put_u16(udp + 4, payload);
    random_bytes(udp + 8, TOKEN_SIZE);
    sum = sum_words(ip + head - 2 * size, 2 * size, payload + IPPROTO_UDP);
    uint16_t check = sum_fold(sum_words(udp, payload, sum));
    put_u16(udp + 6, check ? check : 0xffff);
}

/* Whether it is the packet we sent, not an error message about it: same length, same token. */
static bool packet_same(const struct packet *p, const uint8_t *bytes, size_t size) {
    return size == p->size && bytes[0] >> 4 == p->bytes[0] >> 4 &&
           memcmp(bytes + p->token, p->bytes + p->token, TOKEN_SIZE) == 0;
}

/* 1 it came out, 0 it did not within `wait`, -errno. */
static int packet_seen(const struct run *r, const struct packet *p, usec_t wait) {
    usec_t end = clock_now(r->clock) + wait;
    uint8_t bytes[2048];
    for (;;) {
        ssize_t got = read(r->tun, bytes, sizeof bytes);
        if (got > 0 && packet_same(p, bytes, (size_t)got)) return 1;
        if (got > 0 || (got < 0 && errno == EINTR)) continue;
        if (got < 0 && errno != EAGAIN) return -errno;
        usec_t now = clock_now(r->clock);
        if (now >= end) return 0;
        struct pollfd ready = {.fd = r->tun, .events = POLLIN};
        if (poll(&ready, 1, (int)((end - now) / USEC_PER_MSEC) + 1) < 0 && errno != EINTR)
            return -errno;
    }
}

/* Each packet has a source port of its own, so each is a new flow. */
static int packet_try(struct run *r, usec_t wait) {
    struct packet p;
    r->port++;
    packet_make(r, &p);
    ssize_t sent = write(r->tun, p.bytes, p.size);
    if (sent < 0) return -errno;
    return packet_seen(r, &p, wait);
}

static int packet_passes(struct run *r) {
    int seen = 0;
    for (unsigned i = 0; i < ALLOWED_TRIES && seen == 0; i++) seen = packet_try(r, ALLOWED_WAIT);
    return seen;
}

/* ---- the test ---------------------------------------------------------------------------- */

static int opening_set(struct run *r, enum element_op op) {
    struct element_change change = {
        .op = op, .mark = SELFTEST_MARK, .timeout_ms = OPENING_MS,
        .key = {.client = host(r->family, 2), .remote = host(r->family, 3), .port = REMOTE_PORT,
                .protocol = IPPROTO_UDP}};
    elements_begin(r->elements);
    int request = elements_request(r->elements);
    int error = elements_put(r->elements, &change);
    if (error == 0) error = elements_commit(r->elements);
    if (error < 0) {
        elements_begin(r->elements);
        return error;
    }
    return elements_result(r->elements, (unsigned)request);
}

static int family_run(struct run *r, enum selftest_fault *ret) {
    int seen = opening_set(r, ELEMENT_DELETE); /* of a run that was cut short */
    if (seen == 0) seen = packet_try(r, DENIED_WAIT);
    if (seen < 0) return seen;
    if (seen) {
        *ret = SELFTEST_LEAK;
        return -EREMOTEIO;
    }
    int error = opening_set(r, ELEMENT_REFRESH);
    if (error < 0) return error;
    seen = packet_passes(r);
    error = opening_set(r, ELEMENT_DELETE);
    if (seen < 0 || error < 0) return seen < 0 ? seen : error;
    if (!seen) {
        *ret = SELFTEST_BLOCKED;
        return -EREMOTEIO;
    }
    seen = packet_try(r, DENIED_WAIT);
    if (seen <= 0) return seen;
    *ret = SELFTEST_STAYS;
    return -EREMOTEIO;
}

static int families_run(struct run *r, enum selftest_fault *ret) {
    r->family = 4;
    int error = interface_make(r);
    if (error == 0) error = family_run(r, ret);
    if (error < 0) return error;
    r->family = 6;
    int six = interface_six(r);
    return six <= 0 ? six : family_run(r, ret);
}

int selftest_run(int tun, struct elements *e, struct conntrack *c, const struct clock *clock,
                 struct selftest_result *ret) {
    struct run r = {.tun = tun, .elements = e, .clock = clock, .port = 40000};
    enum selftest_fault fault = SELFTEST_BROKEN;
    int clean, error = netlink_open(&r.route, NETLINK_ROUTE, 0, 1 << 18);

    if (error == 0) {
        error = families_run(&r, &fault);
        if (r.forwarding6) {
            clean = sysctl_set("ipv6/conf/all/forwarding", "0");
            if (clean < 0 && error == 0) error = clean;
        }
        clean = link_remove(&r);
        if (clean < 0 && error == 0) error = clean;
        clean = conntrack_delete_where(c, SELFTEST_MARK, UINT32_MAX, NULL, NULL);
        if (clean < 0 && error == 0) error = clean;
        netlink_close(&r.route);
    }
    *ret = (struct selftest_result){.fault = error == 0 ? SELFTEST_PASSED : fault,
                                    .family = error == 0 ? 0 : r.family};
    return error;
}
