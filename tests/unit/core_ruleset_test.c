/* core_ruleset_test.c: loading, replacing and watching the ruleset, and the barrier behind it. */
#include "tests/unit/core_kernel.h"

/* ---- ruleset --------------------------------------------------------------------------------- */

/* A reload keeps openings, deadlines, counters and flows; the policy's part changes. */
START_TEST(reload_keeps) {
    struct lab l;
    struct ruleset_counter before[RULESET_COUNTERS], after[RULESET_COUNTERS];
    lab_start(&l);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 443);
    PASSES(l.agent, l.uplink, packet_tcp(AGENT4, REMOTE4, 4000, 443, SYN, 100, 0, 0));
    DROPPED(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 4000, 9));
    DROPPED(l.agent, l.uplink, packet_udp(AGENT4, "203.0.113.200", 4000, 77));
    ck_assert_int_eq(ruleset_counters(&l.ruleset, before), 0);
    nap(100);
    lab_static(0, "10.77.1.0/24", "203.0.113.128/25", IPPROTO_UDP, 77, 77);
    ck_assert_int_eq(lab_load(&l, false), 0);
    struct seen s = dumped(&l, 4);
    ck_assert_uint_eq(s.count, 1);
    ck_assert_uint_lt(s.last.remaining_ms, 59950);
    ck_assert_uint_gt(s.last.remaining_ms, 55000);
    PASSES(l.agent, l.uplink, packet_udp(AGENT4, "203.0.113.200", 4001, 77));
    DROPPED(l.agent, l.uplink, packet_tcp(AGENT4, "203.0.113.200", 4001, 1500, SYN, 1, 0, 0));
    PASSES(l.uplink, l.agent, packet_tcp(REMOTE4, AGENT4, 443, 4000, SYN | ACK, 200, 101, 0));
    ck_assert_int_eq(ruleset_counters(&l.ruleset, after), 0);
    for (unsigned i = 0; i < RULESET_COUNTERS; i++)
        ck_assert_uint_ge(after[i].packets, before[i].packets);
    ck_assert_uint_ge(before[0].packets, 2);
    /* The map that grows is another map: made anew, empty, and the caller is told. */
    l.config.map_size = 1000;
    ck_assert_int_eq(lab_load(&l, false), 1);
    ck_assert_uint_eq(dumped(&l, 4).count, 0);
    ck_assert_int_eq(lab_load(&l, false), 0);
    lab_stop(&l);
}
END_TEST

/* Loads again and again in a child. */
static pid_t reload_storm(struct lab *l, bool rebuild) {
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child != 0) return child;
    char error[RULESET_ERROR_MAX];
    struct ruleset r;
    int bad = ruleset_open(&r);
    for (int i = 0; i < 10 && bad == 0; i++)
        if (ruleset_load(&r, &l->config, rebuild, error) < 0) bad = 1;
    _exit(bad ? 1 : 0);
}

/* While rulesets are replaced as fast as can be, denied packets never pass; in place, the open flow
 * never fails either. (Made anew, the new chains are empty with policy drop for a moment before the
 * old ones go: packets are lost, none is let through.) */
START_TEST(reload_is_seamless) {
    struct lab l;
    lab_start(&l);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 443);
    PASSES(l.agent, l.uplink, packet_tcp(AGENT4, REMOTE4, 4000, 443, SYN, 100, 0, 0));
    PASSES(l.uplink, l.agent, packet_tcp(REMOTE4, AGENT4, 443, 4000, SYN | ACK, 200, 101, 0));
    for (int rebuild = 0; rebuild < 2; rebuild++) {
        pid_t child = reload_storm(&l, rebuild);
        int status;
        unsigned tried = 0;
        while (waitpid(child, &status, WNOHANG) == 0) {
            struct packet no = packet_udp(AGENT4, REMOTE4, (uint16_t)(5000 + tried), 443);
            ck_assert(!packet_passes(l.agent, l.uplink, &no, 0));
            struct packet yes = packet_tcp(AGENT4, REMOTE4, 4000, 443, ACK, 101, 201, 9);
            bool passed = packet_passes(l.agent, l.uplink, &yes, rebuild ? 0 : LONG_WAIT);
            ck_assert_msg(rebuild || passed, "lost %u", tried);
            tried++;
        }
        ck_assert_int_eq(status, 0);
        ck_assert_uint_gt(tried, 50);
    }
    PASSES(l.agent, l.uplink, packet_tcp(AGENT4, REMOTE4, 4000, 443, ACK, 101, 201, 9));
    lab_stop(&l);
}
END_TEST

