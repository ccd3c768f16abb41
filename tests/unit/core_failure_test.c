/* core_failure_test.c: openings that the kernel does not take, for every reason there may be: refused,
 * counted, nothing half done, and right again by itself.
 */
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/syscall.h>

#include "tests/unit/core_rig.h"

#define AGENT "10.77.1.17"
#define OTHER "10.77.1.18"
#define API "api.search.example"
#define CDN "cdn.example.net"

/* ---- the kernel's answers ------------------------------------------------------------------ */

/* These take the place of the C library's. Only transactions of nftables are meant, and only those of
 * this process: rulesets are loaded by a helper. */
enum fault {
    FAULT_NONE,
    FAULT_SEND,  /* they cannot be sent */
    FAULT_REPLY, /* the kernel says no */
    FAULT_MUTE,  /* the kernel says nothing */
    FAULT_LOST,  /* the kernel takes them, and its answer is lost */
};
static enum fault fault;
static int fault_error;
static unsigned fault_count;
static uint32_t reply_to; /* 0: no reply of ours is due */
static bool reply_lost;

ssize_t sendto(int fd, const void *bytes, size_t size, int flags, const struct sockaddr *to,
               socklen_t to_size) {
    const struct nlmsghdr *m = bytes;
    bool batch = fault != FAULT_NONE && size >= sizeof *m && to && to->sa_family == AF_NETLINK &&
                 m->nlmsg_type == NFNL_MSG_BATCH_BEGIN;
    fault_count += batch;
    if (batch && fault == FAULT_SEND) {
        errno = fault_error;
        return -1;
    }
    if (batch && fault == FAULT_REPLY) reply_to = m->nlmsg_seq + 1;
    if (batch && fault == FAULT_LOST) reply_lost = true;
    if (batch && fault != FAULT_LOST) return (ssize_t)size;
    return syscall(SYS_sendto, fd, bytes, size, flags, to, to_size);
}

