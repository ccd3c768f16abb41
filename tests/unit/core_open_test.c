/* core_open_test.c: core's handlers on a real kernel: openings, caps, groups, repair, drift. */
#include <sys/resource.h>

#include "tests/unit/core_rig.h"

#define AGENT "10.77.1.17"
#define AGENT6B "fd77:1::17"
#define BUILDER "10.77.2.17"
#define API "api.search.example"

START_TEST(opening_reaches_the_kernel) {
    struct rig r;
    rig_start(&r, "");
    struct packet syn4 = packet_tcp(AGENT, A4, 4000, 443, SYN, 1, 0, 0),
                  syn6 = packet_tcp(AGENT6B, A6, 4000, 443, SYN, 1, 0, 0);
    ck_assert(!packet_passes(r.lab.agent, r.lab.uplink, &syn4, SHORT_WAIT));
    usec_t before = clock_now(&clock_system);
    struct msg_opened m = OPEN(&r, AGENT, API, 62, A4, B4);
    usec_t after = clock_now(&clock_system);
    ck_assert_uint_eq(m.result, REASON_ALLOWED);
    ck_assert_uint_eq(m.count, 2);
    ck_assert_uint_eq(m.epoch, r.core.epoch);
    ck_assert_uint_ge(m.deadline, before + 62 * USEC_PER_SEC);
    ck_assert_uint_le(m.deadline, after + 62 * USEC_PER_SEC);
    struct rig_element e = rig_element(&r, AGENT, A4, IPPROTO_TCP, 443);
    usec_t now = clock_now(&clock_system);
    ck_assert_uint_eq(e.count, 1);
    ck_assert_uint_le(e.found.remaining_ms, 62100);
    /* The kernel keeps it at least as long as was promised (it counts in ticks of 4 ms). */
    ck_assert_uint_ge(now + e.found.remaining_ms * 1000 + 8000, m.deadline);
    uint32_t agent, endpoint;
    ck_assert(marks_read(r.core.marks, &r.core.image.policy, e.found.mark, &agent, &endpoint));
    ck_assert_uint_eq(agent, policy_agent_of(&r.core.image.policy, &e.key.client));
    struct name name;
    name_from_text(API, &name);
    ck_assert(name_equal(&e.found.name, &name));
    ck_assert_uint_eq(rig_elements(&r, 4), 2);
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4001, 443, SYN, 1, 0, 0));
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4001, 80, SYN, 1, 0, 0));
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp("10.77.1.18", A4, 4001, 443, SYN, 1, 0, 0));
    DROPPED(r.lab.agent, r.lab.uplink, syn6);
    OPENS(&r, AGENT6B, API, 62, A6);
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT6B, A6, 4001, 443, SYN, 1, 0, 0));
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT6B, B6, 4001, 443, SYN, 1, 0, 0));
    rig_end(&r);
}
END_TEST

/* c07, c10: the deadline moves, each address has its own, and it never moves back. */
START_TEST(refresh_extends) {
    struct rig r;
    rig_start(&r, "");
    usec_t first = OPEN(&r, AGENT, API, 10, A4).deadline;
    OPENS(&r, AGENT, API, 300, B4);
    ck_assert_uint_le(rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.remaining_ms, 10100);
    usec_t second = OPEN(&r, AGENT, API, 600, A4).deadline;
    ck_assert_uint_ge(second, first + 590 * USEC_PER_SEC);
    ck_assert_uint_gt(rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.remaining_ms, 599000);
    usec_t third = OPEN(&r, AGENT, API, 10, A4).deadline;
    ck_assert_uint_eq(third, second);
    ck_assert_uint_gt(rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.remaining_ms, 599000);
    ck_assert_uint_eq(rig_elements(&r, 4), 2);
    ck_assert_uint_eq(r.core.counts.openings_made, 2);
    ck_assert_uint_eq(r.core.counts.openings_refreshed, 2);
    rig_end(&r);
}
END_TEST

/* c12, c09: it ends, in the kernel and in the ledger, and can be opened again. */
START_TEST(opening_ends) {
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 1, A4);
    IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
    nap(1300);
    NOT_IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4000, 443, SYN, 1, 0, 0));
    OPENS(&r, AGENT, API, 1, A4); /* the ledger still has the old one, the kernel does not */
    IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
    nap(2300);
    core_tick(&r.core);
    ck_assert_uint_eq(ledger_claims(r.core.ledger), 0);
    ck_assert_uint_eq(r.core.counts.openings_expired, 1);
    rig_end(&r);
}
END_TEST

