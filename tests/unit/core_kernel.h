/* core_kernel.h: a gateway's kernel for tests: a fresh network namespace in which TUN devices stand
 * for the agents' and the uplink's side, and packets made octet by octet. */
#ifndef TESTS_UNIT_CORE_KERNEL_H
#define TESTS_UNIT_CORE_KERNEL_H

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/base/clock.h"
#include "gateway/core/barrier.h"
#include "gateway/core/conntrack.h"
#include "gateway/core/denied.h"
#include "gateway/core/elements.h"
#include "gateway/core/ruleset.h"
#include "gateway/core/selftest.h"
#include "gateway/core/sysctl.h"
#include "gateway/core/uplink.h"
#include "gateway/policy/image.h"

/*   agent 10.77.1.16, fd77:1::16 --- tga0 [gateway .1] tgu0 --- 203.0.113.7, 2001:db8:7::7
 *   agent 10.77.2.16             --- tgb0                       upstream 198.51.100.53
 *   management 192.0.2.0/24      --- tgm0
 */
#define AGENT4 "10.77.1.16"
#define AGENT6 "fd77:1::16"
#define OTHER4 "10.77.2.16"
#define REMOTE4 "203.0.113.7"
#define REMOTE6 "2001:db8:7::7"
#define GATEWAY4 "10.77.1.1"
#define GATEWAY6 "fd77:1::1"
#define RESOLVER_UID 64001

struct lab {
    int agent, other, uplink, management; /* TUN descriptors */
    struct elements *elements;
    struct conntrack *conntrack;
    struct ruleset ruleset;
    struct ruleset_config config;
    struct policy policy;
};

/* ---- policy ------------------------------------------------------------------------------ */

#define STATICS_MAX 4
struct lab_image {
    struct image_header header;
    struct prefix subnets[5];
    struct policy_static statics[STATICS_MAX];
};

static inline struct addr lab_addr(const char *text) {
    struct addr a;
    ck_assert_int_eq(addr_parse(text, &a), 0);
    return a;
}

static inline struct prefix lab_prefix(const char *text) {
    struct prefix p;
    ck_assert_int_eq(prefix_parse(text, &p), 0);
    return p;
}

static struct lab_image lab_image;

static inline void lab_static(uint32_t i, const char *source, const char *remote, uint8_t protocol,
                              uint16_t first, uint16_t last) {
    lab_image.statics[i] = (struct policy_static){
        .source = lab_prefix(source), .remote = lab_prefix(remote), .protocol = protocol,
        .port_first = first, .port_last = last};
}

/* The parts of an image that the ruleset looks at. */
static inline void lab_policy(struct policy *ret) {
    struct image_header *h = &lab_image.header;
    struct policy_gateway *g = &h->gateway;
    memset(&lab_image, 0, sizeof lab_image);
    lab_image.subnets[0] = lab_prefix("10.77.1.0/24");
    lab_image.subnets[1] = lab_prefix("fd77:1::/64");
    lab_image.subnets[2] = lab_prefix("10.77.2.0/24");
    lab_image.subnets[3] = lab_prefix("fd77:2::/64");
    lab_image.subnets[4] = lab_prefix("192.0.2.0/24");
    lab_static(0, "10.77.1.0/24", "203.0.113.128/25", IPPROTO_TCP, 1000, 1999);
    lab_static(1, "10.77.1.0/28", "203.0.113.7/32", IPPROTO_TCP, 22, 22);
    lab_static(2, "fd77:1::/64", "2001:db8:8::/48", IPPROTO_UDP, 500, 600);
    h->spans[IMAGE_SUBNET] = (struct image_span){offsetof(struct lab_image, subnets), 5};
    h->spans[IMAGE_STATIC] = (struct image_span){offsetof(struct lab_image, statics), 3};
    g->agent_interfaces = 2;
    snprintf(g->agents[0].interface, sizeof g->agents[0].interface, "tga0");
    g->agents[0].subnet_count = 2;
    snprintf(g->agents[1].interface, sizeof g->agents[1].interface, "tgb0");
    g->agents[1].subnet_first = 2;
    g->agents[1].subnet_count = 2;
    snprintf(g->uplink, sizeof g->uplink, "tgu0");
    snprintf(g->management, sizeof g->management, "tgm0");
    g->management_subnet_first = 4;
    g->management_subnet_count = 1;
    g->upstream_count = 2;
    g->upstreams[0].address = lab_addr("198.51.100.53");
    g->upstreams[0].port = 53;
    g->upstreams[1].address = lab_addr("2001:db8:53::53");
    g->upstreams[1].port = 853;
    snprintf(g->upstreams[1].tls_name, sizeof g->upstreams[1].tls_name, "dns.example");
    *ret = (struct policy){.base = (const uint8_t *)&lab_image, .size = sizeof lab_image,
                           .header = &lab_image.header};
}

