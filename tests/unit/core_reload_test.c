/* core_reload_test.c: another policy, another core, other processes: what stays and what goes. */
#include "tests/unit/core_rig.h"

#define AGENT "10.77.1.17"
#define AGENT6B "fd77:1::17"
#define BUILDER "10.77.2.17"
#define API "api.search.example"
#define WILD "a.w.search.example"
#define CDN "cdn.example.net"

#define ONLY_API "  - { name: api.search.example, protocol: https, data: public }\n"
#define ONLY_WILD                                                                                 \
    "  - { name: \"*.w.search.example\", protocol: tcp, port: [443, 8443], data: public }\n"

/* A flow that both ends have spoken on. */
static void connect_through(struct rig *r, const char *client, const char *remote, uint16_t from,
                            uint16_t port) {
    PASSES(r->lab.agent, r->lab.uplink, packet_tcp(client, remote, from, port, SYN, 100, 0, 0));
    PASSES(r->lab.uplink, r->lab.agent,
           packet_tcp(remote, client, port, from, SYN | ACK, 200, 101, 0));
    PASSES(r->lab.agent, r->lab.uplink, packet_tcp(client, remote, from, port, ACK, 101, 201, 0));
    rig_turn(r);
}
#define GOES_ON(r, client, remote, from, port)                                                    \
    PASSES((r)->lab.agent, (r)->lab.uplink,                                                       \
           packet_tcp(client, remote, from, port, ACK, 101, 201, 20))
#define CUT(r, client, remote, from, port)                                                        \
    DROPPED((r)->lab.agent, (r)->lab.uplink,                                                      \
            packet_tcp(client, remote, from, port, ACK, 101, 201, 20))

/* c14, c15: openings and flows of what is gone end at once, all others stay untouched. */
START_TEST(reload_revokes_what_changed) {
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 600, A4);
    OPENS(&r, AGENT6B, API, 600, A6);
    OPENS(&r, AGENT, WILD, 600, B4);
    OPENS(&r, BUILDER, "git.example.net", 600, A4);
    connect_through(&r, AGENT, A4, 4000, 443);
    connect_through(&r, AGENT6B, A6, 4000, 443);
    connect_through(&r, AGENT, B4, 4001, 443);
    connect_through(&r, AGENT, B4, 4002, 8443);
    uint64_t old = r.policy, epoch = r.core.epoch;
    uint32_t mark = rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.mark;
    while (rig_next(&r, &r.recorder, PROTO_FLOW)) {}
    rig_policy(&r, ONLY_API, "");
    ck_assert(rig_reload(&r, rig_image(&r)));
    ck_assert_uint_ne(r.policy, old);
    IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
    IN_KERNEL(&r, AGENT6B, A6, IPPROTO_TCP, 443);
    IN_KERNEL(&r, BUILDER, A4, IPPROTO_TCP, 443);
    ck_assert_uint_eq(rig_elements(&r, 4), 2);
    ck_assert_uint_eq(rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.mark, mark);
    GOES_ON(&r, AGENT, A4, 4000, 443);
    GOES_ON(&r, AGENT6B, A6, 4000, 443);
    CUT(&r, AGENT, B4, 4001, 443);
    CUT(&r, AGENT, B4, 4002, 8443);
    ck_assert_uint_eq(r.core.counts.openings_revoked, 2);
    ck_assert_uint_eq(r.core.counts.flows_revoked, 2);
    /* The records of the cut flows speak of the policy that had let them. */
    struct name wild;
    name_from_text(WILD, &wild);
    for (unsigned i = 0; i < 2; i++) {
        struct msg_flow *f = rig_expect(&r, &r.recorder, PROTO_FLOW);
        ck_assert_uint_eq(f->policy, old);
        ck_assert_uint_eq(f->end, FLOW_REVOKED);
        ck_assert_uint_ne(f->endpoint, POLICY_NONE);
        ck_assert(name_equal(&f->name, &wild));
        ck_assert_uint_gt(f->packets_out, 0);
        ck_assert_uint_gt(f->duration_usec, 0);
    }
    struct msg_policy *p = rig_expect(&r, &r.recorder, PROTO_POLICY); /* after those records */
    ck_assert_uint_eq(p->policy, r.policy);
    struct msg_event *e = rig_event(&r, EVENT_POLICY);
    ck_assert_uint_eq(e->count, 2);
    ck_assert_uint_eq(e->other, 2);
    ck_assert_uint_eq(e->policy, r.policy);
    struct msg_state *s;
    do s = rig_expect(&r, &r.resolver, PROTO_STATE);
    while (s->epoch == epoch);
    p = rig_expect(&r, &r.resolver, PROTO_POLICY);
    ck_assert_uint_eq(p->policy, r.policy);
    ck_assert_uint_eq(r.m.fd_count, 1);
    REFUSES(&r, REASON_NOT_LISTED, AGENT, WILD, 60, B4);
    rig_end(&r);
}
END_TEST

