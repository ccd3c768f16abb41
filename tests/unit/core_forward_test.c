/* core_forward_test.c: which packets the ruleset lets through, by real packets on both sides. */
#include <grp.h>
#include <sys/socket.h>

#include "tests/unit/core_kernel.h"

/* The same case for both families. */
struct family {
    const char *agent, *remote, *gateway, *elsewhere, *spoofed;
};
static const struct family families[] = {
    {AGENT4, REMOTE4, GATEWAY4, "203.0.113.8", "10.77.2.16"},
    {AGENT6, REMOTE6, GATEWAY6, "2001:db8:7::8", "fd77:2::16"},
};
#define EACH(f) (const struct family *f = families; f < families + 2; f++)

/* The six counters after what happened since the last call. */
static uint64_t counted(struct lab *l, uint32_t reason) {
    struct ruleset_counter counters[RULESET_COUNTERS];
    ck_assert_int_eq(ruleset_counters(&l->ruleset, counters), 0);
    for (unsigned i = 0; i < RULESET_COUNTERS; i++)
        if (counters[i].reason == reason) return counters[i].packets;
    ck_abort_msg("no counter for %s", reason_tag(reason));
    return 0;
}

#define COUNTED(l, reason, packets)                                                                \
    do {                                                                                           \
        uint64_t before_ = counted(l, reason);                                                     \
        packets;                                                                                   \
        ck_assert_msg(counted(l, reason) > before_, "not counted as %s: %s", reason_tag(reason),   \
                      #packets);                                                                   \
    } while (0)

START_TEST(opening_is_exact) {
    struct lab l;
    lab_start(&l);
    for EACH(f) {
        DROPPED(l.agent, l.uplink, packet_udp(f->agent, f->remote, 4000, 443));
        DROPPED(l.agent, l.uplink, packet_tcp(f->agent, f->remote, 4000, 443, SYN, 1, 0, 0));
        lab_open(&l, f->agent, f->remote, IPPROTO_TCP, 443);
        PASSES(l.agent, l.uplink, packet_tcp(f->agent, f->remote, 4001, 443, SYN, 1, 0, 0));
        /* Another protocol, port, address, client; the other direction. */
        COUNTED(&l, REASON_NO_OPENING,
                DROPPED(l.agent, l.uplink, packet_udp(f->agent, f->remote, 4001, 443)));
        DROPPED(l.agent, l.uplink, packet_tcp(f->agent, f->remote, 4002, 80, SYN, 1, 0, 0));
        DROPPED(l.agent, l.uplink, packet_tcp(f->agent, f->elsewhere, 4003, 443, SYN, 1, 0, 0));
        DROPPED(l.other, l.uplink, packet_tcp(f->spoofed, f->remote, 4004, 443, SYN, 1, 0, 0));
        COUNTED(&l, REASON_UNSOLICITED,
                DROPPED(l.uplink, l.agent,
                        packet_tcp(f->remote, f->agent, 443, 4005, SYN, 1, 0, 0)));
    }
    lab_stop(&l);
}
END_TEST

/* c11: the flow goes on when the opening has gone, both ways; a new one does not begin. */
START_TEST(flow_outlives_opening) {
    struct lab l;
    lab_start(&l);
    for EACH(f) {
        lab_open(&l, f->agent, f->remote, IPPROTO_TCP, 443);
        PASSES(l.agent, l.uplink, packet_tcp(f->agent, f->remote, 4000, 443, SYN, 100, 0, 0));
        PASSES(l.uplink, l.agent, packet_tcp(f->remote, f->agent, 443, 4000, SYN | ACK, 200, 101, 0));
        PASSES(l.agent, l.uplink, packet_tcp(f->agent, f->remote, 4000, 443, ACK, 101, 201, 0));
        struct element_change gone = lab_change(ELEMENT_DELETE, f->agent, f->remote, IPPROTO_TCP,
                                                443, 0);
        ck_assert_int_eq(lab_commit(&l, &gone), 0);
        PASSES(l.agent, l.uplink, packet_tcp(f->agent, f->remote, 4000, 443, ACK, 101, 201, 40));
        PASSES(l.uplink, l.agent, packet_tcp(f->remote, f->agent, 443, 4000, ACK, 201, 141, 40));
        DROPPED(l.agent, l.uplink, packet_tcp(f->agent, f->remote, 4001, 443, SYN, 100, 0, 0));
    }
    lab_stop(&l);
}
END_TEST

/* A flow from before the gateway was in force, known to conntrack, has mark 0. */
START_TEST(established_without_mark) {
    struct lab l;
    lab_network(&l);
    RUN("nft", "add table ip early; add chain ip early c { type filter hook prerouting priority 0; }; "
               "add rule ip early c ct state new counter; add table ip6 early; "
               "add chain ip6 early c { type filter hook prerouting priority 0; }; "
               "add rule ip6 early c ct state new counter");
    lab_forwarding(true);
    for EACH(f) {
        PASSES(l.agent, l.uplink, packet_tcp(f->agent, f->remote, 4000, 443, SYN, 100, 0, 0));
        PASSES(l.uplink, l.agent, packet_tcp(f->remote, f->agent, 443, 4000, SYN | ACK, 200, 101, 0));
    }
    lab_load(&l, false);
    for EACH(f) {
        /* An opening does not legalise the flow that came before it. */
        lab_open(&l, f->agent, f->remote, IPPROTO_TCP, 443);
        COUNTED(&l, REASON_NO_OPENING,
                DROPPED(l.agent, l.uplink,
                        packet_tcp(f->agent, f->remote, 4000, 443, ACK, 101, 201, 10)));
        COUNTED(&l, REASON_UNSOLICITED,
                DROPPED(l.uplink, l.agent,
                        packet_tcp(f->remote, f->agent, 443, 4000, ACK, 201, 101, 10)));
    }
    lab_stop(&l);
}
END_TEST

/* c39: foreign sources, on the agents' and on the uplink's side. */
START_TEST(spoofing) {
    struct lab l;
    lab_start(&l);
    for EACH(f) {
        lab_open(&l, f->spoofed, f->remote, IPPROTO_UDP, 5000);
        lab_open(&l, f->agent, f->remote, IPPROTO_UDP, 5000);
        COUNTED(&l, REASON_SPOOFED,
                DROPPED(l.agent, l.uplink, packet_udp(f->spoofed, f->remote, 4000, 5000)));
        COUNTED(&l, REASON_SPOOFED,
                DROPPED(l.agent, l.uplink, packet_udp(f->elsewhere, f->remote, 4000, 5000)));
        PASSES(l.other, l.uplink, packet_udp(f->spoofed, f->remote, 4000, 5000));
        /* From outside in the name of an agent, amid a flow of that agent. */
        PASSES(l.agent, l.uplink, packet_udp(f->agent, f->remote, 4001, 5000));
        COUNTED(&l, REASON_SPOOFED,
                DROPPED(l.uplink, l.management, packet_udp(f->agent, f->remote, 4001, 5000)));
    }
    lab_open(&l, "fe80::16", REMOTE6, IPPROTO_UDP, 5000);
    COUNTED(&l, REASON_SPOOFED,
            DROPPED(l.agent, l.uplink, packet_udp("fe80::16", REMOTE6, 4000, 5000)));
    DROPPED(l.agent, l.uplink, packet_udp("::1", REMOTE6, 4000, 5000));
    DROPPED(l.agent, l.uplink, packet_udp("127.0.0.1", REMOTE4, 4000, 5000));
    DROPPED(l.agent, l.uplink, packet_udp("::ffff:10.77.1.16", REMOTE6, 4000, 5000));
    /* Sources that are nobody's, though something was opened for them. */
    static const char *const nobody[] = {
        "0.0.0.0", "0.0.0.1", "255.255.255.255", "224.0.0.9", "240.0.0.1", "169.254.1.1", "8.8.8.8",
        "198.51.100.1", "192.0.2.9", "::", "ff02::1", "::10.77.1.16", "64:ff9b::a4d:110",
        "2002:a4d:110::1", "fec0::1", "2001:db8::1", "2001:db8:7::9"};
    for (size_t i = 0; i < sizeof nobody / sizeof *nobody; i++) {
        const char *to = strchr(nobody[i], ':') ? REMOTE6 : REMOTE4;
        lab_open(&l, nobody[i], to, IPPROTO_UDP, 5000);
        DROPPED(l.agent, l.uplink, packet_udp(nobody[i], to, 4000, 5000));
        DROPPED(l.agent, l.uplink, packet_tcp(nobody[i], to, 4000, 443, SYN, 1, 0, 0));
    }
    lab_stop(&l);
}
END_TEST

/* c37: one agent's opening is nobody else's; agents do not reach each other. */
START_TEST(agents_are_apart) {
    struct lab l;
    lab_start(&l);
    for EACH(f) {
        lab_open(&l, f->agent, f->remote, IPPROTO_UDP, 5000);
        DROPPED(l.other, l.uplink, packet_udp(f->spoofed, f->remote, 4000, 5000));
        DROPPED(l.agent, l.other, packet_udp(f->agent, f->spoofed, 4000, 5000));
        DROPPED(l.uplink, l.agent, packet_udp(f->remote, f->agent, 5000, 4000));
        DROPPED(l.management, l.agent, packet_udp("192.0.2.9", AGENT4, 5000, 4000));
        DROPPED(l.management, l.uplink, packet_udp("192.0.2.9", REMOTE4, 5000, 4000));
    }
    lab_stop(&l);
}
END_TEST

/* c41: what is neither TCP nor UDP, with an opening for the same bytes as ports. */
START_TEST(other_protocols) {
    static const uint8_t protocols[] = {47 /* GRE */, 50 /* ESP */, 51 /* AH */, 132 /* SCTP */,
                                        33 /* DCCP */, 136 /* UDP-Lite */, 4, 41, 253, 0};
    static const uint8_t head[32] = {0x13, 0x88, 0x01, 0xbb, 0, 32};
    struct lab l;
    lab_start(&l);
    for EACH(f) {
        lab_open(&l, f->agent, f->remote, IPPROTO_TCP, 443);
        lab_open(&l, f->agent, f->remote, IPPROTO_UDP, 443);
        for (size_t i = 0; protocols[i]; i++)
            DROPPED(l.agent, l.uplink,
                    packet_ip(f->agent, f->remote, protocols[i], head, sizeof head));
        uint8_t echo[36] = {0, 1, 0, 1};
        bool four = f == families;
        COUNTED(&l, REASON_NO_OPENING,
                DROPPED(l.agent, l.uplink,
                        packet_icmp(f->agent, f->remote, four ? 8 : 128, 0, echo, sizeof echo)));
    }
    lab_stop(&l);
}
END_TEST

/* Errors about a marked flow pass, and only those. */
START_TEST(icmp_errors) {
    struct lab l;
    lab_start(&l);
    for EACH(f) {
        bool four = f == families;
        const char *router = four ? "198.51.100.9" : "2001:db8:9::9";
        uint8_t body[256] = {0};
        lab_open(&l, f->agent, f->remote, IPPROTO_UDP, 5000);
        struct packet p = packet_udp(f->agent, f->remote, 4000, 5000);
        PASSES(l.agent, l.uplink, p);
        memcpy(body + 4, p.bytes, p.size);
        PASSES(l.uplink, l.agent,
               packet_icmp(router, f->agent, four ? 3 : 1, four ? 3 : 4, body, 4 + p.size));
        /* "Too big", by which path MTU discovery lives. */
        put16(body + 2, 1280);
        PASSES(l.uplink, l.agent,
               packet_icmp(router, f->agent, four ? 3 : 2, four ? 4 : 0, body, 4 + p.size));
        struct packet other = packet_udp(f->agent, f->remote, 4001, 5000);
        memcpy(body + 4, other.bytes, other.size);
        DROPPED(l.uplink, l.agent,
                packet_icmp(router, f->agent, four ? 3 : 1, four ? 3 : 4, body, 4 + other.size));
    }
    lab_stop(&l);
}
END_TEST

/* c40: fragments are put together before they are judged; extension headers do not hide ports. */
static void fragment_pair(const struct packet *whole, struct packet parts[2], size_t first) {
    size_t rest = whole->size - whole->head - first;
    parts[0] = parts[1] = *whole;
    memcpy(parts[1].bytes + 20, whole->bytes + 20 + first, rest);
    parts[0].size = 20 + first;
    parts[1].size = 20 + rest;
    for (unsigned i = 0; i < 2; i++) {
        put16(parts[i].bytes + 2, (unsigned)parts[i].size);
        put16(parts[i].bytes + 4, 0x1234);
        put16(parts[i].bytes + 6, i == 0 ? 0x2000 : (unsigned)(first / 8));
        put16(parts[i].bytes + 10, 0);
        put16(parts[i].bytes + 10, fold16(sum16(parts[i].bytes, 20, 0)));
    }
}

static void fragment_pair6(const struct packet *whole, struct packet parts[2], size_t first) {
    size_t size = whole->size - whole->head;
    for (unsigned i = 0; i < 2; i++) {
        size_t at = i == 0 ? 0 : first, part = i == 0 ? first : size - first;
        parts[i] = *whole;
        parts[i].size = 40 + 8 + part;
        put16(parts[i].bytes + 4, (unsigned)(8 + part));
        parts[i].bytes[6] = 44;
        memset(parts[i].bytes + 40, 0, 8);
        parts[i].bytes[40] = whole->bytes[6];
        put16(parts[i].bytes + 42, (unsigned)at | (i == 0 ? 1 : 0));
        parts[i].bytes[47] = 77; /* identification */
        memcpy(parts[i].bytes + 48, whole->bytes + 40 + at, part);
    }
}

/* Octets that came out at the uplink after both parts went in. */
static size_t fragments_through(struct lab *l, const struct packet parts[2], int order) {
    uint8_t bytes[2048];
    size_t size, sum = 0;
    while (packet_read(l->uplink, bytes, sizeof bytes, 0) > 0) {}
    packet_send(l->agent, &parts[order]);
    packet_send(l->agent, &parts[1 - order]);
    while ((size = packet_read(l->uplink, bytes, sizeof bytes, SHORT_WAIT)) > 0)
        /* The interface's own chatter (MLD, router solicitation) goes elsewhere. */
        if (memcmp(bytes + (parts->head == 20 ? 16 : 24),
                   parts->bytes + (parts->head == 20 ? 16 : 24), parts->head == 20 ? 4 : 16) == 0)
            sum += size;
    return sum;
}

START_TEST(fragments) {
    struct lab l;
    struct packet parts[2];
    lab_start(&l);
    for EACH(f) {
        bool four = f == families;
        lab_open(&l, f->agent, f->remote, IPPROTO_UDP, 5000);
        for (int order = 0; order < 2; order++) {
            struct packet yes = packet_udp(f->agent, f->remote, 4000, 5000);
            struct packet no = packet_udp(f->agent, f->remote, 4000, 5001);
            if (four) fragment_pair(&yes, parts, 8);
            else fragment_pair6(&yes, parts, 8);
            /* One packet or two, by what the route takes. */
            ck_assert_uint_ge(fragments_through(&l, parts, order), yes.size);
            if (four) fragment_pair(&no, parts, 8);
            else fragment_pair6(&no, parts, 8);
            ck_assert_uint_eq(fragments_through(&l, parts, order), 0);
        }
    }
    /* A later fragment alone has no ports to judge by and never leaves. */
    struct packet no = packet_udp(AGENT4, REMOTE4, 4000, 5000);
    fragment_pair(&no, parts, 8);
    put16(parts[1].bytes + 4, 0x4321);
    DROPPED(l.agent, l.uplink, parts[1]);
    lab_stop(&l);
}
END_TEST

static struct packet with_header(const struct packet *p, uint8_t type, const uint8_t head[8]) {
    struct packet q = *p;
    q.size += 8;
    memmove(q.bytes + 48, q.bytes + 40, p->size - 40);
    memcpy(q.bytes + 40, head, 8);
    q.bytes[40] = p->bytes[6];
    q.bytes[6] = type;
    put16(q.bytes + 4, (unsigned)(q.size - 40));
    return q;
}

/* c37: an error carries octets out as well, so an agent has them only for flows of its own subnet. */
START_TEST(icmp_errors_of_agents) {
    struct lab l;
    lab_start(&l);
    for EACH(f) {
        bool four = f == families;
        uint8_t body[256] = {0};
        lab_open(&l, f->agent, f->remote, IPPROTO_UDP, 5000);
        PASSES(l.agent, l.uplink, packet_udp(f->agent, f->remote, 4000, 5000));
        struct packet reply = packet_udp(f->remote, f->agent, 5000, 4000);
        PASSES(l.uplink, l.agent, reply);
        memcpy(body + 4, reply.bytes, reply.size);
#define ERROR_FROM(who)                                                                            \
    packet_icmp(who, f->remote, four ? 3 : 1, four ? 3 : 4, body, 4 + reply.size)
        PASSES(l.agent, l.uplink, ERROR_FROM(f->agent));
        DROPPED(l.other, l.uplink, ERROR_FROM(f->spoofed));
        DROPPED(l.agent, l.uplink, packet_icmp(f->agent, f->elsewhere, four ? 3 : 1, four ? 3 : 4,
                                               body, 4 + reply.size));
    }
    lab_stop(&l);
}
END_TEST

START_TEST(extension_headers) {
    static const uint8_t padding[8] = {0, 0, 1, 4}, routing[8] = {0, 0, 4, 0};
    static const uint8_t authentication[8] = {0, 0, 0, 0, 1, 2, 3, 4};
    struct lab l;
    lab_start(&l);
    lab_open(&l, AGENT6, REMOTE6, IPPROTO_UDP, 5000);
    struct packet p = packet_udp(AGENT6, REMOTE6, 4000, 5000);
    DROPPED(l.agent, l.uplink, with_header(&p, 0, padding));
    DROPPED(l.agent, l.uplink, with_header(&p, 60, padding));
    /* As for IPv4, where it is a protocol of its own. */
    COUNTED(&l, REASON_NO_OPENING,
            DROPPED(l.agent, l.uplink, with_header(&p, 51, authentication)));
    COUNTED(&l, REASON_INVALID_STATE, DROPPED(l.agent, l.uplink, with_header(&p, 43, routing)));
    COUNTED(&l, REASON_INVALID_STATE, DROPPED(l.agent, l.uplink, with_header(&p, 135, padding)));
    PASSES(l.agent, l.uplink, p);
    lab_stop(&l);
}
END_TEST

START_TEST(encrypted_dns) {
    struct lab l;
    lab_start(&l);
    for EACH(f) {
        COUNTED(&l, REASON_ENCRYPTED_DNS,
                DROPPED(l.agent, l.uplink, packet_udp(f->agent, f->remote, 4000, 853)));
        COUNTED(&l, REASON_ENCRYPTED_DNS,
                DROPPED(l.agent, l.uplink,
                        packet_tcp(f->agent, f->remote, 4000, 853, SYN, 1, 0, 0)));
    }
    lab_stop(&l);
}
END_TEST

/* c38: refused fast: a reset for TCP, "administratively prohibited" for the rest. */
START_TEST(refusals) {
    struct lab l;
    uint8_t bytes[2048];
    lab_start(&l);
    for EACH(f) {
        bool four = f == families;
        size_t head = four ? 20 : 40;
        while (packet_read(l.agent, bytes, sizeof bytes, 0) > 0) {}
        struct packet tcp = packet_tcp(f->agent, f->remote, 4000, 443, SYN, 1, 0, 0);
        struct packet udp = packet_udp(f->agent, f->remote, 4000, 443);
        packet_send(l.agent, &tcp);
        ck_assert_uint_gt(packet_read(l.agent, bytes, sizeof bytes, LONG_WAIT), head + 19);
        ck_assert_int_eq(bytes[four ? 9 : 6], IPPROTO_TCP);
        ck_assert_int_eq(bytes[head + 13] & RST, RST);
        packet_send(l.agent, &udp);
        ck_assert_uint_gt(packet_read(l.agent, bytes, sizeof bytes, LONG_WAIT), head + 7);
        ck_assert_int_eq(bytes[four ? 9 : 6], four ? IPPROTO_ICMP : IPPROTO_ICMPV6);
        ck_assert_int_eq(bytes[head], four ? 3 : 1);
        ck_assert_int_eq(bytes[head + 1], four ? 13 : 1);
    }
    lab_stop(&l);
}
END_TEST

START_TEST(static_intervals) {
    struct lab l;
    lab_start(&l);
#define TCP(to, port) packet_tcp(AGENT4, to, 4000, port, SYN, 1, 0, 0)
    PASSES(l.agent, l.uplink, TCP("203.0.113.128", 1000));
    PASSES(l.agent, l.uplink, TCP("203.0.113.255", 1999));
    DROPPED(l.agent, l.uplink, TCP("203.0.113.127", 1500));
    DROPPED(l.agent, l.uplink, TCP("203.0.113.200", 999));
    DROPPED(l.agent, l.uplink, TCP("203.0.113.200", 2000));
    DROPPED(l.agent, l.uplink, packet_udp(AGENT4, "203.0.113.200", 4000, 1500));
    DROPPED(l.agent, l.uplink, TCP(REMOTE4, 22)); /* .16 is outside of 10.77.1.0/28 */
    PASSES(l.agent, l.uplink, packet_tcp("10.77.1.15", REMOTE4, 4000, 22, SYN, 1, 0, 0));
    DROPPED(l.other, l.uplink, packet_tcp(OTHER4, "203.0.113.200", 4000, 1500, SYN, 1, 0, 0));
    PASSES(l.agent, l.uplink, packet_udp(AGENT6, "2001:db8:8:1::1", 4000, 600));
    DROPPED(l.agent, l.uplink, packet_udp(AGENT6, "2001:db8:9::1", 4000, 600));
    lab_stop(&l);
}
END_TEST

/* ---- the gateway itself ------------------------------------------------------------------ */

static int bound_socket(int family, int type, const char *address, uint16_t port) {
    struct addr a = lab_addr(address);
    struct sockaddr_storage name;
    socklen_t size = addr_to_sockaddr(&a, port, &name);
    int on = 1, fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, size), 0);
    return fd;
}

