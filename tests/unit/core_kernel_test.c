/* core_kernel_test.c: the modules of core that face the kernel, on the real kernel. */
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "gateway/base/confine.h"
#include "tests/unit/core_kernel.h"

/* ---- elements ---------------------------------------------------------------------------- */

struct seen {
    unsigned count;
    struct element last;
};

static int see(void *ctx, const struct element *element) {
    struct seen *s = ctx;
    s->count++;
    s->last = *element;
    return 0;
}

static int stop(void *ctx, const struct element *element) {
    (void)ctx;
    (void)element;
    return -ECANCELED;
}

static struct seen dumped(struct lab *l, int family) {
    struct seen s = {0};
    ck_assert_int_eq(elements_dump(l->elements, family, see, &s), (int)s.count);
    return s;
}

static struct name name_of(const char *text) {
    struct name n;
    ck_assert_int_eq(name_from_text(text, &n), 0);
    return n;
}

START_TEST(element_comes_back) {
    struct lab l;
    struct name name = name_of("api.search.example");
    lab_start(&l);
    for (int family = 4; family <= 6; family += 2) {
        struct element_change c = lab_change(ELEMENT_ADD, family == 4 ? AGENT4 : AGENT6,
                                             family == 4 ? REMOTE4 : REMOTE6, IPPROTO_TCP, 443,
                                             50000);
        c.name = &name;
        c.mark = 0x12345678;
        ck_assert_int_eq(lab_commit(&l, &c), 0);
        struct seen s = dumped(&l, family);
        ck_assert_uint_eq(s.count, 1);
        ck_assert_mem_eq(&s.last.key, &c.key, sizeof c.key);
        ck_assert_uint_eq(s.last.mark, c.mark);
        ck_assert_uint_le(s.last.remaining_ms, 50000);
        ck_assert_uint_gt(s.last.remaining_ms, 45000);
        ck_assert(name_equal(&s.last.name, &name));
    }
    lab_stop(&l);
}
END_TEST

/* Names up to 251 octets of text are kept; longer ones are left out, and the element is made all the
 * same. */
START_TEST(element_names) {
    struct lab l;
    lab_start(&l);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT6, REMOTE6, IPPROTO_TCP, 443, 50000);
    struct name name = {0};
    for (uint8_t last = 57; last <= 61; last++) {
        name.length = (uint8_t)(194 + last);
        memset(name.wire, 'a', name.length - 1u);
        name.wire[0] = name.wire[64] = name.wire[128] = 63;
        name.wire[192] = last;
        ck_assert(name_valid(&name)); /* of 192 + last octets as text */
        c.name = &name;
        c.op = last == 57 ? ELEMENT_ADD : ELEMENT_REFRESH;
        ck_assert_int_eq(lab_commit(&l, &c), 0);
        struct seen s = dumped(&l, 6);
        ck_assert_uint_eq(s.count, 1);
        if (192 + last <= 251) ck_assert(name_equal(&s.last.name, &name));
        else ck_assert_uint_eq(s.last.name.length, 0);
    }
    /* Escaped octets take more. */
    memset(name.wire + 1, '\1', 63);
    ck_assert(name_valid(&name));
    c.op = ELEMENT_REFRESH;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_uint_eq(dumped(&l, 6).last.name.length, 0);
    struct name odd = name_of("a\\.b\\032c\\000.example");
    c.name = &odd;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    struct seen s = dumped(&l, 6);
    ck_assert(name_equal(&s.last.name, &odd));
    lab_stop(&l);
}
END_TEST