/* A deny entry ends the name under it, and no sibling. */
START_TEST(reload_denies_a_name) {
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, WILD, 600, A4);
    OPENS(&r, AGENT, "b.w.search.example", 600, B4);
    connect_through(&r, AGENT, A4, 4000, 443);
    connect_through(&r, AGENT, B4, 4001, 443);
    rig_policy(&r, ENDPOINTS, WILD);
    ck_assert(rig_reload(&r, rig_image(&r)));
    ck_assert_uint_eq(rig_elements(&r, 4), 2);
    IN_KERNEL(&r, AGENT, B4, IPPROTO_TCP, 443);
    CUT(&r, AGENT, A4, 4000, 443);
    GOES_ON(&r, AGENT, B4, 4001, 443);
    rig_end(&r);
}
END_TEST

/* Two names on one address: the one that goes does not take the other's opening with it. */
START_TEST(shared_address_survives) {
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, CDN, 300, A4);
    usec_t cdn = clock_now(&clock_system) + 300 * USEC_PER_SEC;
    uint32_t mark = rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.mark;
    struct msg_opened m = OPEN(&r, AGENT, WILD, 900, A4);
    ck_assert_uint_eq(m.count, 2);
    ck_assert_uint_ne(rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.mark, mark);
    /* One that ends earlier is promised its own time and changes nothing that is longer. */
    usec_t shorter = OPEN(&r, AGENT, API, 60, A4).deadline;
    ck_assert_uint_le(shorter, clock_now(&clock_system) + 60 * USEC_PER_SEC);
    ck_assert_uint_gt(rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.remaining_ms, 890000);
    rig_policy(&r, ONLY_API, "");
    ck_assert(rig_reload(&r, rig_image(&r)));
    struct rig_element e = rig_element(&r, AGENT, A4, IPPROTO_TCP, 443);
    ck_assert_uint_eq(e.count, 1);
    ck_assert_uint_eq(e.found.mark, mark);
    ck_assert_uint_le(clock_now(&clock_system) + e.found.remaining_ms * 1000, cdn + 1000000);
    NOT_IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 8443);
    rig_end(&r);
}
END_TEST

/* Address endpoints come and go with the policy, and the flows with them. */
START_TEST(address_endpoints) {
    struct rig r;
    rig_start(&r, "");
    connect_through(&r, AGENT, "93.184.217.5", 4000, 22);
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, "93.184.216.5", 4001, 22, SYN, 1, 0, 0));
    rig_write(&r, "policy/tools/cdn.yaml",
              "tool: cdn\nversion: 1.0.0\nowner: a@example.com\npurpose: content\nendpoints:\n"
              "  - { name: cdn.example.net, protocol: https, data: public }\n"
              "  - { address: 93.184.216.0/24, protocol: tcp, port: 22, data: internal }\n");
    ck_assert(rig_reload(&r, rig_image(&r)));
    CUT(&r, AGENT, "93.184.217.5", 4000, 22);
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, "93.184.217.5", 4002, 22, SYN, 1, 0, 0));
    connect_through(&r, AGENT, "93.184.216.5", 4003, 22);
    rig_end(&r);
}
END_TEST