/* Whether the datagram reaches the gateway's socket. */
static bool arrives(int tun, int socket_fd, struct packet p) {
    struct pollfd ready = {.fd = socket_fd, .events = POLLIN};
    char bytes[512];
    packet_send(tun, &p);
    if (poll(&ready, 1, SHORT_WAIT) != 1) return false;
    return recv(socket_fd, bytes, sizeof bytes, 0) > 0;
}

/* c36, c42: DNS of agents ends at the gateway, whatever its destination; nothing else does. */
START_TEST(gateway_services) {
    struct lab l;
    lab_start(&l);
    for EACH(f) {
        bool four = f == families;
        int family = four ? AF_INET : AF_INET6;
        int dns = bound_socket(family, SOCK_DGRAM, four ? "0.0.0.0" : "::", 53);
        int other = bound_socket(family, SOCK_DGRAM, four ? "0.0.0.0" : "::", 5353);
        const char *uplink = four ? "198.51.100.1" : "2001:db8::1";
        ck_assert(arrives(l.agent, dns, packet_udp(f->agent, f->gateway, 4000, 53)));
        ck_assert(arrives(l.agent, dns, packet_udp(f->agent, f->remote, 4001, 53)));
        ck_assert(arrives(l.agent, dns, packet_udp(f->agent, uplink, 4002, 53)));
        ck_assert(!arrives(l.uplink, dns, packet_udp(f->remote, uplink, 4003, 53)));
        ck_assert(!arrives(l.agent, dns, packet_udp(f->elsewhere, f->gateway, 4004, 53)));
        COUNTED(&l, REASON_LOCAL_SERVICE,
                ck_assert(!arrives(l.agent, other,
                                   packet_udp(f->agent, f->gateway, 4005, 5353))));
        ck_assert(!arrives(l.uplink, other, packet_udp(f->remote, uplink, 4006, 5353)));
        ck_assert(!arrives(l.agent, other, packet_udp(f->agent, uplink, 4007, 5353)));
        if (four) {
            ck_assert(arrives(l.management, other,
                              packet_udp("192.0.2.9", "192.0.2.1", 4008, 5353)));
            ck_assert(!arrives(l.management, other,
                               packet_udp("192.0.3.9", "192.0.2.1", 4009, 5353)));
        }
        DROPPED(l.agent, l.uplink, packet_udp(f->agent, f->remote, 4010, 53));
        close(dns);
        close(other);
    }
    lab_stop(&l);
}
END_TEST