/* c34: no address of the gateway itself, public as it may be, from the moment it has it. */
START_TEST(own_addresses) {
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 60, C4);
    OPENS(&r, AGENT6B, API, 60, B6);
    RUN("ip", "addr", "add", C4 "/32", "dev", "tgu0");
    RUN("ip", "addr", "add", B6 "/64", "dev", "lo", "nodad");
    core_uplink(&r.core);
    REFUSES(&r, REASON_REBINDING, AGENT, API, 60, C4);
    REFUSES(&r, REASON_REBINDING, AGENT, API, 60, A4, C4);
    REFUSES(&r, REASON_REBINDING, AGENT6B, API, 60, A6, B6);
    NOT_IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
    NOT_IN_KERNEL(&r, AGENT6B, A6, IPPROTO_TCP, 443);
    RUN("ip", "addr", "del", C4 "/32", "dev", "tgu0");
    core_uplink(&r.core);
    OPENS(&r, AGENT, API, 60, A4, C4);
    rig_end(&r);
}
END_TEST

/* Whatever the resolver asks for, nothing beyond policy gets in, and nothing of a refused request. */
START_TEST(not_covered) {
    struct rig r;
    rig_start(&r, "");
    rig_policy(&r, ENDPOINTS, "\"*.bad.search.example\", x.w.search.example");
    ck_assert(rig_reload(&r, rig_image(&r)));
    REFUSES(&r, REASON_NOT_LISTED, AGENT, "other.example", 60, A4);
    REFUSES(&r, REASON_NOT_LISTED, AGENT, "search.example", 60, A4);
    REFUSES(&r, REASON_NOT_LISTED, AGENT, "a.b.w.search.example", 60, A4);
    REFUSES(&r, REASON_DENY_LIST, AGENT, "x.w.search.example", 60, A4);
    REFUSES(&r, REASON_NOT_LISTED, BUILDER, API, 60, A4); /* another agent's tool */
    REFUSES(&r, REASON_UNKNOWN_CLIENT, "10.77.1.200", API, 60, A4);
    /* Forbidden ranges, also as the last of several. */
    REFUSES(&r, REASON_REBINDING, AGENT, API, 60, "10.0.0.1");
    REFUSES(&r, REASON_REBINDING, AGENT, API, 60, A4, B4, "169.254.169.254");
    REFUSES(&r, REASON_REBINDING, AGENT, API, 60, "127.0.0.1", A4);
    REFUSES(&r, REASON_REBINDING, AGENT6B, API, 60, A6, "64:ff9b::a00:1");
    REFUSES(&r, REASON_REBINDING, AGENT6B, API, 60, "::ffff:93.184.216.34");
    REFUSES(&r, REASON_REBINDING, AGENT6B, API, 60, "fd77:1::18");
    /* One second more than max_lifetime + grace. */
    REFUSES(&r, REASON_OPEN_FAILED, AGENT, API, 3603, A4);
    OPENS(&r, AGENT, API, 3602, A4);
    r.policy++;
    REFUSES(&r, REASON_STALE_POLICY, AGENT, API, 60, B4);
    ck_assert_uint_eq(rig_elements(&r, 4), 1);
    ck_assert_uint_eq(rig_elements(&r, 6), 0);
    ck_assert_uint_eq(r.core.counts.openings_refused, 14);
    rig_end(&r);
}
END_TEST

/* c21: all ports of all endpoints that match; one element each. */
START_TEST(union_of_ports) {
    struct rig r;
    rig_start(&r, "");
    rig_policy(&r,
               ENDPOINTS "  - { name: \"*.search.example\", protocol: quic, data: public }\n"
                         "  - { name: \"**.search.example\", protocol: tcp, port: [443, 25], "
                         "data: public }\n",
               "");
    ck_assert(rig_reload(&r, rig_image(&r)));
    struct msg_opened m = OPEN(&r, AGENT, API, 60, A4);
    ck_assert_uint_eq(m.result, REASON_ALLOWED);
    ck_assert_uint_eq(m.count, 3);
    IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
    IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 25);
    IN_KERNEL(&r, AGENT, A4, IPPROTO_UDP, 443);
    ck_assert_uint_eq(rig_elements(&r, 4), 3);
    rig_end(&r);
}
END_TEST