static int sealed_copy(const uint8_t *bytes, size_t size) {
    int fd = memfd_create("p", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
    return fd;
}

/* Changes one bit so that the image is still well formed: only its digest tells. */
static void forge(uint8_t *bytes, size_t size) {
    struct policy p;
    for (size_t i = POLICY_DIGEST_SIZE; i < size; i++) {
        bytes[i] ^= 1;
        if (policy_open(&p, bytes, size) == 0) return;
        bytes[i] ^= 1;
    }
    ck_abort_msg("every bit is checked: no test of the digest is possible");
}

/* An image that cannot be believed changes nothing. */
START_TEST(bad_images) {
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 600, A4);
    uint64_t policy = r.policy;
    rig_policy(&r, ONLY_WILD, "");
    int good = rig_image(&r);
    struct stat st;
    ck_assert_int_eq(fstat(good, &st), 0);
    uint8_t *bytes = malloc((size_t)st.st_size);
    ck_assert_int_eq(pread(good, bytes, (size_t)st.st_size, 0), st.st_size);
    int open_one = memfd_create("p", MFD_CLOEXEC | MFD_ALLOW_SEALING); /* not sealed */
    ck_assert_int_eq(write(open_one, bytes, (size_t)st.st_size), st.st_size);
    ck_assert(!rig_reload(&r, open_one));
    ck_assert(!rig_reload(&r, sealed_copy(bytes, 0)));
    ck_assert(!rig_reload(&r, sealed_copy(bytes, (size_t)st.st_size - 8)));
    forge(bytes, (size_t)st.st_size);
    ck_assert(!rig_reload(&r, sealed_copy(bytes, (size_t)st.st_size)));
    ck_assert_uint_eq(r.policy, policy);
    ck_assert_uint_eq(r.core.counts.policy_refused, 4);
    IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
    rig_event(&r, EVENT_POLICY_REFUSED);
    ck_assert(rig_reload(&r, good));
    NOT_IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
    free(bytes);
    rig_end(&r);
}
END_TEST

/* control asks, the supervisor loads, control gets the answer with the report. */
START_TEST(reload_by_control) {
    struct rig r;
    rig_start(&r, "");
    for (uint64_t id = 1; id <= CORE_ASKS_MAX + 1; id++) {
        struct msg_ask *ask = proto_begin(&r.m, PROTO_ASK_RELOAD, 0);
        ask->id = id;
        ask->uid = 1000;
        ck_assert_int_eq(channel_send(&r.control, &r.m), 0);
        core_from_control(&r.core);
    }
    /* One more than it remembers is refused at once. */
    struct msg_reloaded *answer = rig_expect(&r, &r.control, PROTO_RELOADED);
    ck_assert_uint_eq(answer->id, CORE_ASKS_MAX + 1);
    ck_assert_uint_eq(answer->ok, 0);
    close(r.m.fds[0]);
    uint64_t load = ((struct msg_load *)rig_expect(&r, &r.supervisor, PROTO_LOAD))->id;
    ck_assert_ptr_null(rig_next(&r, &r.supervisor, PROTO_LOAD)); /* one at a time */
    /* Faults: the report alone. */
    struct msg_loaded *m = proto_begin(&r.m, PROTO_LOADED, 0);
    m->id = load;
    m->faults = 3;
    int report = memfd_create("report", MFD_CLOEXEC);
    ck_assert_int_eq(write(report, "x: bad\n", 7), 7);
    r.m.fds[0] = report;
    r.m.fd_count = 1;
    ck_assert_int_eq(channel_send(&r.supervisor, &r.m), 0);
    core_from_supervisor(&r.core);
    answer = rig_expect(&r, &r.control, PROTO_RELOADED);
    ck_assert_uint_eq(answer->id, 1);
    ck_assert_uint_eq(answer->ok, 0);
    ck_assert_uint_eq(answer->faults, 3);
    char text[8] = "";
    ck_assert_int_eq(pread(r.m.fds[0], text, 7, 0), 7);
    ck_assert_str_eq(text, "x: bad\n");
    /* Those who asked while that load went on get one of their own. */
    uint64_t second = ((struct msg_load *)rig_expect(&r, &r.supervisor, PROTO_LOAD))->id;
    ck_assert_uint_ne(second, load);
    m = proto_begin(&r.m, PROTO_LOADED, 0);
    m->id = second;
    m->ok = 1;
    r.m.fds[0] = rig_image(&r);
    r.m.fds[1] = report;
    r.m.fd_count = 2;
    ck_assert_int_eq(channel_send(&r.supervisor, &r.m), 0);
    core_from_supervisor(&r.core);
    for (uint64_t id = 2; id <= CORE_ASKS_MAX; id++) {
        answer = rig_expect(&r, &r.control, PROTO_RELOADED);
        ck_assert_uint_eq(answer->id, id);
        ck_assert_uint_eq(answer->ok, 1);
        close(r.m.fds[0]);
    }
    ck_assert_uint_eq(rig_event(&r, EVENT_POLICY)->uid, 1000);
    ck_assert_ptr_null(rig_next(&r, &r.supervisor, PROTO_LOAD));
    rig_end(&r);
}
END_TEST

