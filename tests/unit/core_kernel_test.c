/* core_kernel_test.c: flows, denied packets, switches and the self-test, on the real kernel. */
#include <linux/capability.h>
#include <pwd.h>
#include <sys/socket.h>

#include "gateway/base/confine.h"
#include "tests/unit/core_kernel.h"

/* ---- conntrack ------------------------------------------------------------------------------- */

struct flows {
    unsigned count, created, ended;
    struct conntrack_flow last;
};

static int flow_see(void *ctx, const struct conntrack_flow *flow) {
    struct flows *f = ctx;
    if (flow->mark == 0) return 0;
    f->count++;
    if (flow->event == CONNTRACK_NEW) f->created++;
    if (flow->event == CONNTRACK_DESTROY) f->ended++;
    f->last = *flow;
    return 0;
}

static void handshake(struct lab *l, const char *agent, const char *remote, uint16_t from) {
    PASSES(l->agent, l->uplink, packet_tcp(agent, remote, from, 443, SYN, 100, 0, 0));
    PASSES(l->uplink, l->agent, packet_tcp(remote, agent, 443, from, SYN | ACK, 200, 101, 0));
    PASSES(l->agent, l->uplink, packet_tcp(agent, remote, from, 443, ACK, 101, 201, 0));
}

static bool wanted_port(void *ctx, const struct conntrack_flow *f) {
    return f->original.source_port == *(uint16_t *)ctx;
}

/* c14: a live flow is cut by its mark, and only that one; it does not come back in mid-stream. */
START_TEST(flow_is_cut) {
    static const char *const sides[2][2] = {{AGENT4, REMOTE4}, {AGENT6, REMOTE6}};
    struct lab l;
    lab_start(&l);
    for (unsigned i = 0; i < 2; i++) {
        const char *agent = sides[i][0], *remote = sides[i][1];
        struct flows seen = {0};
        uint16_t port = 4000;
        ck_assert_int_ge(conntrack_receive(l.conntrack, flow_see, &(struct flows){0}), 0);
        lab_open(&l, agent, remote, IPPROTO_TCP, 443);
        handshake(&l, agent, remote, 4000);
        handshake(&l, agent, remote, 4001);
        ck_assert_int_ge(conntrack_receive(l.conntrack, flow_see, &seen), 2);
        ck_assert_uint_eq(seen.created, 2);
        ck_assert_uint_eq(seen.last.mark, 0x40007);
        ck_assert(seen.last.original.source.family == (i == 0 ? 4 : 6));
        struct addr client = lab_addr(agent), other = lab_addr(remote);
        ck_assert(addr_equal(&seen.last.original.source, &client));
        ck_assert(addr_equal(&seen.last.original.destination, &other));
        ck_assert_uint_eq(seen.last.original.destination_port, 443);
        ck_assert_uint_eq(seen.last.protocol, IPPROTO_TCP);
        ck_assert_int_eq(conntrack_dump(l.conntrack, 0x40007, UINT32_MAX, flow_see, &seen), 2);
        ck_assert(seen.last.counted && seen.last.packets_out == 2 && seen.last.packets_in == 1);
        ck_assert_uint_ne(seen.last.start_ns, 0);
        ck_assert_int_eq(conntrack_dump(l.conntrack, 0x40008, UINT32_MAX, flow_see, &seen), 0);
        ck_assert_int_eq(conntrack_dump(l.conntrack, 0x40000, 0xfffc0000, flow_see, &seen), 2);

        ck_assert_int_eq(conntrack_delete_where(l.conntrack, 0x40007, UINT32_MAX, wanted_port,
                                                &port), 1);
        DROPPED(l.agent, l.uplink, packet_tcp(agent, remote, 4000, 443, ACK, 101, 201, 9));
        DROPPED(l.uplink, l.agent, packet_tcp(remote, agent, 443, 4000, ACK, 201, 101, 9));
        PASSES(l.agent, l.uplink, packet_tcp(agent, remote, 4001, 443, ACK, 101, 201, 9));
        seen = (struct flows){0};
        ck_assert_int_ge(conntrack_receive(l.conntrack, flow_see, &seen), 1);
        ck_assert_uint_eq(seen.ended, 1);
        ck_assert_uint_eq(seen.last.original.source_port, 4000);
        ck_assert_uint_eq(seen.last.packets_out, 2);
        ck_assert_uint_ge(seen.last.stop_ns, seen.last.start_ns);
        /* With another id it is not the flow that has the tuple now. */
        handshake(&l, agent, remote, 4000);
        ck_assert_int_eq(conntrack_dump(l.conntrack, 0, 0, flow_see, &seen), 2);
        seen.last.id++;
        ck_assert_int_eq(conntrack_delete(l.conntrack, &seen.last), 0);
        PASSES(l.agent, l.uplink, packet_tcp(agent, remote, 4000, 443, ACK, 101, 201, 9));
        ck_assert_int_eq(conntrack_delete_where(l.conntrack, 0x40007, UINT32_MAX, NULL, NULL), 2);
    }
    lab_stop(&l);
}
END_TEST