/* A dual-stack host asks for AAAA over IPv4: opened for the few addresses it may have. */
START_TEST(other_family) {
    struct rig r;
    rig_start(&r, "");
    struct msg_opened m = OPEN(&r, AGENT, API, 60, A6);
    ck_assert_uint_eq(m.result, REASON_ALLOWED);
    ck_assert_uint_eq(m.count, 16);
    ck_assert_uint_eq(rig_elements(&r, 6), 16);
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp("fd77:1::10", A6, 4001, 443, SYN, 1, 0, 0));
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp("fd77:1::1f", A6, 4001, 443, SYN, 1, 0, 0));
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp("fd77:1::20", A6, 4001, 443, SYN, 1, 0, 0));
    OPENS(&r, "fd77:1::17", API, 60, A4);
    ck_assert_uint_eq(rig_elements(&r, 4), 16);
    REFUSES(&r, REASON_NO_FAMILY, BUILDER, "git.example.net", 60, A6); /* a /64 */
    OPENS(&r, "fd77:2::17", "git.example.net", 60, A6);
    rig_end(&r);
}
END_TEST

/* ---- limits -------------------------------------------------------------------------------- */

/* c45: a client's limit is its own. */
START_TEST(client_limit) {
    struct rig r;
    rig_start(&r, "limits: { openings_per_client: 4 }");
    OPENS(&r, AGENT, "a.w.search.example", 60, A4); /* two ports */
    OPENS(&r, AGENT, "a.w.search.example", 60, B4);
    REFUSES(&r, REASON_CLIENT_CAP, AGENT, API, 60, C4);
    OPENS(&r, AGENT, "a.w.search.example", 90, A4, B4); /* what it has it may keep */
    OPENS(&r, "10.77.1.18", API, 60, C4);
    REFUSES(&r, REASON_CLIENT_CAP, "10.77.1.18", "b.w.search.example", 60, A4, B4);
    ck_assert_uint_eq(rig_elements(&r, 4), 5);
    rig_end(&r);
}
END_TEST

/* c44: rotating addresses push out the oldest that no flow uses. */
START_TEST(name_limit) {
    struct rig r;
    rig_start(&r, "limits: { addresses_per_name: 3 }");
    OPENS(&r, AGENT, API, 60, A4);
    OPENS(&r, AGENT, API, 60, B4);
    OPENS(&r, AGENT, API, 60, C4);
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4000, 443, SYN, 1, 0, 0));
    rig_turn(&r);
    struct ledger_key key = {.client = lab_addr(AGENT), .remote = lab_addr(A4), .port = 443,
                             .protocol = IPPROTO_TCP};
    ck_assert(flows_live(r.core.flows, &key));
    OPENS(&r, AGENT, API, 60, "93.184.216.40");
    IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);     /* oldest, but in use */
    NOT_IN_KERNEL(&r, AGENT, B4, IPPROTO_TCP, 443); /* next */
    IN_KERNEL(&r, AGENT, C4, IPPROTO_TCP, 443);
    IN_KERNEL(&r, AGENT, "93.184.216.40", IPPROTO_TCP, 443);
    ck_assert_uint_eq(rig_elements(&r, 4), 3);
    /* What is asked for again is not what makes room. */
    OPENS(&r, AGENT, API, 60, C4, "93.184.216.41");
    IN_KERNEL(&r, AGENT, C4, IPPROTO_TCP, 443);
    NOT_IN_KERNEL(&r, AGENT, "93.184.216.40", IPPROTO_TCP, 443);
    REFUSES(&r, REASON_NAME_CAP, AGENT, API, 60, "93.184.216.42", "93.184.216.43", "93.184.216.44");
    REFUSES(&r, REASON_NAME_CAP, AGENT, API, 60, "1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4");
    ck_assert_uint_eq(rig_elements(&r, 4), 3);
    /* Other names and clients have their own. */
    OPENS(&r, AGENT, "a.w.search.example", 60, "93.184.216.42", "93.184.216.43");
    OPENS(&r, "10.77.1.18", API, 60, "93.184.216.42", "93.184.216.43", "93.184.216.44");
    rig_end(&r);
}
END_TEST

/* Opens one address after the other from all clients of a /28 until that is refused. How many. */
static unsigned open_all(struct rig *r, const char *subnet, const char *name) {
    for (unsigned i = 0;; i++) {
        char client[32], remote[32];
        snprintf(client, sizeof client, "%s.%u", subnet, 16 + i % 16);
        snprintf(remote, sizeof remote, "93.184.%u.%u", 218 + i / 200, 1 + i % 200);
        uint32_t result = OPEN(r, client, name, 600, remote).result;
        if (result == REASON_ALLOWED) continue;
        ck_assert_uint_eq(result, REASON_MAP_FULL);
        return i;
    }
}