/* ---- restart ------------------------------------------------------------------------------- */

/* c49, c54: a new core takes over what its policy covers, and removes the rest. */
START_TEST(restart_adopts) {
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 600, A4);
    OPENS(&r, AGENT6B, API, 600, A6);
    OPENS(&r, AGENT, WILD, 300, B4);
    OPENS(&r, AGENT, "b.w.search.example", 300, C4);
    connect_through(&r, AGENT, A4, 4000, 443);
    connect_through(&r, AGENT, B4, 4001, 443);
    connect_through(&r, AGENT, C4, 4002, 443);
    uint32_t mark = rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.mark;
    uint64_t epoch = r.core.epoch;
    core_close(&r.core);
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4010, 443, SYN, 1, 0, 0));
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4010, 80, SYN, 1, 0, 0));
    /* Meanwhile: an unknown mark, and a name that is denied when core comes back. */
    RUN("nft", "add", "element", "inet", "tidegate", "open4",
        "{ " AGENT " . 1.1.1.1 . tcp . 443 timeout 1h : 0x3ffc1234 }");
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, "1.1.1.1", 4020, 443, SYN, 1, 0, 0));
    rig_policy(&r, ENDPOINTS, "b.w.search.example");
    while (rig_next(&r, &r.recorder, PROTO_EVENT)) {}
    rig_core(&r);
    ck_assert_uint_ne(r.core.epoch, epoch);
    struct msg_event *e = rig_event(&r, EVENT_START);
    ck_assert_uint_eq(e->count, 4);
    ck_assert_uint_eq(e->other, 3);
    IN_KERNEL(&r, AGENT6B, A6, IPPROTO_TCP, 443);
    struct rig_element a = rig_element(&r, AGENT, A4, IPPROTO_TCP, 443);
    ck_assert_uint_eq(a.count, 1);
    ck_assert_uint_eq(a.found.mark, mark);
    ck_assert_uint_le(a.found.remaining_ms, 600000);
    NOT_IN_KERNEL(&r, AGENT, "1.1.1.1", IPPROTO_TCP, 443);
    NOT_IN_KERNEL(&r, AGENT, C4, IPPROTO_TCP, 443);
    GOES_ON(&r, AGENT, A4, 4000, 443);
    GOES_ON(&r, AGENT, B4, 4001, 443);
    CUT(&r, AGENT, C4, 4002, 443);
    CUT(&r, AGENT, "1.1.1.1", 4020, 443);
    /* What it took over it knows: by name, and it goes with its rule. */
    struct ledger_claim claim;
    struct addr client = lab_addr(AGENT), remote = lab_addr(B4);
    ck_assert(ledger_reverse(r.core.ledger, &client, &remote, clock_now(&clock_system), &claim));
    rig_policy(&r, ONLY_API, "");
    ck_assert(rig_reload(&r, rig_image(&r)));
    CUT(&r, AGENT, B4, 4001, 443);
    ck_assert_uint_eq(rig_elements(&r, 4), 1);
    rig_end(&r);
}
END_TEST

/* Without the table of marks nothing in the kernel can be told apart: all goes. */
static void lose_marks(struct rig *r, bool torn) {
    char path[128];
    snprintf(path, sizeof path, "%s/state/marks", r->dir);
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    if (torn) ck_assert_int_eq(truncate(path, st.st_size - 5), 0);
    else ck_assert_int_eq(unlink(path), 0);
}