/* c36: also while there is no way to the resolver that the agent meant. */
START_TEST(queries_without_a_route) {
    struct lab l;
    lab_start(&l);
    RUN("ip", "route", "del", "default");
    RUN("ip", "-6", "route", "del", "default");
    for EACH(f) {
        bool four = f == families;
        int dns = bound_socket(four ? AF_INET : AF_INET6, SOCK_DGRAM, four ? "0.0.0.0" : "::", 53);
        ck_assert(arrives(l.agent, dns, packet_udp(f->agent, f->remote, 4000, 53)));
        ck_assert(arrives(l.agent, dns, packet_udp(f->agent, f->gateway, 4001, 53)));
        ck_assert(!arrives(l.agent, dns, packet_udp(f->agent, four ? "224.0.0.251" : "ff02::fb", 4002,
                                                    53)));
        close(dns);
    }
    lab_stop(&l);
}
END_TEST

/* Whether a datagram of a process with this uid leaves by the uplink. */
static bool leaves(struct lab *l, uid_t uid, const char *remote, uint16_t port) {
    struct addr a = lab_addr(remote);
    struct sockaddr_storage name;
    socklen_t size = addr_to_sockaddr(&a, port, &name);
    uint8_t bytes[2048];
    size_t got;
    int status;
    while (packet_read(l->uplink, bytes, sizeof bytes, 0) > 0) {}
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (setgroups(0, NULL) != 0 || setresgid(uid, uid, uid) != 0 ||
            setresuid(uid, uid, uid) != 0)
            _exit(2);
        int fd = socket(a.family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        /* A dropped packet of one's own is EPERM. */
        _exit(sendto(fd, "x", 1, 0, (struct sockaddr *)&name, size) == 1 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) != 2);
    while ((got = packet_read(l->uplink, bytes, sizeof bytes, SHORT_WAIT)) > 0)
        if (bytes[got - 1] == 'x') return true;
    return false;
}