static bool mark_known(void *ctx, uint32_t mark) {
    (void)ctx;
    return mark == 0x40007;
}

/* c54: flows from before, and those whose mark nobody knows, go; a DNS query to the gateway stays. */
START_TEST(unknown_flows_go) {
    struct lab l;
    struct flows seen = {0};
    lab_network(&l);
    RUN("nft", "add table ip early; add chain ip early c { type filter hook prerouting priority 0; }; "
               "add rule ip early c ct state new counter");
    lab_forwarding(true);
    handshake(&l, AGENT4, REMOTE4, 4000); /* mark 0 */
    lab_load(&l, false);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 443);
    handshake(&l, AGENT4, REMOTE4, 4001);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT4, REMOTE4, IPPROTO_UDP, 9, 60000);
    c.mark = 0x80009;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    PASSES(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 4002, 9)); /* unknown mark */
    struct packet dns = packet_udp(AGENT4, GATEWAY4, 4003, 53);
    packet_send(l.agent, &dns);
    ck_assert_int_eq(conntrack_dump(l.conntrack, 0, 0, flow_see, &seen), 4);
    ck_assert_int_eq(conntrack_delete_unknown(l.conntrack, lab_image.subnets, 4, mark_known, NULL), 2);
    ck_assert_int_eq(conntrack_dump(l.conntrack, 0, 0, flow_see, &seen), 2);
    PASSES(l.agent, l.uplink, packet_tcp(AGENT4, REMOTE4, 4001, 443, ACK, 101, 201, 9));
    ck_assert_int_eq(conntrack_delete_unknown(l.conntrack, lab_image.subnets, 4, mark_known, NULL), 0);
    lab_stop(&l);
}
END_TEST

/* DNS flows, also redirected ones, are gone soon after their answer could have come, and not told;
 * others stay. */
START_TEST(dns_flows_are_short) {
    struct lab l;
    struct flows seen = {0};
    lab_start(&l);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_UDP, 9);
    PASSES(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 4000, 9));
    const struct packet asked[] = {
        packet_udp(AGENT4, GATEWAY4, 4001, 53), packet_udp(AGENT4, REMOTE4, 4002, 53),
        packet_udp(AGENT6, GATEWAY6, 4001, 53), packet_udp(AGENT6, REMOTE6, 4002, 53)};
    for (unsigned i = 0; i < 4; i++) packet_send(l.agent, &asked[i]);
    ck_assert_int_eq(conntrack_dump(l.conntrack, 0, 0, flow_see, &seen), 5);
    ck_assert_int_eq(conntrack_receive(l.conntrack, flow_see, &seen), 1);
    nap(7000); /* the resolver may take this long */
    ck_assert_int_eq(conntrack_dump(l.conntrack, 0, 0, flow_see, &seen), 5);
    nap(2000);
    ck_assert_int_eq(conntrack_dump(l.conntrack, 0, 0, flow_see, &seen), 1);
    lab_stop(&l);
}
END_TEST

/* A storm of flows that nobody reads: the loss is told, and afterwards events come again. */
START_TEST(lost_events_are_told) {
    struct lab l;
    int small = 4096, result = 0;
    lab_start(&l);
    setsockopt(conntrack_fd(l.conntrack), SOL_SOCKET, SO_RCVBUFFORCE, &small, sizeof small);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_UDP, 5000);
    for (unsigned i = 0; i < 200; i++) {
        struct packet p = packet_udp(AGENT4, REMOTE4, (uint16_t)(10000 + i), 5000);
        packet_send(l.agent, &p);
    }
    for (unsigned i = 0; i < 100 && result >= 0; i++)
        result = conntrack_receive(l.conntrack, flow_see, &(struct flows){0});
    ck_assert_int_eq(result, -ENOBUFS);
    while (conntrack_receive(l.conntrack, flow_see, &(struct flows){0}) != 0) {}
    PASSES(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 9999, 5000));
    ck_assert_int_ge(conntrack_receive(l.conntrack, flow_see, &(struct flows){0}), 1);
    lab_stop(&l);
}
END_TEST