START_TEST(lost_marks) {
    struct rig r;
    rig_start(&r, "");
    for (unsigned i = 0; i < 2; i++) {
        OPENS(&r, AGENT, API, 600, A4);
        connect_through(&r, AGENT, A4, (uint16_t)(4000 + i), 443);
        core_close(&r.core);
        lose_marks(&r, i == 0);
        rig_core(&r);
        ck_assert_uint_eq(rig_elements(&r, 4), 0);
        CUT(&r, AGENT, A4, (uint16_t)(4000 + i), 443);
    }
    OPENS(&r, AGENT, API, 600, A4);
    rig_end(&r);
}
END_TEST

/* Flows from before the gateway was there, and of endpoints that have gone since. */
START_TEST(flows_of_before) {
    struct rig r;
    rig_new(&r, "");
    RUN("nft", "add table inet early; add chain inet early c { type filter hook prerouting priority "
               "0; }; add rule inet early c ct state new counter");
    lab_forwarding(true);
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4000, 443, SYN, 100, 0, 0));
    PASSES(r.lab.uplink, r.lab.agent, packet_tcp(A4, AGENT, 443, 4000, SYN | ACK, 200, 101, 0));
    rig_core(&r);
    CUT(&r, AGENT, A4, 4000, 443);
    OPENS(&r, AGENT, API, 600, A4);
    connect_through(&r, AGENT, A4, 4001, 443);
    core_close(&r.core);
    rig_policy(&r, ONLY_WILD, "");
    rig_core(&r);
    ck_assert_uint_eq(rig_elements(&r, 4), 0);
    CUT(&r, AGENT, A4, 4001, 443);
    rig_end(&r);
}
END_TEST

/* c14: a flow that outlived its opening goes with its name, even when core has been restarted. */
START_TEST(name_is_denied_after_a_restart) {
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 1, A4);
    OPENS(&r, AGENT, WILD, 1, B4);
    OPENS(&r, AGENT6B, API, 1, A6);
    connect_through(&r, AGENT, A4, 4000, 443);
    connect_through(&r, AGENT, B4, 4001, 443);
    connect_through(&r, AGENT6B, A6, 4002, 443);
    nap(2300);
    core_close(&r.core);
    rig_core(&r);
    ck_assert_uint_eq(rig_elements(&r, 4), 0);
    GOES_ON(&r, AGENT, A4, 4000, 443);
    rig_policy(&r, ENDPOINTS, API);
    ck_assert(rig_reload(&r, rig_image(&r)));
    CUT(&r, AGENT, A4, 4000, 443);
    CUT(&r, AGENT6B, A6, 4002, 443);
    GOES_ON(&r, AGENT, B4, 4001, 443);
    rig_end(&r);
}
END_TEST

/* ---- other processes ----------------------------------------------------------------------- */

START_TEST(impossible_message) {
    struct rig r;
    rig_start(&r, "");
    struct msg_child *child = proto_begin(&r.m, PROTO_CHILD, 0);
    *child = (struct msg_child){.process = PROCESS_RESOLVER, .pid = 4711, .running = 1};
    ck_assert_int_eq(channel_send(&r.supervisor, &r.m), 0);
    core_from_supervisor(&r.core);
    OPENS(&r, AGENT, API, 60, A4);
    static const char garbage[3000] = "garbage";
    ck_assert_int_eq(send(r.resolver.fd, garbage, sizeof garbage, 0), (ssize_t)sizeof garbage);
    rig_send_open(&r, AGENT, API, 60, (const char *const[]){B4}, 1);
    core_from_resolver(&r.core);
    core_from_resolver(&r.core);
    child = rig_expect(&r, &r.supervisor, PROTO_END_CHILD);
    ck_assert_uint_eq(child->process, PROCESS_RESOLVER);
    ck_assert_uint_eq(child->pid, 4711);
    ck_assert_ptr_null(rig_next(&r, &r.supervisor, PROTO_END_CHILD)); /* once */
    ck_assert_uint_eq(rig_event(&r, EVENT_CHILD_ENDED_BY_CORE)->other, PROCESS_RESOLVER);
    NOT_IN_KERNEL(&r, AGENT, B4, IPPROTO_TCP, 443); /* nothing more is taken from it */
    /* Its successor is served. */
    for (uint32_t running = 0; running < 2; running++) {
        child = proto_begin(&r.m, PROTO_CHILD, 0);
        *child = (struct msg_child){.process = PROCESS_RESOLVER, .pid = 4712, .running = running,
                                    .status = 9, .restarts = 1};
        ck_assert_int_eq(channel_send(&r.supervisor, &r.m), 0);
    }
    core_from_supervisor(&r.core);
    ck_assert_uint_eq(rig_event(&r, EVENT_CHILD_ENDED)->count, 9);
    rig_expect(&r, &r.resolver, PROTO_STATE);
    rig_expect(&r, &r.resolver, PROTO_POLICY);
    core_from_resolver(&r.core);
    IN_KERNEL(&r, AGENT, B4, IPPROTO_TCP, 443);
    /* A type that is not the sender's to send. */
    proto_begin(&r.m, PROTO_STOP, 0);
    ck_assert_int_eq(channel_send(&r.control, &r.m), 0);
    core_from_control(&r.core);
    child = rig_expect(&r, &r.supervisor, PROTO_END_CHILD);
    ck_assert_uint_eq(child->process, PROCESS_CONTROL);
    ck_assert(!r.core.stopping);
    rig_end(&r);
}
END_TEST