static inline uint32_t lab_static_mark(void *ctx, uint32_t index) {
    (void)ctx;
    return 0x40000u + index + 1;
}

/* ---- the namespace ----------------------------------------------------------------------- */

static inline void lab_command(const char *const *words) {
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        execvp(words[0], (char *const *)words);
        _exit(127);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s %s %s failed", words[0],
                  words[1], words[2]);
}
#define RUN(...) lab_command((const char *const[]){__VA_ARGS__, NULL})

static inline int lab_tun(const char *name) {
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "/dev/net/tun: %s", strerror(errno));
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    ck_assert_int_eq(ioctl(fd, TUNSETIFF, &request), 0);
    RUN("ip", "link", "set", name, "up");
    return fd;
}

static inline void lab_forwarding(bool on) {
    ck_assert_int_eq(sysctl_forwarding(on), 0);
}

/* A namespace without a ruleset, forwarding on: everything passes. */
static inline void lab_network(struct lab *l) {
    *l = (struct lab){0};
    ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
    RUN("ip", "link", "set", "lo", "up");
    l->agent = lab_tun("tga0");
    l->other = lab_tun("tgb0");
    l->uplink = lab_tun("tgu0");
    l->management = lab_tun("tgm0");
    RUN("ip", "addr", "add", GATEWAY4 "/24", "dev", "tga0");
    RUN("ip", "addr", "add", GATEWAY6 "/64", "dev", "tga0", "nodad");
    RUN("ip", "addr", "add", "10.77.2.1/24", "dev", "tgb0");
    RUN("ip", "addr", "add", "fd77:2::1/64", "dev", "tgb0", "nodad");
    RUN("ip", "addr", "add", "198.51.100.1/24", "dev", "tgu0");
    RUN("ip", "addr", "add", "2001:db8::1/64", "dev", "tgu0", "nodad");
    RUN("ip", "addr", "add", "192.0.2.1/24", "dev", "tgm0");
    RUN("ip", "route", "add", "default", "dev", "tgu0");
    RUN("ip", "-6", "route", "add", "default", "dev", "tgu0");
    lab_policy(&l->policy);
    l->config = (struct ruleset_config){.policy = &l->policy, .static_mark = lab_static_mark,
                                        .resolver = RESOLVER_UID};
    ck_assert_int_eq(elements_open(&l->elements), 0);
    ck_assert_int_eq(conntrack_open(&l->conntrack), 0);
    ck_assert_int_eq(ruleset_open(&l->ruleset), 0);
}

static inline int lab_load(struct lab *l, bool rebuild) {
    char error[RULESET_ERROR_MAX];
    int result = ruleset_load(&l->ruleset, &l->config, rebuild, error);
    ck_assert_msg(result >= 0, "load: %d %s", result, error);
    return result;
}

/* As core leaves it at READY. */
static inline void lab_start(struct lab *l) {
    const char *name = "";
    lab_network(l);
    lab_load(l, false);
    ck_assert_int_ge(barrier_install(&l->policy), 0);
    int error = sysctl_prepare(&l->policy, &name);
    ck_assert_msg(error == 0, "sysctl %s: %s", name, strerror(-error));
    lab_forwarding(true);
}

static inline void lab_stop(struct lab *l) {
    elements_close(l->elements);
    conntrack_close(l->conntrack);
    ruleset_close(&l->ruleset);
    close(l->agent);
    close(l->other);
    close(l->uplink);
    close(l->management);
}

/* ---- openings ---------------------------------------------------------------------------- */

static inline struct element_change lab_change(enum element_op op, const char *client,
                                               const char *remote, uint8_t protocol,
                                               uint16_t port, uint64_t timeout_ms) {
    return (struct element_change){
        .op = op, .mark = 0x40007, .timeout_ms = timeout_ms,
        .key = {.client = lab_addr(client), .remote = lab_addr(remote), .port = port,
                .protocol = protocol}};
}