/* c53: each foreign change is seen, by generation and by digest, and a load sets it right. */
START_TEST(tampering) {
    static const char *const acts[] = {
        "flush ruleset",
        "delete table inet tidegate",
        "flush chain inet tidegate forward",
        "insert rule inet tidegate forward accept",
        "add rule inet tidegate from-agents accept",
        "add chain inet tidegate forward { policy accept ; }",
        "add table inet tidegate { flags dormant ; }",
        "add chain inet tidegate other { type filter hook forward priority -10 ; }",
        "add set inet tidegate other { type ipv4_addr ; }",
        "add element inet tidegate static4 { 10.77.1.16 . 203.0.113.9 . 6 . 80 : 1 }",
        "flush map inet tidegate static6",
        "add counter inet tidegate other",
    };
    struct lab l;
    lab_start(&l);
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        uint32_t generation;
        ck_assert_int_eq(ruleset_generation(&l.ruleset, &generation), 0);
        ck_assert_uint_eq(generation, l.ruleset.generation);
        ck_assert_int_eq(ruleset_verify(&l.ruleset), 1);
        RUN("nft", acts[i]);
        ck_assert_int_eq(ruleset_generation(&l.ruleset, &generation), 0);
        ck_assert_uint_ne(generation, l.ruleset.generation);
        ck_assert_msg(ruleset_verify(&l.ruleset) == 0, "not seen: %s", acts[i]);
        lab_load(&l, false);
        DROPPED(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, (uint16_t)(4000 + i), 443));
        DROPPED(l.agent, l.uplink,
                packet_tcp(AGENT4, "203.0.113.9", (uint16_t)(4000 + i), 80, SYN, 1, 0, 0));
        struct packet ok = packet_tcp(AGENT4, "203.0.113.200", (uint16_t)(4000 + i), 1500, SYN, 1, 0, 0);
        ck_assert_msg(packet_passes(l.agent, l.uplink, &ok, LONG_WAIT), "not repaired: %s", acts[i]);
    }
    /* Our own transactions and other tables move the generation, not the digest. */
    uint32_t before, after;
    ck_assert_int_eq(ruleset_generation(&l.ruleset, &before), 0);
    uint32_t ours = elements_transactions(l.elements);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 443);
    ck_assert_int_eq(ruleset_generation(&l.ruleset, &after), 0);
    ck_assert_uint_eq(after - before, elements_transactions(l.elements) - ours);
    RUN("nft", "add table ip somebody");
    ck_assert_int_eq(ruleset_verify(&l.ruleset), 1);
    lab_stop(&l);
}
END_TEST

/* The file for boot, and the ruleset on top of it and under it. */
START_TEST(closed_at_boot) {
    struct lab l;
    lab_network(&l);
    lab_forwarding(true);
    PASSES(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 4000, 5000));
    RUN("nft", "-f", "conf/closed.nft");
    DROPPED(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 4001, 5000));
    DROPPED(l.agent, l.uplink, packet_udp(AGENT6, REMOTE6, 4001, 5000));
    ck_assert_int_eq(lab_load(&l, false), 0);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_UDP, 5000);
    PASSES(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 4002, 5000));
    RUN("nft", "-f", "conf/closed.nft");
    ck_assert_int_eq(ruleset_verify(&l.ruleset), 1);
    PASSES(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 4003, 5000));
    lab_stop(&l);
}
END_TEST