ssize_t recvmsg(int fd, struct msghdr *h, int flags) {
    if (reply_to != 0) {
        struct { struct nlmsghdr head; struct nlmsgerr error; } no = {
            .head = {.nlmsg_len = sizeof no, .nlmsg_type = NLMSG_ERROR, .nlmsg_seq = reply_to},
            .error = {.error = -fault_error}};
        reply_to = 0;
        h->msg_flags = 0;
        memcpy(h->msg_iov->iov_base, &no, sizeof no);
        return sizeof no;
    }
    ssize_t got = syscall(SYS_recvmsg, fd, h, flags);
    if (!reply_lost) return got;
    while (got > 0) got = syscall(SYS_recvmsg, fd, h, flags);
    reply_lost = false;
    errno = ENOBUFS;
    return -1;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void expect_elements(struct rig *r, unsigned four, unsigned six) {
    ck_assert_uint_eq(rig_elements(r, 4), four);
    ck_assert_uint_eq(rig_elements(r, 6), six);
    ck_assert_uint_eq(ledger_openings(r->core.ledger, 4), four);
    ck_assert_uint_eq(ledger_openings(r->core.ledger, 6), six);
}

/* c02, c47: the kernel does not take a transaction: what is asked for is refused, whatever lives stays
 * as it was, and the next time all is well. */
START_TEST(transaction_is_not_taken) {
    static const struct { enum fault fault; int error; uint32_t reason; } rows[] = {
        {FAULT_SEND, EPERM, REASON_OPEN_FAILED},      {FAULT_SEND, ENOMEM, REASON_OPEN_FAILED},
        {FAULT_SEND, ENOBUFS, REASON_OPEN_FAILED},    {FAULT_SEND, EMSGSIZE, REASON_OPEN_FAILED},
        {FAULT_SEND, ECONNREFUSED, REASON_OPEN_FAILED}, {FAULT_SEND, EAGAIN, REASON_OPEN_FAILED},
        {FAULT_REPLY, EBUSY, REASON_OPEN_FAILED},     {FAULT_REPLY, ENOMEM, REASON_OPEN_FAILED},
        {FAULT_REPLY, EPERM, REASON_OPEN_FAILED},     {FAULT_REPLY, EINVAL, REASON_OPEN_FAILED},
        {FAULT_REPLY, EEXIST, REASON_OPEN_FAILED},    {FAULT_REPLY, EOPNOTSUPP, REASON_OPEN_FAILED},
        {FAULT_REPLY, ENOBUFS, REASON_OPEN_FAILED},   {FAULT_REPLY, EINTR, REASON_OPEN_FAILED},
        {FAULT_REPLY, ENOSPC, REASON_OPEN_FAILED},    {FAULT_REPLY, ENFILE, REASON_MAP_FULL},
        {FAULT_MUTE, 0, REASON_OPEN_FAILED},          {FAULT_LOST, 0, REASON_OPEN_FAILED},
    };
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 600, A4);
    OPENS(&r, "fd77:1::17", API, 600, A6);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t refused = r.core.counts.openings_refused, failed = r.core.counts.transactions_failed;
        fault = rows[i].fault;
        fault_error = rows[i].error;
        fault_count = 0;
        /* New ones; one that lives, for longer; both families; several together. */
        REFUSES(&r, rows[i].reason, AGENT, API, 60, B4, C4);
        REFUSES(&r, rows[i].reason, AGENT, API, 900, A4);
        REFUSES(&r, rows[i].reason, "fd77:1::17", API, 60, A6, B6);
        rig_send_open(&r, AGENT, CDN, 60, (const char *const[]){B4}, 1);
        rig_send_open(&r, OTHER, CDN, 60, (const char *const[]){B4}, 1);
        core_from_resolver(&r.core);
        for (int k = 0; k < 2; k++)
            ck_assert_uint_eq(((struct msg_opened *)rig_expect(&r, &r.resolver, PROTO_OPENED))->result,
                              rows[i].reason);
        ck_assert_uint_ge(fault_count, 4);
        fault = FAULT_NONE;
        ck_assert_uint_eq(r.core.counts.openings_refused - refused, 5);
        ck_assert_uint_ge(r.core.counts.transactions_failed - failed, 4);
        ck_assert(elements_dump(r.lab.elements, 4, rig_on_element, &(struct rig_element){0}) >= 1);
        IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
        IN_KERNEL(&r, "fd77:1::17", A6, IPPROTO_TCP, 443);
        /* What the kernel took although it was refused is taken back. */
        rig_turn(&r);
        expect_elements(&r, 1, 1);
        PASSES(r.lab.agent, r.lab.uplink,
               packet_tcp(AGENT, A4, (uint16_t)(4000 + i), 443, SYN, 1, 0, 0));
        DROPPED(r.lab.agent, r.lab.uplink,
                packet_tcp(AGENT, B4, (uint16_t)(4000 + i), 443, SYN, 1, 0, 0));
    }
    ck_assert_uint_le(rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.remaining_ms, 600000);
    OPENS(&r, AGENT, API, 60, B4, C4);
    OPENS(&r, "fd77:1::17", API, 60, B6);
    expect_elements(&r, 3, 2);
    rig_end(&r);
}
END_TEST

/* c02: maps are gone, or are others than they were: refused or opened, never answered without an
 * opening; what was open is open again at the latest with the next turn. */