/* c47: the map is full: the new one is refused, nobody's is taken away, and what is there can
 * still be refreshed. An agent gets as much as it leaves for the others, so that the second has
 * its openings whatever the first does. */
START_TEST(map_is_full) {
    struct rig r;
    rig_start(&r, "limits: { openings_per_client: 100000, addresses_per_name: 256 }");
    unsigned room = MAP_SIZE - MAP_SIZE / 8, first = open_all(&r, "10.77.1", API);
    ck_assert_uint_eq(first, room / 2);
    unsigned second = open_all(&r, "10.77.2", "git.example.net");
    ck_assert_uint_eq(second, (room - first) / 2);
    ck_assert_uint_eq(rig_elements(&r, 4), first + second);
    OPENS(&r, "10.77.1.16", API, 900, "93.184.218.1");
    OPENS(&r, "10.77.2.16", "git.example.net", 900, "93.184.218.1");
    ck_assert_uint_eq(rig_elements(&r, 4), first + second);
    /* What the first gives back is the second's to take. */
    rig_policy(&r, ENDPOINTS, "api.search.example");
    ck_assert(rig_reload(&r, rig_image(&r)));
    OPENS(&r, "10.77.2.16", "git.example.net", 900, "93.184.219.200");
    rig_end(&r);
}
END_TEST

/* Begins a flow from the client behind `side`; whether it lives on: the answer comes through. */
static bool begins(struct rig *r, int side, const char *client, uint16_t from) {
    PASSES(side, r->lab.uplink, packet_tcp(client, A4, from, 443, SYN, 1, 0, 0));
    rig_turn(r);
    struct packet back = packet_tcp(A4, client, 443, from, SYN | ACK, 1, 2, 0);
    return packet_passes(r->lab.uplink, side, &back, SHORT_WAIT);
}

/* Flows of one agent beyond what is left for all others are ended at once; and the most recent of
 * the greediest when events were lost. */
START_TEST(flow_share) {
    struct rig r;
    uint16_t from = 4000;
    unsigned lived = 0;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 600, A4);
    OPENS(&r, "10.77.1.18", API, 600, A4);
    OPENS(&r, BUILDER, "git.example.net", 600, A4);
    r.core.config.flows_max = r.core.flow_room = 10;
    for (unsigned i = 0; i < 12; i++)
        lived += begins(&r, r.lab.agent, i % 2 ? AGENT : "10.77.1.18", from++);
    ck_assert_uint_eq(lived, 5);
    ck_assert_uint_eq(r.core.counts.flows_cut, 7);
    ck_assert(begins(&r, r.lab.other, BUILDER, 4000));
    ck_assert(begins(&r, r.lab.other, BUILDER, 4001));
    ck_assert(!begins(&r, r.lab.other, BUILDER, 4002));
    rig_turn(&r);
    ck_assert_uint_eq(flows_count(r.core.flows), 7);
    r.core.config.flows_max = r.core.flow_room = 6;
    reconcile_flows(&r.core);
    rig_turn(&r);
    ck_assert_uint_eq(flows_count(r.core.flows), 4);
    PASSES(r.lab.uplink, r.lab.other, packet_tcp(A4, BUILDER, 443, 4000, SYN | ACK, 1, 2, 0));
    PASSES(r.lab.uplink, r.lab.other, packet_tcp(A4, BUILDER, 443, 4001, SYN | ACK, 1, 2, 0));
    rig_end(&r);
}
END_TEST

/* ---- groups -------------------------------------------------------------------------------- */