/* c07: the deadline is a new one, whether the ledger was right about the element or not. */
START_TEST(refresh_extends) {
    struct lab l;
    lab_start(&l);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT4, REMOTE4, IPPROTO_TCP, 443, 2000);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    nap(300);
    ck_assert_uint_lt(dumped(&l, 4).last.remaining_ms, 1800);
    c.op = ELEMENT_REFRESH;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_uint_gt(dumped(&l, 4).last.remaining_ms, 1900);
    /* With another mark, told and not told. */
    c.was = c.mark;
    c.mark = 0x98;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_uint_eq(dumped(&l, 4).last.mark, 0x98);
    ck_assert_uint_eq(elements_retries(l.elements), 0);
    c.was = 0;
    c.mark = 0x97;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_uint_eq(dumped(&l, 4).last.mark, 0x97);
    ck_assert_uint_eq(elements_retries(l.elements), 1);
    /* Believed absent, but it lives: longer, and shorter, and another mark. */
    c.op = ELEMENT_ADD;
    c.timeout_ms = 60000;
    c.mark = 0x99;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_uint_eq(elements_retries(l.elements), 2);
    ck_assert_uint_gt(dumped(&l, 4).last.remaining_ms, 58000);
    ck_assert_uint_eq(dumped(&l, 4).last.mark, 0x99);
    c.timeout_ms = 100;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_uint_le(dumped(&l, 4).last.remaining_ms, 100);
    /* Believed live, but it has run out. */
    nap(200);
    ck_assert_uint_eq(dumped(&l, 4).count, 0);
    c.op = ELEMENT_REFRESH;
    c.timeout_ms = 5000;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    struct seen s = dumped(&l, 4);
    ck_assert_uint_eq(s.count, 1);
    ck_assert_uint_gt(s.last.remaining_ms, 4500);
    ck_assert_uint_eq(elements_retries(l.elements), 3);
    lab_stop(&l);
}
END_TEST

/* One key, and a dump that ends early: the next one begins at once. */
START_TEST(element_get) {
    struct lab l;
    struct element e;
    lab_start(&l);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT6, REMOTE6, IPPROTO_TCP, 443, 50000);
    ck_assert_int_eq(elements_get(l.elements, &c.key, &e), 0);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_int_eq(elements_get(l.elements, &c.key, &e), 1);
    ck_assert_uint_eq(e.mark, c.mark);
    ck_assert_mem_eq(&e.key, &c.key, sizeof c.key);
    c.key.port++;
    ck_assert_int_eq(elements_get(l.elements, &c.key, &e), 0);
    c.timeout_ms = 50;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    nap(100);
    ck_assert_int_eq(elements_get(l.elements, &c.key, &e), 0);
    elements_begin(l.elements);
    elements_request(l.elements);
    for (unsigned i = 0; i < 2000; i++) {
        struct element_change many = lab_change(ELEMENT_ADD, AGENT6, REMOTE6, IPPROTO_UDP,
                                                (uint16_t)(1 + i), 50000);
        ck_assert_int_eq(elements_put(l.elements, &many), 0);
    }
    ck_assert_int_eq(elements_commit(l.elements), 1);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(elements_dump(l.elements, 6, stop, NULL), -ECANCELED);
    ck_assert_uint_eq(dumped(&l, 6).count, 2001);
    lab_stop(&l);
}
END_TEST

/* c11, c12 seen from the packets: past the deadline nothing new begins. */
START_TEST(opening_expires) {
    struct lab l;
    lab_start(&l);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT6, REMOTE6, IPPROTO_UDP, 5000, 400);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    PASSES(l.agent, l.uplink, packet_udp(AGENT6, REMOTE6, 4000, 5000));
    nap(500);
    DROPPED(l.agent, l.uplink, packet_udp(AGENT6, REMOTE6, 4001, 5000));
    lab_stop(&l);
}
END_TEST

static void put(struct lab *l, enum element_op op, const char *remote, uint16_t port) {
    struct element_change c = lab_change(op, AGENT4, remote, IPPROTO_TCP, port, 60000);
    ck_assert_int_eq(elements_put(l->elements, &c), 0);
}