/* Whether a datagram of a process with this uid reaches a service of the gateway itself. */
static bool reaches_own(uid_t uid, const char *address) {
    struct addr a = lab_addr(address);
    int service = bound_socket(a.family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM, address, 4000);
    struct pollfd ready = {.fd = service, .events = POLLIN};
    struct sockaddr_storage name;
    socklen_t size = addr_to_sockaddr(&a, 4000, &name);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (setgroups(0, NULL) != 0 || setresgid(uid, uid, uid) != 0 ||
            setresuid(uid, uid, uid) != 0)
            _exit(2);
        int fd = socket(a.family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        _exit(sendto(fd, "x", 1, 0, (struct sockaddr *)&name, size) == 1 ? 0 : 1);
    }
    bool reached = poll(&ready, 1, SHORT_WAIT) == 1;
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) != 2);
    close(service);
    return reached;
}

START_TEST(output_by_uid) {
    struct lab l;
    lab_start(&l);
    static const char *const own[] = {"127.0.0.1", "::1", GATEWAY4, GATEWAY6, "198.51.100.1"};
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++) {
        ck_assert(!reaches_own(RESOLVER_UID, own[i]));
        ck_assert(reaches_own(RESOLVER_UID + 1, own[i]));
        ck_assert(reaches_own(0, own[i]));
    }
    ck_assert(leaves(&l, RESOLVER_UID, "198.51.100.53", 53));
    ck_assert(!leaves(&l, RESOLVER_UID, "198.51.100.53", 54));
    ck_assert(!leaves(&l, RESOLVER_UID, "198.51.100.54", 53));
    ck_assert(!leaves(&l, RESOLVER_UID, "2001:db8:53::53", 853)); /* TLS is TCP */
    ck_assert(!leaves(&l, RESOLVER_UID + 1, "198.51.100.53", 53));
    ck_assert(leaves(&l, 0, "198.51.100.54", 4000));
    ck_assert(leaves(&l, 0, REMOTE6, 4000));
    lab_stop(&l);
}
END_TEST