/* c04: what waits in the channel shares transactions; each request has its own answer. */
START_TEST(requests_share_a_transaction) {
    struct rig r;
    rig_start(&r, "");
    uint32_t before = elements_transactions(r.core.elements);
    uint64_t first = r.sequence + 1;
    for (unsigned i = 0; i < 14; i++) {
        char client[32];
        snprintf(client, sizeof client, "10.77.1.%u", 16 + i);
        rig_send_open(&r, client, i == 7 ? "other.example" : API, 60,
                      (const char *const[]){A4, B4}, 2);
    }
    core_from_resolver(&r.core);
    ck_assert_uint_eq(elements_transactions(r.core.elements) - before, 1);
    unsigned allowed = 0;
    bool seen[14] = {false};
    for (unsigned i = 0; i < 14; i++) {
        struct msg_opened *m = rig_expect(&r, &r.resolver, PROTO_OPENED);
        ck_assert_uint_ge(m->id, first);
        ck_assert_uint_lt(m->id - first, 14);
        ck_assert(!seen[m->id - first]);
        seen[m->id - first] = true;
        ck_assert_int_eq(m->result == REASON_ALLOWED, m->id - first != 7);
        allowed += m->result == REASON_ALLOWED;
    }
    ck_assert_uint_eq(rig_elements(&r, 4), 2 * allowed);
    /* One client several times: in order, each judged by what the one before left. */
    for (unsigned i = 0; i < 5; i++)
        rig_send_open(&r, AGENT, API, 60 + 10 * i, (const char *const[]){C4}, 1);
    core_from_resolver(&r.core);
    usec_t last = 0;
    for (unsigned i = 0; i < 5; i++) {
        struct msg_opened *m = rig_expect(&r, &r.resolver, PROTO_OPENED);
        ck_assert_uint_eq(m->result, REASON_ALLOWED);
        ck_assert_uint_gt(m->deadline, last);
        last = m->deadline;
    }
    rig_end(&r);
}
END_TEST

/* ---- another hand -------------------------------------------------------------------------- */

/* c02, c53: the table is gone: refused, never answered; then all is made anew, with what was open. */
START_TEST(table_is_deleted) {
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 60, A4);
    OPENS(&r, AGENT6B, API, 60, A6);
    usec_t deadline = clock_now(&clock_system) + 60 * USEC_PER_SEC;
    uint64_t epoch = r.core.epoch;
    RUN("nft", "flush", "ruleset");
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4000, 443, SYN, 1, 0, 0));
    REFUSES(&r, REASON_OPEN_FAILED, AGENT, API, 60, B4);
    /* The refusal itself has shown that the map is gone, so the repair has been done already. */
    IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
    IN_KERNEL(&r, AGENT6B, A6, IPPROTO_TCP, 443);
    NOT_IN_KERNEL(&r, AGENT, B4, IPPROTO_TCP, 443);
    usec_t end = clock_now(&clock_system) +
                 rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.remaining_ms * 1000;
    ck_assert_uint_le(end, deadline + 100000); /* the remaining lifetime, not a new one */
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4001, 443, SYN, 1, 0, 0));
    ck_assert_uint_eq(rig_event(&r, EVENT_REPAIRED)->count, 2);
    ck_assert_uint_ne(r.core.epoch, epoch);
    OPENS(&r, AGENT, API, 60, B4);
    /* And without any request: by the generation. */
    RUN("nft", "delete", "table", "inet", "tidegate");
    core_tick(&r.core);
    ck_assert_uint_eq(rig_event(&r, EVENT_REPAIRED)->count, 3);
    ck_assert_uint_eq(rig_elements(&r, 4), 2);
    ck_assert_uint_eq(r.core.counts.repairs, 2);
    /* A rule that lets all pass, in our table. */
    RUN("nft", "insert", "rule", "inet", "tidegate", "forward", "accept");
    core_tick(&r.core);
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4002, 80, SYN, 1, 0, 0));
    ck_assert_uint_eq(r.core.counts.repairs, 3);
    /* A table of somebody else is left alone. */
    RUN("nft", "add", "table", "inet", "theirs");
    core_tick(&r.core);
    ck_assert_uint_eq(r.core.counts.repairs, 3);
    RUN("nft", "list", "table", "inet", "theirs");
    rig_end(&r);
}
END_TEST

/* Leaves a single descriptor: a switch can be written, a helper process needs a pipe. */
static void one_descriptor(bool only) {
    static struct rlimit all;
    int lowest = dup(0);
    ck_assert_int_ge(lowest, 0);
    close(lowest);
    if (only) ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
    struct rlimit one = {.rlim_cur = (rlim_t)lowest + 1, .rlim_max = all.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, only ? &one : &all), 0);
}

/* Our table was changed and cannot be made anew: nothing is forwarded until it can. */
START_TEST(repair_that_fails_closes) {
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 60, A4);
    RUN("nft", "insert", "rule", "inet", "tidegate", "forward", "accept");
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4000, 80, SYN, 1, 0, 0));
    r.core.rebuild = true;
    one_descriptor(true);
    core_tick(&r.core);
    one_descriptor(false);
    ck_assert_int_eq(sysctl_forwarding_is_on(), 0);
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4001, 80, SYN, 1, 0, 0));
    core_tick(&r.core); /* not again at once */
    ck_assert_int_eq(sysctl_forwarding_is_on(), 0);
    nap(1050);
    core_tick(&r.core);
    ck_assert_int_eq(sysctl_forwarding_is_on(), 1);
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4002, 80, SYN, 1, 0, 0));
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4003, 443, SYN, 1, 0, 0));
    rig_end(&r);
}
END_TEST