/* One group, five requests: each has its own result, and each is there wholly or not at all. */
START_TEST(group_results) {
    struct lab l;
    lab_network(&l);
    l.config.map_size = 4;
    lab_load(&l, false);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 1);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 2);
    elements_begin(l.elements);
    ck_assert_int_eq(elements_request(l.elements), 0);
    put(&l, ELEMENT_ADD, REMOTE4, 1); /* is there already */
    ck_assert_int_eq(elements_request(l.elements), 1);
    put(&l, ELEMENT_DELETE, REMOTE4, 99); /* is not there */
    ck_assert_int_eq(elements_request(l.elements), 2);
    put(&l, ELEMENT_ADD, REMOTE4, 3);
    put(&l, ELEMENT_ADD, REMOTE4, 4);
    put(&l, ELEMENT_ADD, REMOTE4, 5); /* one too many */
    ck_assert_int_eq(elements_request(l.elements), 3);
    put(&l, ELEMENT_REFRESH, REMOTE4, 77); /* is not there */
    ck_assert_int_eq(elements_request(l.elements), 4);
    ck_assert_uint_eq(elements_pending(l.elements), 6);
    ck_assert_int_eq(elements_commit(l.elements), 4);
    ck_assert_int_eq(elements_result(l.elements, 0), 0);
    ck_assert_int_eq(elements_result(l.elements, 1), 0);
    ck_assert_int_eq(elements_result(l.elements, 2), -ENFILE);
    ck_assert_int_eq(elements_result(l.elements, 3), 0);
    ck_assert_int_eq(elements_result(l.elements, 4), 0);
    ck_assert_int_eq(elements_result(l.elements, 5), -EINVAL);
    ck_assert_uint_eq(dumped(&l, 4).count, 3); /* 1, 2, 77 */
    lab_stop(&l);
}
END_TEST

/* c47: on a full map what lives can be refreshed and deleted, and deletes of nothing succeed. */
START_TEST(full_map) {
    struct lab l;
    lab_network(&l);
    l.config.map_size = 2;
    lab_load(&l, false);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 1);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 2);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT4, REMOTE4, IPPROTO_TCP, 3, 60000);
    ck_assert_int_eq(lab_commit(&l, &c), -ENFILE);
    c = lab_change(ELEMENT_REFRESH, AGENT4, REMOTE4, IPPROTO_TCP, 2, 90000);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    c.op = ELEMENT_ADD; /* by the long way */
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    c = lab_change(ELEMENT_DELETE, AGENT4, REMOTE4, IPPROTO_TCP, 9, 0);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    c = lab_change(ELEMENT_DELETE, AGENT4, REMOTE4, IPPROTO_TCP, 1, 0);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 3);
    ck_assert_uint_eq(dumped(&l, 4).count, 2);
    lab_stop(&l);
}
END_TEST

/* c02: the table is gone. */
START_TEST(no_table) {
    struct lab l;
    struct seen s = {0};
    lab_network(&l);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT4, REMOTE4, IPPROTO_TCP, 1, 60000);
    ck_assert_int_eq(lab_commit(&l, &c), -ENOENT);
    ck_assert_int_eq(elements_dump(l.elements, 4, see, &s), -ENOENT);
    c.op = ELEMENT_DELETE;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_int_eq(ruleset_verify(&l.ruleset), 0);
    lab_stop(&l);
}
END_TEST