START_TEST(masquerade) {
    struct lab l;
    uint8_t bytes[2048];
    lab_start(&l);
    lab_image.header.gateway.masquerade = 1;
    lab_load(&l, false);
    for EACH(f) {
        bool four = f == families;
        struct addr outside = lab_addr(four ? "198.51.100.1" : "2001:db8::1");
        lab_open(&l, f->agent, f->remote, IPPROTO_UDP, 5000);
        struct packet p = packet_udp(f->agent, f->remote, 4000, 5000);
        packet_send(l.agent, &p);
        size_t size;
        do size = packet_read(l.uplink, bytes, sizeof bytes, LONG_WAIT);
        while (size > 0 && bytes[four ? 9 : 6] != IPPROTO_UDP);
        ck_assert_uint_eq(size, p.size);
        ck_assert_mem_eq(bytes + (four ? 12 : 8), outside.bytes, four ? 4 : 16);
    }
    lab_stop(&l);
}
END_TEST

#define TEST(name) {#name, name}
int main(void) {
    const struct lab_test tests[] = {
        TEST(opening_is_exact), TEST(flow_outlives_opening), TEST(established_without_mark),
        TEST(spoofing), TEST(agents_are_apart), TEST(other_protocols), TEST(icmp_errors), TEST(icmp_errors_of_agents),
        TEST(fragments), TEST(extension_headers), TEST(encrypted_dns), TEST(refusals),
        TEST(static_intervals), TEST(gateway_services), TEST(queries_without_a_route), TEST(output_by_uid), TEST(masquerade),
    };
    return lab_main("core_forward", tests, sizeof tests / sizeof *tests);
}