static inline int lab_commit(struct lab *l, const struct element_change *change) {
    elements_begin(l->elements);
    int request = elements_request(l->elements);
    ck_assert_int_ge(request, 0);
    ck_assert_int_eq(elements_put(l->elements, change), 0);
    ck_assert_int_ge(elements_commit(l->elements), 0);
    return elements_result(l->elements, (unsigned)request);
}

static inline void lab_open(struct lab *l, const char *client, const char *remote,
                            uint8_t protocol, uint16_t port) {
    struct element_change c = lab_change(ELEMENT_ADD, client, remote, protocol, port, 60000);
    ck_assert_int_eq(lab_commit(l, &c), 0);
}

/* ---- what the maps hold ------------------------------------------------------------------ */

struct seen {
    unsigned count;
    struct element last;
};

static inline int see(void *ctx, const struct element *element) {
    struct seen *s = ctx;
    s->count++;
    s->last = *element;
    return 0;
}

static inline struct seen dumped(struct lab *l, int family) {
    struct seen s = {0};
    ck_assert_int_eq(elements_dump(l->elements, family, see, &s), (int)s.count);
    return s;
}

/* ---- packets ----------------------------------------------------------------------------- */

struct packet {
    uint8_t bytes[1600];
    size_t size, head; /* head: where the transport header begins */
};

static inline void put16(uint8_t *at, unsigned value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline uint32_t sum16(const uint8_t *bytes, size_t size, uint32_t sum) {
    for (size_t i = 0; i < size; i++) sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
    return sum;
}

static inline uint16_t fold16(uint32_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

/* An IP packet with `size` octets of payload of protocol `protocol`. */
static inline struct packet packet_ip(const char *source, const char *remote, uint8_t protocol,
                                      const void *payload, size_t size) {
    struct addr from = lab_addr(source), to = lab_addr(remote);
    struct packet p = {.head = from.family == 4 ? 20 : 40};
    p.size = p.head + size;
    ck_assert_uint_le(p.size, sizeof p.bytes);
    if (from.family == 4) {
        p.bytes[0] = 0x45;
        put16(p.bytes + 2, (unsigned)p.size);
        p.bytes[8] = 64;
        p.bytes[9] = protocol;
        memcpy(p.bytes + 12, from.bytes, 4);
        memcpy(p.bytes + 16, to.bytes, 4);
        put16(p.bytes + 10, fold16(sum16(p.bytes, 20, 0)));
    } else {
        p.bytes[0] = 0x60;
        put16(p.bytes + 4, (unsigned)size);
        p.bytes[6] = protocol;
        p.bytes[7] = 64;
        memcpy(p.bytes + 8, from.bytes, 16);
        memcpy(p.bytes + 24, to.bytes, 16);
    }
    if (size > 0) memcpy(p.bytes + p.head, payload, size);
    return p;
}

/* Puts the transport checksum at `offset` of the transport header, with the pseudo header. */
static inline void packet_sum(struct packet *p, uint8_t protocol, size_t offset) {
    size_t size = p->size - p->head, addresses = p->head == 20 ? 12 : 8;
    put16(p->bytes + p->head + offset, 0);
    uint32_t sum = sum16(p->bytes + addresses, p->head - addresses, (uint32_t)size + protocol);
    put16(p->bytes + p->head + offset, fold16(sum16(p->bytes + p->head, size, sum)));
}

static inline struct packet packet_udp(const char *source, const char *remote, uint16_t from,
                                       uint16_t to) {
    uint8_t udp[20] = {0};
    put16(udp, from);
    put16(udp + 2, to);
    put16(udp + 4, sizeof udp);
    memcpy(udp + 8, "payload here", 12);
    struct packet p = packet_ip(source, remote, IPPROTO_UDP, udp, sizeof udp);
    packet_sum(&p, IPPROTO_UDP, 6);
    return p;
}

enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };
static inline struct packet packet_tcp(const char *source, const char *remote, uint16_t from,
                                       uint16_t to, unsigned flags, uint32_t sequence,
                                       uint32_t acknowledged, size_t data) {
    uint8_t tcp[20 + 64] = {0};
    uint32_t words[2] = {htonl(sequence), htonl(acknowledged)};
    put16(tcp, from);
    put16(tcp + 2, to);
    memcpy(tcp + 4, words, 8);
    tcp[12] = 5 << 4;
    tcp[13] = (uint8_t)flags;
    put16(tcp + 14, 65000);
    struct packet p = packet_ip(source, remote, IPPROTO_TCP, tcp, 20 + data);
    packet_sum(&p, IPPROTO_TCP, 16);
    return p;
}

/* An ICMP or ICMPv6 message; `body` follows the 4 octets of type, code, checksum. */
static inline struct packet packet_icmp(const char *source, const char *remote, uint8_t type,
                                        uint8_t code, const void *body, size_t size) {
    uint8_t icmp[1300] = {type, code};
    bool four = lab_addr(source).family == 4;
    memcpy(icmp + 4, body, size);
    struct packet p = packet_ip(source, remote, four ? IPPROTO_ICMP : IPPROTO_ICMPV6, icmp,
                                4 + size);
    if (four) put16(p.bytes + p.head + 2, fold16(sum16(p.bytes + p.head, 4 + size, 0)));
    else packet_sum(&p, IPPROTO_ICMPV6, 2);
    return p;
}

static inline void packet_send(int fd, const struct packet *p) {
    ck_assert_int_eq(write(fd, p->bytes, p->size), (ssize_t)p->size);
}

/* Whether `got` is `p` after one hop: hop limit and IPv4 checksum aside. */
static inline bool packet_same(const struct packet *p, const uint8_t *got, size_t size) {
    if (size != p->size) return false;
    for (size_t i = 0; i < size; i++) {
        bool hop = p->head == 20 ? i == 8 || i == 10 || i == 11 : i == 7;
        if (!hop && got[i] != p->bytes[i]) return false;
    }
    return true;
}

/* The next packet that comes out of a TUN within `wait` ms; 0: none. */
static inline size_t packet_read(int fd, uint8_t *bytes, size_t size, int wait) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    ssize_t got = read(fd, bytes, size);
    if (got < 0 && poll(&ready, 1, wait) == 1) got = read(fd, bytes, size);
    return got > 0 ? (size_t)got : 0;
}