/* Elements set, changed and taken away by hand are put right, and counted. */
START_TEST(drift_is_repaired) {
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 60, A4, B4);
    core_tick(&r.core);
    ck_assert_uint_eq(r.core.counts.drift, 0);
    RUN("nft", "delete", "element", "inet", "tidegate", "open4",
        "{ " AGENT " . " A4 " . tcp . 443 }");
    RUN("nft", "add", "element", "inet", "tidegate", "open4",
        "{ " AGENT " . 1.1.1.1 . tcp . 443 timeout 1h : 0x00040001 }");
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, "1.1.1.1", 4000, 443, SYN, 1, 0, 0));
    core_tick(&r.core);
    IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
    IN_KERNEL(&r, AGENT, B4, IPPROTO_TCP, 443);
    NOT_IN_KERNEL(&r, AGENT, "1.1.1.1", IPPROTO_TCP, 443);
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, "1.1.1.1", 4000, 443, ACK, 2, 1, 0));
    ck_assert_uint_eq(r.core.counts.drift, 2);
    ck_assert_uint_eq(rig_event(&r, EVENT_DRIFT)->count, 2);
    ck_assert_uint_eq(r.core.counts.repairs, 0);
    /* Another deadline and mark on an element of ours. */
    RUN("nft", "delete", "element", "inet", "tidegate", "open4",
        "{ " AGENT " . " A4 " . tcp . 443 }");
    RUN("nft", "add", "element", "inet", "tidegate", "open4",
        "{ " AGENT " . " A4 " . tcp . 443 timeout 9h : 0x00040001 }");
    core_tick(&r.core);
    ck_assert_uint_le(rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.remaining_ms, 60100);
    ck_assert_uint_eq(r.core.counts.drift, 3);
    core_tick(&r.core);
    ck_assert_uint_eq(r.core.counts.drift, 3);
    /* By parts, as with maps too large to be dumped: from the second place of the ledger on. */
    RUN("nft", "delete", "element", "inet", "tidegate", "open4",
        "{ " AGENT " . " B4 " . tcp . 443 }");
    uint32_t generation;
    ck_assert_int_eq(ruleset_generation(&r.core.ruleset, &generation), 0);
    repair_accept(&r.core, generation);
    core_tick(&r.core);
    NOT_IN_KERNEL(&r, AGENT, B4, IPPROTO_TCP, 443);
    r.core.compare_cursor = 1;
    core_tick(&r.core);
    IN_KERNEL(&r, AGENT, B4, IPPROTO_TCP, 443);
    ck_assert_uint_eq(r.core.compare_cursor, 0);
    ck_assert_uint_eq(r.core.counts.drift, 4);
    rig_end(&r);
}
END_TEST

START_TEST(barrier_is_guarded) {
    struct rig r;
    rig_start(&r, "");
    ck_assert_int_eq(barrier_verify(&r.core.image.policy), 0);
    RUN("ip", "rule", "flush");
    RUN("ip", "rule", "add", "pref", "32766", "lookup", "main");
    RUN("ip", "rule", "add", "pref", "0", "lookup", "local");
    r.core.second = 0;
    core_tick(&r.core);
    ck_assert_int_eq(barrier_verify(&r.core.image.policy), 0);
    ck_assert_uint_eq(r.core.counts.repairs, 1);
    rig_end(&r);
}
END_TEST

#define TEST(name) {#name, name}
int main(void) {
    const struct lab_test tests[] = {
        TEST(opening_reaches_the_kernel), TEST(refresh_extends), TEST(opening_ends),
        TEST(own_addresses), TEST(not_covered), TEST(union_of_ports), TEST(other_family),
        TEST(client_limit), TEST(name_limit), TEST(map_is_full), TEST(flow_share),
        TEST(requests_share_a_transaction), TEST(table_is_deleted), TEST(repair_that_fails_closes),
        TEST(drift_is_repaired), TEST(barrier_is_guarded),
    };
    return lab_main("core_open", tests, sizeof tests / sizeof *tests);
}