/* c57: no record, no opening; and on again by itself. */
START_TEST(log_is_full) {
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 60, A4);
    for (uint32_t ok = 0; ok < 2; ok++) {
        struct msg_log_state *m = proto_begin(&r.m, PROTO_LOG_STATE, 0);
        *m = (struct msg_log_state){.ok = ok, .error = ok ? 0 : ENOSPC};
        ck_assert_int_eq(channel_send(&r.recorder, &r.m), 0);
        core_from_recorder(&r.core);
        struct msg_state *s;
        do s = rig_expect(&r, &r.resolver, PROTO_STATE);
        while (s->log_ok != ok);
        rig_event(&r, ok ? EVENT_LOG_RESUMED : EVENT_LOG_STOPPED);
        if (ok) OPENS(&r, AGENT, API, 60, B4);
        else REFUSES(&r, REASON_LOG_FULL, AGENT, API, 60, B4);
        IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
    }
    rig_end(&r);
}
END_TEST

/* A recorder that does not read costs it records, and core nothing; the loss is told. */
START_TEST(recorder_is_behind) {
    struct rig r;
    rig_start(&r, "");
    int small = 1; /* the least the kernel allows: room for a few messages */
    ck_assert_int_eq(setsockopt(r.ends[2], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    for (unsigned sent = 0; r.core.denied_lost == 0 && sent < 100; sent++) {
        struct packet p = packet_udp(AGENT, A4, (uint16_t)(1024 + sent), 9);
        packet_send(r.lab.agent, &p);
        nap(10);
        record_denied(&r.core);
    }
    nap(300); /* the kernel hands packets over in groups */
    record_denied(&r.core);
    ck_assert_uint_gt(r.core.denied_lost, 0);
    r.core.second = 0;
    core_tick(&r.core); /* the event waits too: the queue is full */
    ck_assert_uint_gt(r.core.event_count, 0);
    OPENS(&r, AGENT, API, 60, A4);
    uint64_t had = 0;
    while (rig_next(&r, &r.recorder, PROTO_DENIED)) had++;
    ck_assert_uint_gt(had, 0);
    core_tick(&r.core);
    struct msg_event *e = rig_event(&r, EVENT_LOST_DENIED);
    ck_assert_uint_gt(e->count, 0);
    ck_assert_uint_eq(e->count + had, r.core.counts.denied_packets);
    ck_assert_uint_eq(r.recorder.missed, 0); /* told once, not as a gap as well */
    rig_end(&r);
}
END_TEST

START_TEST(denied_packets_and_flows_are_told) {
    struct rig r;
    rig_start(&r, "");
    struct packet p = packet_udp(AGENT, A4, 4000, 9);
    packet_send(r.lab.agent, &p);
    nap(300); /* the kernel hands packets over in groups */
    rig_turn(&r);
    struct msg_denied *d = rig_expect(&r, &r.recorder, PROTO_DENIED);
    ck_assert_uint_eq(d->reason, REASON_NO_OPENING);
    ck_assert_str_eq(d->interface_name, "tga0");
    ck_assert_mem_eq(d->bytes + 12, p.bytes + 12, 8);
    OPENS(&r, AGENT, API, 60, A4);
    connect_through(&r, AGENT, A4, 4000, 443);
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4000, 443, RST, 101, 0, 0));
    RUN("conntrack", "-D", "-p", "tcp", "--orig-port-src", "4000");
    rig_turn(&r);
    struct msg_flow *f = rig_expect(&r, &r.recorder, PROTO_FLOW);
    struct name api;
    name_from_text(API, &api);
    ck_assert(name_equal(&f->name, &api));
    ck_assert_uint_eq(f->end, FLOW_ENDED);
    ck_assert_uint_eq(f->client_port, 4000);
    ck_assert_uint_eq(f->remote_port, 443);
    ck_assert_uint_eq(f->packets_out, 3);
    ck_assert_uint_eq(f->packets_in, 1);
    ck_assert_uint_eq(f->policy, r.policy);
    struct addr client = lab_addr(AGENT);
    ck_assert_uint_eq(f->agent, policy_agent_of(&r.core.image.policy, &client));
    ck_assert_uint_eq(flows_count(r.core.flows), 0);
    /* Events that were lost: the tracker is read again. */
    connect_through(&r, AGENT, A4, 4001, 443);
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4002, 443, SYN, 100, 0, 0));
    RUN("conntrack", "-D", "-p", "tcp", "--orig-port-src", "4001");
    reconcile_flows(&r.core);
    ck_assert_uint_eq(flows_count(r.core.flows), 1);
    ck_assert_uint_eq(rig_event(&r, EVENT_LOST_FLOWS)->count, 1);
    rig_end(&r);
}
END_TEST