START_TEST(map_is_not_ours) {
    static const char *const rows[][5] = {
        {"flush table inet tidegate", "delete map inet tidegate open4"},
        {"flush table inet tidegate", "delete map inet tidegate open6"},
        {"flush table inet tidegate", "delete map inet tidegate open4",
         "add map inet tidegate open4 { type ipv4_addr . ipv4_addr : mark; flags timeout; }"},
        {"flush table inet tidegate", "delete map inet tidegate open4",
         "add set inet tidegate open4 { type ipv4_addr; flags timeout; }"},
        {"flush table inet tidegate", "delete map inet tidegate open4",
         "add map inet tidegate open4 { typeof ip saddr . ip daddr . meta l4proto . th dport : "
         "meta mark; flags timeout; size 1; }"},
        {"flush map inet tidegate open4", "flush map inet tidegate open6"},
        {"delete table inet tidegate", "add table inet tidegate"},
        {"add table inet tidegate { flags dormant; }"},
    };
    struct rig r;
    rig_start(&r, "");
    OPENS(&r, AGENT, API, 600, A4);
    OPENS(&r, "fd77:1::17", API, 600, A6);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (unsigned k = 0; rows[i][k]; k++) RUN("nft", rows[i][k]);
        DROPPED(r.lab.agent, r.lab.uplink, packet_tcp(AGENT, C4, 4000, 443, SYN, 1, 0, 0));
        struct msg_opened m = OPEN(&r, AGENT, API, 60, B4);
        if (m.result == REASON_ALLOWED) IN_KERNEL(&r, AGENT, B4, IPPROTO_TCP, 443);
        else ck_assert_str_eq(reason_tag(m.result), reason_tag(REASON_OPEN_FAILED));
        m = OPEN(&r, "fd77:1::17", API, 60, B6);
        if (m.result == REASON_ALLOWED) IN_KERNEL(&r, "fd77:1::17", B6, IPPROTO_TCP, 443);
        rig_turn(&r);
        IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
        IN_KERNEL(&r, "fd77:1::17", A6, IPPROTO_TCP, 443);
        ck_assert_int_eq(ruleset_verify(&r.core.ruleset), 1);
        PASSES(r.lab.agent, r.lab.uplink,
               packet_tcp(AGENT, A4, (uint16_t)(4100 + i), 443, SYN, 1, 0, 0));
        PASSES(r.lab.agent, r.lab.uplink,
               packet_tcp("fd77:1::17", A6, (uint16_t)(4100 + i), 443, SYN, 1, 0, 0));
        DROPPED(r.lab.agent, r.lab.uplink,
                packet_tcp(AGENT, A4, (uint16_t)(4100 + i), 80, SYN, 1, 0, 0));
        OPENS(&r, AGENT, API, 60, B4);
        IN_KERNEL(&r, AGENT, B4, IPPROTO_TCP, 443);
    }
    rig_end(&r);
}
END_TEST

static usec_t wall_offset;

static usec_t jumping(void *ctx) {
    (void)ctx;
    return clock_realtime(&clock_system) + wall_offset;
}

/* c56: the wall clock jumps by years either way: no deadline moves. */
START_TEST(wall_clock_jumps) {
    struct rig r;
    struct clock clock = clock_system;
    clock.realtime = jumping;
    wall_offset = 0;
    rig_start(&r, "");
    r.core.config.clock = &clock;
    OPENS(&r, AGENT, API, 600, A4);
    for (int i = 0; i < 2; i++) {
        wall_offset = (i == 0 ? 1 : -1) * (usec_t)86400 * 400 * USEC_PER_SEC;
        rig_turn(&r);
        IN_KERNEL(&r, AGENT, A4, IPPROTO_TCP, 443);
        ck_assert_uint_gt(rig_element(&r, AGENT, A4, IPPROTO_TCP, 443).found.remaining_ms, 500000);
        struct msg_opened m = OPEN(&r, AGENT, API, 60, i == 0 ? B4 : C4);
        ck_assert_uint_eq(m.result, REASON_ALLOWED);
        usec_t now = clock_now(&clock_system);
        ck_assert(m.deadline > now + 50 * USEC_PER_SEC && m.deadline <= now + 60 * USEC_PER_SEC);
    }
    expect_elements(&r, 3, 0);
    rig_end(&r);
}
END_TEST

#define TEST(name) {#name, name}
int main(void) {
    const struct lab_test tests[] = {
        TEST(transaction_is_not_taken), TEST(map_is_not_ours), TEST(wall_clock_jumps),
    };
    return lab_main("core_failure", tests, sizeof tests / sizeof *tests);
}