/* ---- denied packets -------------------------------------------------------------------------- */

struct logged {
    unsigned count;
    struct msg_denied last;
};

static int log_take(void *ctx, const struct msg_denied *packet) {
    struct logged *l = ctx;
    l->count++;
    l->last = *packet;
    return 0;
}

static struct msg_denied logged_one(struct denied *d) {
    struct logged l = {0};
    struct pollfd ready = {.fd = denied_fd(d), .events = POLLIN};
    for (unsigned i = 0; i < 500 && l.count == 0; i++)
        if (poll(&ready, 1, 40) == 1) ck_assert_int_ge(denied_receive(d, log_take, &l), 0);
    ck_assert_uint_eq(l.count, 1);
    return l.last;
}

START_TEST(reasons_are_delivered) {
    struct lab l;
    struct denied *d, *second;
    lab_start(&l);
    ck_assert_int_eq(denied_open(&d, &clock_system), 0);
    ck_assert_int_eq(denied_open(&second, &clock_system), -EBUSY);
    const struct { int tun; const char *name; uint32_t reason; struct packet packet; } cases[] = {
        {l.agent, "tga0", REASON_NO_OPENING, packet_udp(AGENT4, REMOTE4, 4000, 443)},
        {l.agent, "tga0", REASON_NO_OPENING, packet_udp(AGENT6, REMOTE6, 4000, 443)},
        {l.agent, "tga0", REASON_ENCRYPTED_DNS, packet_udp(AGENT6, REMOTE6, 4000, 853)},
        {l.agent, "tga0", REASON_SPOOFED, packet_udp(OTHER4, REMOTE4, 4000, 443)},
        {l.other, "tgb0", REASON_INVALID_STATE,
         packet_tcp("10.77.2.16", REMOTE4, 4000, 443, ACK, 5, 6, 0)},
        {l.other, "tgb0", REASON_LOCAL_SERVICE, packet_udp("fd77:2::16", "fd77:2::1", 4000, 22)},
        {l.uplink, "tgu0", REASON_UNSOLICITED, packet_udp(REMOTE6, AGENT6, 4000, 443)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        packet_send(cases[i].tun, &cases[i].packet);
        struct msg_denied m = logged_one(d);
        ck_assert_str_eq(reason_tag(m.reason), reason_tag(cases[i].reason));
        ck_assert_str_eq(m.interface_name, cases[i].name);
        ck_assert_uint_eq(m.protocol, cases[i].packet.head == 20 ? 4 : 6);
        ck_assert_uint_eq(m.length, cases[i].packet.size);
        ck_assert(packet_same(&cases[i].packet, m.bytes, m.length));
        ck_assert_uint_ne(m.time, 0);
    }
    ck_assert_uint_eq(denied_lost(d), 0);
    denied_close(d);
    lab_stop(&l);
}
END_TEST

/* A flood is counted wholly and logged in part; what the socket cannot hold is told as lost. */
START_TEST(denied_flood) {
    struct lab l;
    struct denied *d;
    struct logged logged = {0};
    struct ruleset_counter counters[RULESET_COUNTERS];
    lab_start(&l);
    ck_assert_int_eq(denied_open(&d, &clock_system), 0);
    for (unsigned i = 0; i < 2000; i++) {
        struct packet p = packet_udp(AGENT4, REMOTE4, 4000, 443);
        packet_send(l.agent, &p);
    }
    nap(200);
    while (denied_receive(d, log_take, &logged) > 0) {}
    ck_assert_int_eq(ruleset_counters(&l.ruleset, counters), 0);
    ck_assert_uint_eq(counters[0].reason, REASON_NO_OPENING);
    ck_assert_uint_eq(counters[0].packets, 2000);
    ck_assert_uint_ge(logged.count, 20);
    ck_assert_uint_le(logged.count, 200);
    /* Another source still gets its packets logged. */
    logged.count = 0;
    struct packet p = packet_udp("fd77:1::17", REMOTE6, 4000, 443);
    packet_send(l.agent, &p);
    nap(200);
    while (denied_receive(d, log_take, &logged) > 0) {}
    ck_assert_uint_eq(logged.count, 1);
    ck_assert_uint_eq(logged.last.protocol, 6);

    int small = 2304;
    setsockopt(denied_fd(d), SOL_SOCKET, SO_RCVBUFFORCE, &small, sizeof small);
    for (unsigned i = 0; i < 400; i++) {
        char source[32];
        snprintf(source, sizeof source, "10.77.1.%u", 20 + i % 200);
        p = packet_udp(source, REMOTE4, 4000, 443);
        packet_send(l.agent, &p);
    }
    nap(200);
    while (denied_receive(d, log_take, &logged) > 0) {}
    p = packet_udp("10.77.1.18", REMOTE4, 4000, 443);
    packet_send(l.agent, &p);
    nap(200);
    while (denied_receive(d, log_take, &logged) > 0) {}
    ck_assert_uint_gt(denied_lost(d), 100);
    ck_assert_uint_eq(denied_lost(d), 0);
    denied_close(d);
    lab_stop(&l);
}
END_TEST

/* ---- uplink, sysctl -------------------------------------------------------------------------- */

START_TEST(uplink_notices) {
    struct lab l;
    struct uplink *u;
    lab_start(&l);
    ck_assert_int_eq(uplink_open(&u), 0);
    ck_assert_int_eq(uplink_drain(u), 0);
    ck_assert_int_eq(uplink_ipv6(u, "tgu0"), 1);
    ck_assert_int_eq(uplink_ipv6(u, "tga0"), 0);
    ck_assert_int_eq(uplink_ipv6(u, "nowhere"), 0);
    RUN("ip", "-6", "route", "del", "default");
    ck_assert_int_eq(uplink_drain(u), 1);
    ck_assert_int_eq(uplink_drain(u), 0);
    ck_assert_int_eq(uplink_ipv6(u, "tgu0"), 0);
    RUN("ip", "-6", "route", "add", "2000::/4", "dev", "tgu0");
    ck_assert_int_eq(uplink_ipv6(u, "tgu0"), 0);
    RUN("ip", "-6", "route", "add", "4000::/2", "dev", "tgu0");
    ck_assert_int_eq(uplink_ipv6(u, "tgu0"), 0);
    RUN("ip", "-6", "route", "add", "unreachable", "default", "metric", "9999");
    ck_assert_int_eq(uplink_ipv6(u, "tgu0"), 0);
    RUN("ip", "-6", "route", "add", "2000::/3", "via", "2001:db8::2", "dev", "tgu0");
    ck_assert_int_eq(uplink_ipv6(u, "tgu0"), 1);
    RUN("ip", "addr", "del", "2001:db8::1/64", "dev", "tgu0");
    ck_assert_int_eq(uplink_ipv6(u, "tgu0"), 0);
    RUN("ip", "addr", "add", "2001:db8::1/64", "dev", "tgu0", "nodad");
    RUN("ip", "-6", "route", "replace", "default", "metric", "5", "nexthop", "via", "2001:db8::2",
        "dev", "tgu0", "nexthop", "via", "fd77:1::9", "dev", "tga0");
    RUN("ip", "-6", "route", "flush", "2000::/3");
    ck_assert_int_eq(uplink_ipv6(u, "tgu0"), 1);
    RUN("ip", "link", "set", "tgu0", "down");
    ck_assert_int_eq(uplink_drain(u), 1);
    ck_assert_int_eq(uplink_ipv6(u, "tgu0"), 0);
    uplink_close(u);
    lab_stop(&l);
}
END_TEST

static void expect_sysctl(const char *name, const char *value) {
    char now[SYSCTL_VALUE_MAX];
    ck_assert_int_eq(sysctl_get(name, now), 0);
    ck_assert_msg(strcmp(now, value) == 0, "%s is %s", name, now);
}

START_TEST(switches) {
    struct lab l;
    const char *name = "";
    lab_network(&l);
    lab_load(&l, false);
    ck_assert_int_eq(sysctl_set("ipv4/conf/tga0/send_redirects", "1"), 0);
    ck_assert_int_eq(sysctl_set("ipv6/conf/tga0/accept_ra", "1"), 0);
    ck_assert_int_eq(sysctl_set("ipv6/conf/tgu0/accept_ra", "1"), 0);
    ck_assert_int_eq(sysctl_forwarding_is_on(), 0);
    ck_assert_int_eq(sysctl_prepare(&l.policy, &name), 0);
    ck_assert_int_eq(sysctl_forwarding_is_on(), 0);
    ck_assert_int_eq(sysctl_forwarding(true), 0);
    ck_assert_int_eq(sysctl_forwarding_is_on(), 1);
    ck_assert_int_eq(sysctl_prepare(&l.policy, &name), 0);
    expect_sysctl("netfilter/nf_conntrack_acct", "1");
    expect_sysctl("netfilter/nf_conntrack_tcp_loose", "0");
    expect_sysctl("ipv4/conf/tga0/send_redirects", "0");
    expect_sysctl("ipv4/conf/tga0/accept_redirects", "0");
    expect_sysctl("ipv6/conf/tga0/accept_ra", "0");
    expect_sysctl("ipv4/neigh/tga0/unres_qlen_bytes", "4096");
    expect_sysctl("ipv6/neigh/tga0/unres_qlen_bytes", "4096");
    expect_sysctl("ipv6/conf/tgu0/accept_ra", "2");
    expect_sysctl("ipv6/conf/tgu0/forwarding", "1");
    ck_assert_int_eq(sysctl_forwarding(false), 0);
    ck_assert_int_eq(sysctl_forwarding_is_on(), 0);
    ck_assert_int_eq(sysctl_set("ipv4/no_such_switch", "1"), -ENOENT);
    ck_assert_int_lt(sysctl_set("ipv4/ip_default_ttl", "banana"), 0);
    /* Interfaces that are not there yet are skipped. */
    RUN("ip", "link", "del", "tgm0");
    ck_assert_int_eq(sysctl_prepare(&l.policy, &name), 0);
    lab_stop(&l);
}
END_TEST

/* ---- self-test ------------------------------------------------------------------------------- */

static int tun_open(void) {
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static int selftest(struct lab *l, int tun, struct selftest_result *ret) {
    usec_t before = clock_now(&clock_system);
    int error = selftest_run(tun, l->elements, l->conntrack, &clock_system, ret);
    ck_assert_uint_lt(clock_now(&clock_system) - before, 1500 * USEC_PER_MSEC);
    /* Nothing of it stays. */
    struct flows flows = {0};
    char value[SYSCTL_VALUE_MAX];
    ck_assert_int_eq(conntrack_dump(l->conntrack, SELFTEST_MARK, UINT32_MAX, flow_see, &flows), 0);
    ck_assert_int_eq(sysctl_get("ipv4/conf/tgselftest/forwarding", value), -ENOENT);
    return error;
}

START_TEST(selftest_passes) {
    struct lab l;
    struct selftest_result result;
    lab_network(&l);
    lab_load(&l, false);
    ck_assert_int_eq(sysctl_prepare(&l.policy, NULL), 0);
    int tun = tun_open();
    /* Before forwarding is on, which it leaves off; again on the same descriptor; and when on. */
    for (int i = 0; i < 3; i++) {
        int error = selftest(&l, tun, &result);
        ck_assert_msg(error == 0, "%s, IPv%d: %s", selftest_fault_text(result.fault),
                      result.family, strerror(-error));
        ck_assert_int_eq(result.fault, SELFTEST_PASSED);
        ck_assert_int_eq(sysctl_forwarding_is_on(), i == 2 ? 1 : 0);
        if (i == 1) lab_forwarding(true);
    }
    ck_assert_uint_eq(dumped(&l, 4).count + dumped(&l, 6).count, 0);
    ck_assert_int_eq(ruleset_verify(&l.ruleset), 1);
    close(tun);
    lab_stop(&l);
}
END_TEST

/* c58: what it is for. Each ruleset here is broken in its own way. */
START_TEST(selftest_fails) {
    static const struct { const char *act; enum selftest_fault fault; int family; } cases[] = {
        {"flush chain inet tidegate forward; add chain inet tidegate forward { policy accept ; }",
         SELFTEST_LEAK, 4},
        {"insert rule inet tidegate from-agents ip6 version 6 ct mark set 1 accept",
         SELFTEST_LEAK, 6},
        {"insert rule inet tidegate from-agents accept", SELFTEST_LEAK, 4},
        {"insert rule inet tidegate from-agents drop", SELFTEST_BLOCKED, 4},
        {"insert rule inet tidegate from-agents meta nfproto ipv6 drop", SELFTEST_BLOCKED, 6},
        /* The third packet's source port. */
        {"insert rule inet tidegate from-agents udp sport 40003 accept", SELFTEST_STAYS, 4},
        {"delete table inet tidegate", SELFTEST_LEAK, 4},
        {"delete table inet tidegate; add table inet tidegate; "
         "add chain inet tidegate c { type filter hook forward priority 0 ; policy drop ; }",
         SELFTEST_BROKEN, 4},
    };
    struct lab l;
    lab_start(&l);
    int tun = tun_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct selftest_result result;
        RUN("nft", cases[i].act);
        int error = selftest(&l, tun, &result);
        ck_assert_int_eq(error, cases[i].fault == SELFTEST_BROKEN ? -ENOENT : -EREMOTEIO);
        ck_assert_msg(result.fault == cases[i].fault && result.family == cases[i].family,
                      "%s: %s, IPv%d", cases[i].act, selftest_fault_text(result.fault),
                      result.family);
        lab_load(&l, false);
    }
    struct selftest_result result;
    ck_assert_int_eq(selftest(&l, -1, &result), -EBADF);
    ck_assert_int_eq(result.fault, SELFTEST_BROKEN);
    close(tun);
    lab_stop(&l);
}
END_TEST

/* ---- as core runs: another user, one capability, filtered system calls ----------------------- */

/* As gateway/core/main.c has it: the name service has no place in the filter of system calls. */
struct passwd *getpwnam(const char *name) {
    (void)name;
    return NULL;
}

static void confined_run(int tun) {
    struct lab l = {0};
    struct denied *d;
    struct uplink *u;
    struct selftest_result result;
    int keep[] = {CAP_NET_ADMIN};
    lab_policy(&l.policy);
    l.config = (struct ruleset_config){.policy = &l.policy, .static_mark = lab_static_mark,
                                        .resolver = RESOLVER_UID};
    ck_assert_int_eq(confine_identity(64002, 64002, keep, 1), 0);
    ck_assert_int_eq(confine_syscalls(CONFINE_CORE), 0);
    ck_assert_int_eq(elements_open(&l.elements), 0);
    ck_assert_int_eq(conntrack_open(&l.conntrack), 0);
    ck_assert_int_eq(ruleset_open(&l.ruleset), 0);
    ck_assert_int_eq(denied_open(&d, &clock_system), 0);
    ck_assert_int_eq(uplink_open(&u), 0);
    ck_assert_int_eq(lab_load(&l, false), 0);
    ck_assert_int_eq(barrier_install(&l.policy), 8);
    ck_assert_int_eq(sysctl_prepare(&l.policy, NULL), 0);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 443);
    int error = selftest_run(tun, l.elements, l.conntrack, &clock_system, &result);
    ck_assert_msg(error == 0, "%s, IPv%d: %s", selftest_fault_text(result.fault), result.family,
                  strerror(-error));
    ck_assert_int_eq(sysctl_forwarding(true), 0);
    ck_assert_int_eq(lab_load(&l, false), 0);
    ck_assert_int_eq(lab_load(&l, true), 1);
    ck_assert_int_eq(ruleset_verify(&l.ruleset), 1);
    ck_assert_int_eq(uplink_ipv6(u, "tgu0"), 0);
    ck_assert_int_ge(conntrack_delete_unknown(l.conntrack, lab_image.subnets, 4, NULL, NULL), 0);
    denied_close(d);
    uplink_close(u);
}

START_TEST(confined) {
    struct lab l;
    lab_network(&l);
    lab_stop(&l);
    int status, tun = tun_open();
    pid_t child = fork(); /* Check itself needs more system calls when a test ends */
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        confined_run(tun);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "ended with %#x", status);
    close(tun);
}
END_TEST

#define TEST(name) {#name, name}
int main(void) {
    const struct lab_test tests[] = {
        TEST(flow_is_cut), TEST(unknown_flows_go), TEST(dns_flows_are_short),
        TEST(lost_events_are_told),
        TEST(reasons_are_delivered), TEST(denied_flood), TEST(uplink_notices), TEST(switches),
        TEST(selftest_passes), TEST(selftest_fails), TEST(confined),
    };
    return lab_main("core_kernel", tests, sizeof tests / sizeof *tests);
}