START_TEST(bad_changes) {
    struct lab l;
    lab_start(&l);
    const struct element_change good = lab_change(ELEMENT_ADD, AGENT4, REMOTE4, IPPROTO_TCP, 1, 1000);
    struct element_change c = good;
    ck_assert_int_eq(elements_put(l.elements, &c), -EINVAL); /* no request */
    ck_assert_int_eq(elements_request(l.elements), 0);
#define BAD(what)                                                                                  \
    do {                                                                                           \
        c = good;                                                                                  \
        what;                                                                                      \
        ck_assert_msg(elements_put(l.elements, &c) == -EINVAL, "taken: %s", #what);                \
    } while (0)
    BAD(c.mark = 0);
    BAD(c.timeout_ms = 0);
    BAD(c.timeout_ms = UINT64_C(604800001));
    BAD(c.key.port = 0);
    BAD(c.key.protocol = IPPROTO_ICMP);
    BAD(c.key.zero = 1);
    BAD(c.key.remote = lab_addr(REMOTE6));
    BAD(c.key.client.family = 0);
    BAD(c.op = 7);
    ck_assert_uint_eq(elements_pending(l.elements), 0);
    elements_cancel(l.elements);
    ck_assert_int_eq(elements_request(l.elements), 0);
    lab_stop(&l);
}
END_TEST

/* Many messages in one transaction, both families, long names; then all of them taken back. */
START_TEST(large_group) {
    struct lab l;
    char text[256];
    lab_start(&l);
    for (int op = ELEMENT_ADD; op <= ELEMENT_DELETE; op++) {
        uint32_t before = elements_transactions(l.elements);
        elements_begin(l.elements);
        for (unsigned r = 0; r < 100; r++) {
            ck_assert_int_eq(elements_request(l.elements), (int)r);
            for (unsigned i = 0; i < 40; i++) {
                snprintf(text, sizeof text, "%060u.%060u.%060u.%040u.example", r, i, r, i);
                struct name name = name_of(text);
                struct element_change c = lab_change((enum element_op)op, i % 2 ? AGENT4 : AGENT6,
                                                     i % 2 ? REMOTE4 : REMOTE6, IPPROTO_TCP,
                                                     (uint16_t)(1 + r * 40 + i), 60000);
                c.name = &name;
                ck_assert_int_eq(elements_put(l.elements, &c), 0);
            }
        }
        ck_assert_int_eq(elements_commit(l.elements), 100);
        ck_assert_uint_eq(elements_transactions(l.elements), before + 1);
        unsigned left = op == ELEMENT_DELETE ? 0 : 2000;
        ck_assert_uint_eq(dumped(&l, 4).count, left);
        ck_assert_uint_eq(dumped(&l, 6).count, left);
    }
    lab_stop(&l);
}
END_TEST

/* ---- ruleset ----------------------------------------------------------------------------- */

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
    static const char *const bad[] = {"", "a b", "a\"b", "a;b", "a/b", "..", "{", "tgselftest", "tgu0"};
    lab_network(&l);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *name = lab_image.header.gateway.agents[1].interface;
        memset(name, 0, POLICY_IFNAME_MAX);
        memcpy(name, bad[i], strlen(bad[i]));
        ck_assert_int_eq(ruleset_load(&l.ruleset, &l.config, false, error), -EINVAL);
    }
    ck_assert(ruleset_ifname_valid("enp0s31f6.100_-A"[0] ? "enp0s31f6.10_-" : ""));
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

/* ---- barrier ----------------------------------------------------------------------------- */

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

/* ---- conntrack --------------------------------------------------------------------------- */

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

/* ---- denied packets ---------------------------------------------------------------------- */

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
    for (unsigned i = 0; i < 50 && l.count == 0; i++)
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

/* ---- uplink, sysctl ---------------------------------------------------------------------- */

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

/* ---- self-test --------------------------------------------------------------------------- */

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

/* ---- as core runs: another user, one capability, filtered system calls --------------------- */

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
        TEST(element_comes_back), TEST(element_names), TEST(refresh_extends), TEST(element_get),
        TEST(opening_expires),
        TEST(group_results), TEST(full_map), TEST(no_table), TEST(bad_changes), TEST(large_group),
        TEST(reload_keeps), TEST(reload_is_seamless), TEST(tampering), TEST(closed_at_boot),
        TEST(bad_names_stay_out), TEST(refused_ruleset), TEST(barrier_holds),
        TEST(barrier_and_reverse_path), TEST(flow_is_cut), TEST(unknown_flows_go),
        TEST(lost_events_are_told), TEST(reasons_are_delivered), TEST(denied_flood),
        TEST(uplink_notices), TEST(switches), TEST(selftest_passes), TEST(selftest_fails),
        TEST(confined),
    };
    return lab_main("core_kernel", tests, sizeof tests / sizeof *tests);
}