START_TEST(bad_names_stay_out) {
    struct lab l;
    char error[RULESET_ERROR_MAX];
    static const char *const bad[] = {"", "a b", "a\"b", "a;b", "a/b", "..", "lo", "all",
                                      "default", "{", "tgselftest", "tgu0", "tgm0"};
    lab_network(&l);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *name = lab_image.header.gateway.agents[1].interface;
        memset(name, 0, POLICY_IFNAME_MAX);
        memcpy(name, bad[i], strlen(bad[i]));
        ck_assert_int_eq(ruleset_load(&l.ruleset, &l.config, false, error), -EINVAL);
    }
    ck_assert(ruleset_ifname_valid("enp0s31f6.10_-A"));
    ck_assert(!ruleset_ifname_valid("sixteen-letters-"));
    lab_stop(&l);
}
END_TEST

/* What the library says reaches the caller, and nothing has changed. */
START_TEST(refused_ruleset) {
    struct lab l;
    char error[RULESET_ERROR_MAX];
    lab_start(&l);
    lab_image.subnets[2] = lab_prefix("10.77.1.0/25"); /* overlaps, on another interface */
    lab_image.subnets[3] = lab_prefix("fd77:1::/80");
    lab_static(1, "10.77.1.0/24", "203.0.113.128/25", IPPROTO_TCP, 1500, 1600); /* overlaps */
    ck_assert_int_eq(ruleset_load(&l.ruleset, &l.config, false, error), -EIO);
    ck_assert_uint_gt(strlen(error), 10);
    ck_assert_int_eq(ruleset_verify(&l.ruleset), 1);
    DROPPED(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 4000, 5000));
    lab_stop(&l);
}
END_TEST

/* ---- barrier --------------------------------------------------------------------------------- */

START_TEST(barrier_holds) {
    struct lab l;
    lab_start(&l);
    ck_assert_int_eq(barrier_verify(&l.policy), 0);
    ck_assert_int_eq(barrier_install(&l.policy), 0);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_UDP, 5000);
    PASSES(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 4000, 5000));
    RUN("nft", "flush ruleset");
    ck_assert_int_eq(sysctl_forwarding_is_on(), 1);
    DROPPED(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 4001, 5000));
    DROPPED(l.agent, l.uplink, packet_udp(AGENT6, REMOTE6, 4001, 5000));
    DROPPED(l.uplink, l.agent, packet_udp(REMOTE4, AGENT4, 5000, 4000));
    DROPPED(l.uplink, l.agent, packet_udp(REMOTE6, AGENT6, 5000, 4000));
    DROPPED(l.management, l.agent, packet_udp("192.0.2.9", AGENT4, 5000, 4000));
    /* The control: it is the barrier that did it. */
    RUN("ip", "rule", "del", "iif", "tga0", "fwmark", "0/0xffffffff", "prio", "5", "blackhole");
    PASSES(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 4002, 5000));
    ck_assert_int_eq(barrier_verify(&l.policy), 1);
    ck_assert_int_eq(barrier_install(&l.policy), 1);
    DROPPED(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, 4003, 5000));
    RUN("ip", "-6", "rule", "flush");
    ck_assert_int_eq(barrier_verify(&l.policy), 4);
    ck_assert_int_eq(barrier_install(&l.policy), 4);
    lab_stop(&l);
}
END_TEST

/* Strict and loose reverse path checks go on working with the barrier in place. */
START_TEST(barrier_and_reverse_path) {
    struct lab l;
    lab_start(&l);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_UDP, 5000);
    for (int mode = 1; mode <= 2; mode++) {
        ck_assert_int_eq(sysctl_set("ipv4/conf/all/rp_filter", mode == 1 ? "1" : "2"), 0);
        uint16_t port = (uint16_t)(4000 + mode);
        PASSES(l.agent, l.uplink, packet_udp(AGENT4, REMOTE4, port, 5000));
        PASSES(l.uplink, l.agent, packet_udp(REMOTE4, AGENT4, 5000, port));
    }
    lab_stop(&l);
}
END_TEST

#define TEST(name) {#name, name}
int main(void) {
    const struct lab_test tests[] = {
        TEST(reload_keeps), TEST(reload_is_seamless), TEST(tampering), TEST(closed_at_boot),
        TEST(bad_names_stay_out), TEST(refused_ruleset), TEST(barrier_holds),
        TEST(barrier_and_reverse_path),
    };
    return lab_main("core_ruleset", tests, sizeof tests / sizeof *tests);
}