START_TEST(status_and_openings) {
    struct rig r;
    rig_start(&r, "");
    for (unsigned i = 0; i < 5; i++) {
        char client[32];
        snprintf(client, sizeof client, "10.77.1.%u", 16 + i);
        OPENS(&r, client, WILD, 600, A4);
    }
    struct msg_ask *ask = proto_begin(&r.m, PROTO_ASK_STATUS, 0);
    ask->id = 5;
    ck_assert_int_eq(channel_send(&r.control, &r.m), 0);
    core_from_control(&r.core);
    struct msg_status *s = rig_expect(&r, &r.control, PROTO_STATUS);
    ck_assert_uint_eq(s->id, 5);
    ck_assert_uint_eq(s->policy, r.policy);
    ck_assert_uint_eq(s->ready, 1);
    ck_assert_uint_eq(s->openings, 10);
    ck_assert_uint_eq(s->openings_made, 10);
    ck_assert_uint_eq(s->process[PROCESS_CORE].pid, (uint32_t)getpid());
    /* Pages of three; then by client and address. */
    unsigned listed = 0, pages = 0;
    for (uint64_t cursor = 0;;) {
        ask = proto_begin(&r.m, PROTO_ASK_OPENINGS, 0);
        *ask = (struct msg_ask){.id = 6, .cursor = cursor, .limit = 3};
        ck_assert_int_eq(channel_send(&r.control, &r.m), 0);
        core_from_control(&r.core);
        struct msg_openings *o = rig_expect(&r, &r.control, PROTO_OPENINGS);
        ck_assert_uint_le(r.m.head.items, 3);
        for (unsigned i = 0; i < r.m.head.items; i++) {
            struct msg_opening *item = proto_item(&r.m, i);
            ck_assert_uint_ne(item->agent, POLICY_NONE);
            ck_assert_uint_ne(item->endpoint, POLICY_NONE);
            ck_assert_uint_gt(item->remaining, 0);
            listed++;
        }
        pages++;
        cursor = o->cursor;
        if (cursor == 0) break;
    }
    ck_assert_uint_eq(listed, 10); /* address endpoints are no openings of core's */
    ck_assert_uint_ge(pages, 4);
    ask = proto_begin(&r.m, PROTO_ASK_OPENINGS, 0);
    *ask = (struct msg_ask){.id = 7, .limit = 32, .client = lab_addr("10.77.1.18"),
                            .remote = lab_addr(A4)};
    ck_assert_int_eq(channel_send(&r.control, &r.m), 0);
    core_from_control(&r.core);
    rig_expect(&r, &r.control, PROTO_OPENINGS);
    ck_assert_uint_eq(r.m.head.items, 2);
    ask = proto_begin(&r.m, PROTO_ASK_OPENINGS, 0);
    *ask = (struct msg_ask){.id = 8, .limit = 32, .remote = lab_addr("93.184.217.9")};
    ck_assert_int_eq(channel_send(&r.control, &r.m), 0);
    core_from_control(&r.core);
    rig_expect(&r, &r.control, PROTO_OPENINGS);
    ck_assert_uint_eq(r.m.head.items, 0); /* an address endpoint leads there, no opening */
    /* REVERSE. */
    for (unsigned i = 0; i < 2; i++) {
        struct msg_reverse *ask2 = proto_begin(&r.m, PROTO_REVERSE, 0);
        *ask2 = (struct msg_reverse){.id = i, .client = lab_addr(i ? BUILDER : "10.77.1.18"),
                                     .remote = lab_addr(A4)};
        ck_assert_int_eq(channel_send(&r.resolver, &r.m), 0);
        core_from_resolver(&r.core);
        struct msg_reversed *rev = rig_expect(&r, &r.resolver, PROTO_REVERSED);
        ck_assert_uint_eq(rev->found, !i);
        ck_assert_uint_eq(rev->ttl > 590 && rev->ttl <= 598, !i); /* less grace */
    }
    rig_end(&r);
}
END_TEST