#define LONG_WAIT 20000 /* for what must come, on a busy machine too */
#define SHORT_WAIT 40 /* forwarding happens within write(): ample */

/* Whether the packet put in at `from` comes out at `to`. */
static inline bool packet_passes(int from, int to, const struct packet *p, int wait) {
    uint8_t bytes[2048];
    size_t size;
    while (packet_read(to, bytes, sizeof bytes, 0) > 0) {}
    packet_send(from, p);
    while ((size = packet_read(to, bytes, sizeof bytes, wait)) > 0)
        if (packet_same(p, bytes, size)) return true;
    return false;
}

#define PASSES(from, to, p)                                                                        \
    do {                                                                                           \
        struct packet packet_ = (p);                                                               \
        ck_assert_msg(packet_passes(from, to, &packet_, LONG_WAIT), "did not pass: %s", #p);       \
    } while (0)
#define DROPPED(from, to, p)                                                                       \
    do {                                                                                           \
        struct packet packet_ = (p);                                                               \
        ck_assert_msg(!packet_passes(from, to, &packet_, SHORT_WAIT), "passed: %s", #p);           \
    } while (0)

static inline void nap(long ms) {
    ck_assert_int_ge(poll(NULL, 0, (int)ms), 0);
}

/* ---- running ----------------------------------------------------------------------------- */

/* Whether tests can have network namespaces and TUN devices here. */
static inline bool lab_possible(void) {
    pid_t child = fork();
    int status = 1;
    if (child == 0) {
        int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
        _exit(fd >= 0 && unshare(CLONE_NEWNET) == 0 ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

struct lab_test { const char *name; const TTest *test; };

/* Runs the suite; where that is not possible each test is skipped by name, which is a failure when
 * the environment has TESTS_NO_SKIP. Returns main()'s value. */
static inline int lab_main(const char *name, const struct lab_test *tests, size_t count) {
    if (!lab_possible()) {
        for (size_t i = 0; i < count; i++)
            printf("skipped: %s: needs root and /dev/net/tun\n", tests[i].name);
        printf("0 passed, 0 failed, %zu skipped\n", count);
        return getenv("TESTS_NO_SKIP") ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 180);
    for (size_t i = 0; i < count; i++) tcase_add_test(tcase, tests[i].test);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