/* With the self-test, as the supervisor starts it; then an orderly stop. */
START_TEST(start_and_stop) {
    struct rig r;
    rig_new(&r, "");
    int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(tun, 0);
    ck_assert_int_eq(rig_try_core(&r, rig_image(&r), tun), 0);
    close(tun);
    struct msg_ready *ready = rig_expect(&r, &r.supervisor, PROTO_READY);
    ck_assert_uint_eq(ready->policy, r.policy);
    rig_event(&r, EVENT_START);
    rig_event(&r, EVENT_SELF_TEST);
    struct msg_state *s = rig_expect(&r, &r.resolver, PROTO_STATE);
    ck_assert_uint_eq(s->epoch, r.core.epoch);
    ck_assert_int_eq(sysctl_forwarding_is_on(), 1);
    core_tick(&r.core);
    ck_assert_uint_eq(r.core.counts.repairs + r.core.counts.drift, 0);
    OPENS(&r, AGENT, API, 60, A4);
    proto_begin(&r.m, PROTO_STOP, 0);
    ck_assert_int_eq(channel_send(&r.supervisor, &r.m), 0);
    core_from_supervisor(&r.core);
    ck_assert(r.core.stopping);
    rig_event(&r, EVENT_STOP);
    rig_expect(&r, &r.supervisor, PROTO_STOPPED);
    core_close(&r.core);
    /* c50: nothing is opened or removed by stopping. */
    PASSES(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4001, 443, SYN, 1, 0, 0));
    DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, A4, 4001, 80, SYN, 1, 0, 0));
    IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
    struct core_image image;
    ck_assert_int_eq(core_image_open(&image, rig_image(&r)), 0);
    ck_assert_int_eq(barrier_verify(&image.policy), 0);
    core_image_close(&image);
    rig_core(&r);
    rig_end(&r);
}
END_TEST

#define TEST(name) {#name, name}
int main(void) {
    const struct lab_test tests[] = {
        TEST(reload_revokes_what_changed), TEST(reload_denies_a_name),
        TEST(shared_address_survives), TEST(address_endpoints), TEST(bad_images),
        TEST(reload_by_control), TEST(restart_adopts), TEST(lost_marks), TEST(flows_of_before),
        TEST(name_is_denied_after_a_restart), TEST(impossible_message), TEST(log_is_full),
        TEST(recorder_is_behind),
        TEST(denied_packets_and_flows_are_told), TEST(status_and_openings), TEST(start_and_stop),
    };
    return lab_main("core_reload", tests, sizeof tests / sizeof *tests);
}
