/* shell_test.c: the whole resolver but its main(), on loopback: core, recorder and an upstream are played
 * by the test over the real channels and sockets.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <uv.h>

#include "gateway/policy/load/load.h"
#include "gateway/proto/proto.h"
#include "resolver/shell.h"
#include "tests/unit/dns_message.h"
#include "tests/unit/loopback.h"

#define SECOND 1000
#define FROM_RESOLVER                                                                            \
    (PROTO_BIT(OPEN) | PROTO_BIT(REVERSE) | PROTO_BIT(STATS) | PROTO_BIT(POLICY_USED))

struct fixture {
    uv_loop_t loop;
    struct shell *shell;
    struct channel core, recorder;
    int upstream, client;
    char directory[64];
    struct proto_message m;
};

static const char gateway_yaml[] =
    "agents:\n  - interface: eth1\n    subnets: [10.77.1.0/24]\n"
    "uplink: { interface: eth0 }\n"
    "upstreams:\n  - { address: 127.0.0.1, port: 5300 }\n"
    "log: { directory: /var/log/tidegate }\npolicy: policy\nstate: /var/lib/tidegate\n"
    "runtime: /run/tidegate\n";
static const char agents_yaml[] = "agents:\n  - { agent: a, sources: [10.77.1.16/28], tools: [t] }\n";
static const char tool_yaml[] = "tool: t\nversion: 1.0.0\nowner: o@example.com\npurpose: test\n"
                                "expires: 2099-01-01\nendpoints:\n"
                                "  - { name: %s, protocol: https, data: public }\n";

#define WAIT (20 * SECOND) /* for what must come, on a busy machine too */

static uint64_t now_ms(void) { return clock_now(&clock_system) / 1000; }

static void write_file(const struct fixture *f, const char *path, const char *text) {
    char full[128];
    snprintf(full, sizeof full, "%s/%s", f->directory, path);
    FILE *out = fopen(full, "w");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    fclose(out);
}

/* A sealed image of a policy with one name in it, as core hands it over. */
static int image_fd(struct fixture *f, const char *name, uint64_t *ret_id) {
    char path[128], text[512];
    struct load_result result;
    struct policy policy;
    snprintf(path, sizeof path, "%s/policy", f->directory);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/policy/tools", f->directory);
    mkdir(path, 0700);
    write_file(f, "gateway.yaml", gateway_yaml);
    write_file(f, "policy/agents.yaml", agents_yaml);
    snprintf(text, sizeof text, tool_yaml, name);
    write_file(f, "policy/tools/t.yaml", text);
    snprintf(path, sizeof path, "%s/gateway.yaml", f->directory);
    struct load_source source = {.config = path, .public_suffix_list = "conf/public_suffix_list.dat"};
    ck_assert_int_eq(load_policy(&source, stderr, &result), 0);
    ck_assert_int_eq(policy_open(&policy, result.image, result.size), 0);
    *ret_id = policy_id(&policy);
    int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(write(fd, result.image, result.size), (ssize_t)result.size);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
                     0);
    load_result_free(&result);
    return fd;
}

static int bound(int type, const char *address, uint16_t port) {
    struct addr a;
    struct sockaddr_storage sa;
    int on = 1;
    ck_assert_int_eq(addr_parse(address, &a), 0);
    socklen_t size = addr_to_sockaddr(&a, port, &sa);
    int fd = socket(a.family == 6 ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a.family == 6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, size), 0);
    if (type == SOCK_STREAM)
        ck_assert_int_eq(listen(fd, 8), 0);
    return fd;
}

static void add_address(const char *label, const char *text) {
    struct ifreq request = {0};
    struct addr a;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", label);
    ck_assert_int_eq(addr_parse(text, &a), 0);
    struct sockaddr_storage sa;
    addr_to_sockaddr(&a, 0, &sa);
    memcpy(&request.ifr_addr, &sa, sizeof request.ifr_addr);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    ck_assert_int_eq(ioctl(fd, SIOCSIFADDR, &request), 0);
    close(fd);
}

static struct fixture *start(void) {
    struct fixture *f = calloc(1, sizeof *f);
    int core[2], recorder[2];
    uint64_t id;
    snprintf(f->directory, sizeof f->directory, "/tmp/tidegate-shell-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(f->directory));
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, core), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, recorder), 0);
    f->core.fd = core[0];
    f->recorder.fd = recorder[0];
    struct shell_fds fds = {
        .core = core[1],
        .recorder = recorder[1],
        .image = image_fd(f, "api.example.com", &id),
        .sockets = {.udp = {bound(SOCK_DGRAM, "0.0.0.0", 53), bound(SOCK_DGRAM, "::", 53)},
                    .tcp = {bound(SOCK_STREAM, "0.0.0.0", 53), bound(SOCK_STREAM, "::", 53)}}};
    f->upstream = bound(SOCK_DGRAM, "127.0.0.1", 5300);
    add_address("lo:1", "10.77.1.1");
    add_address("lo:2", "10.77.1.17");
    f->client = bound(SOCK_DGRAM, "10.77.1.17", 4000);
    struct addr gateway;
    struct sockaddr_storage sa;
    addr_parse("10.77.1.1", &gateway);
    socklen_t size = addr_to_sockaddr(&gateway, 53, &sa);
    ck_assert_int_eq(connect(f->client, (struct sockaddr *)&sa, size), 0);
    uv_loop_init(&f->loop);
    f->shell = shell_new(&f->loop, &clock_system, &fds);
    ck_assert_ptr_nonnull(f->shell);
    return f;
}

static void stop(struct fixture *f) {
    char path[128];
    static const char *const files[] = {"policy/tools/t.yaml", "policy/tools", "policy/agents.yaml",
                                        "policy", "gateway.yaml", ""};
    shell_close(f->shell);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&f->loop), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", f->directory, files[i]);
        remove(path);
    }
    close(f->core.fd);
    close(f->recorder.fd);
    close(f->upstream);
    close(f->client);
    free(f);
}

/* Runs the loop until the channel has a message of this type; others are passed over. */
static void *await(struct fixture *f, struct channel *c, uint64_t accept, uint32_t type) {
    uint64_t end = now_ms() + WAIT;
    while (now_ms() < end) {
        int r = channel_receive(c, &f->m, accept);
        ck_assert_int_ge(r, 0);
        if (r == 1 && f->m.head.type == type)
            return proto_body(&f->m);
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(300);
    }
    ck_abort_msg("no message of type %u", type);
    return NULL;
}

static void ask(struct fixture *f, unsigned id, const char *name) {
    static struct message m;
    put_header(&m, id, 0x0100, 1, 0, 0, 1);
    put_question(&m, name, 1, 1);
    put_opt(&m, 1232, 0, "", 0);
    ck_assert_int_eq(send(f->client, m.bytes, m.size, 0), (int)m.size);
}

static void answer_upstream(struct fixture *f) {
    static struct message m;
    uint8_t q[512];
    struct sockaddr_storage peer;
    socklen_t size;
    ssize_t got = -1;
    for (uint64_t end = now_ms() + WAIT; got < 0 && now_ms() < end;) {
        size = sizeof peer;
        uv_run(&f->loop, UV_RUN_NOWAIT);
        got = recvfrom(f->upstream, q, sizeof q, 0, (struct sockaddr *)&peer, &size);
    }
    ck_assert_int_gt(got, 0);
    put_header(&m, (unsigned)q[0] << 8 | q[1], 0x8180, 1, 1, 0, 0);
    put(&m, q + 12, (size_t)got - 12 - 11);
    put_pointer(&m, 12);
    size_t at = rdata_begin(&m, 1, 1, 60);
    put(&m, "\x05\x05\x05\x05", 4);
    rdata_end(&m, at);
    ck_assert_int_eq(sendto(f->upstream, m.bytes, m.size, 0, (struct sockaddr *)&peer, size),
                     (int)m.size);
}

/* Octets of the reply, 0 if none comes within `ms`. */
static size_t reply_within(struct fixture *f, uint8_t *bytes, size_t size, unsigned ms) {
    uint64_t end = now_ms() + ms;
    do {
        ssize_t got = recv(f->client, bytes, size, 0);
        if (got > 0)
            return (size_t)got;
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(300);
    } while (now_ms() < end);
    return 0;
}

static void open_ok(struct fixture *f, const struct msg_open *open) {
    uint64_t id = open->id;
    *(struct msg_opened *)proto_begin(&f->m, PROTO_OPENED, 0) =
        (struct msg_opened){.id = id, .epoch = 1, .result = REASON_ALLOWED, .count = 1,
                            .deadline = clock_now(&clock_system) + 76 * USEC_PER_SEC};
    ck_assert_int_eq(channel_send(&f->core, &f->m), 0);
}

static void expect_reply(struct fixture *f, unsigned id, unsigned rcode, unsigned answers) {
    uint8_t bytes[1500];
    ck_assert_uint_gt(reply_within(f, bytes, sizeof bytes, WAIT), 12);
    ck_assert_uint_eq((unsigned)bytes[0] << 8 | bytes[1], id);
    ck_assert_uint_eq(bytes[3] & 15u, rcode);
    ck_assert_uint_eq(bytes[7], answers);
}

START_TEST(whole_way_of_a_query) {
    if (!loopback_enter("whole_way_of_a_query"))
        return;
    struct fixture *f = start();
    uint8_t bytes[1500];
    ask(f, 1, "API.example.com");
    answer_upstream(f);
    struct msg_open open = *(struct msg_open *)await(f, &f->core, FROM_RESOLVER, PROTO_OPEN);
    ck_assert_uint_eq(open.client.bytes[3], 17);
    ck_assert_uint_eq(reply_within(f, bytes, sizeof bytes, 100), 0); /* not before core has said so */
    ck_assert_int_eq(channel_receive(&f->recorder, &f->m, PROTO_BIT(QUERY)), 0);
    ask(f, 2, "www.example.org"); /* nobody else waits for it */
    expect_reply(f, 2, RC_NXDOMAIN, 0);
    open_ok(f, &open);
    expect_reply(f, 1, RC_NOERROR, 1);
    stop(f);
}
END_TEST

START_TEST(record_then_reply) {
    if (!loopback_enter("record_then_reply"))
        return;
    struct fixture *f = start();
    ask(f, 1, "api.example.com");
    answer_upstream(f);
    open_ok(f, await(f, &f->core, FROM_RESOLVER, PROTO_OPEN));
    expect_reply(f, 1, RC_NOERROR, 1);
    /* The record was there before the reply was: no loop has run since. */
    ck_assert_int_eq(channel_receive(&f->recorder, &f->m, PROTO_BIT(QUERY)), 1);
    const struct msg_query *r = proto_body(&f->m);
    ck_assert_uint_eq(r->reason, REASON_ALLOWED);
    ck_assert_uint_eq(r->client_port, 4000);
    ck_assert_uint_eq(r->opened, 1);
    const struct msg_stats *stats = await(f, &f->core, FROM_RESOLVER, PROTO_STATS);
    ck_assert_uint_eq(stats->queries, 1);
    ck_assert_uint_eq(stats->upstream_queries, 1);
    stop(f);
}
END_TEST

/* The recorder does not read: once its queue is full nothing but SERVFAIL leaves. */
START_TEST(c57_recorder_is_behind) {
    if (!loopback_enter("c57_recorder_is_behind"))
        return;
    struct fixture *f = start();
    uint8_t bytes[1500];
    unsigned rcode = RC_NXDOMAIN, n = 0;
    while (rcode == RC_NXDOMAIN && ++n < 5000) {
        ask(f, n, "www.example.org");
        ck_assert_uint_gt(reply_within(f, bytes, sizeof bytes, WAIT), 12);
        rcode = bytes[3] & 15;
        usleep(2100); /* within the rate */
    }
    ck_assert_uint_eq(rcode, RC_SERVFAIL);
    while (channel_receive(&f->recorder, &f->m, PROTO_BIT(QUERY)) == 1)
        n--;
    ck_assert_uint_eq(n, 1); /* all others are there */
    ask(f, 1, "www.example.org");
    expect_reply(f, 1, RC_NXDOMAIN, 0);
    stop(f);
}
END_TEST

START_TEST(policy_is_swapped) {
    if (!loopback_enter("policy_is_swapped"))
        return;
    struct fixture *f = start();
    uint64_t id;
    int fd = image_fd(f, "other.example.com", &id);
    struct msg_policy *policy = proto_begin(&f->m, PROTO_POLICY, 0);
    policy->policy = id;
    f->m.fds[0] = fd;
    f->m.fd_count = 1;
    ck_assert_int_eq(channel_send(&f->core, &f->m), 0);
    close(fd);
    const struct msg_policy *used = await(f, &f->core, FROM_RESOLVER, PROTO_POLICY_USED);
    ck_assert_uint_eq(used->policy, id);
    ask(f, 1, "api.example.com");
    expect_reply(f, 1, RC_NXDOMAIN, 0);
    ask(f, 2, "other.example.com");
    answer_upstream(f);
    const struct msg_open *open = await(f, &f->core, FROM_RESOLVER, PROTO_OPEN);
    ck_assert_uint_eq(open->policy, id);
    open_ok(f, open);
    expect_reply(f, 2, RC_NOERROR, 1);
    stop(f);
}
END_TEST

/* What core must not send ends the process; so does an image that could still change. */
static void fails_on(int how) {
    struct fixture *f = start();
    uint64_t id;
    int fd = image_fd(f, "other.example.com", &id);
    if (how == 0) {
        ck_assert_int_eq(send(f->core.fd, "nonsense", 8, 0), 8);
    } else {
        struct msg_policy *policy = proto_begin(&f->m, PROTO_POLICY, 0);
        policy->policy = how == 1 ? id + 1 : id;
        if (how == 2) { /* not sealed */
            close(fd);
            fd = memfd_create("image", MFD_CLOEXEC);
            ck_assert_int_eq(ftruncate(fd, 4096), 0);
        }
        f->m.fds[0] = fd;
        f->m.fd_count = 1;
        ck_assert_int_eq(channel_send(&f->core, &f->m), 0);
    }
    close(fd);
    for (uint64_t end = now_ms() + WAIT; !shell_failed(f->shell) && now_ms() < end;)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    ck_assert_int_ne(shell_failed(f->shell), 0);
    stop(f);
}

START_TEST(bad_messages_end_it) {
    if (loopback_enter("bad_messages_end_it"))
        fails_on(_i);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("shell");
    TCase *all = tcase_create("loopback");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, whole_way_of_a_query);
    tcase_add_test(all, record_then_reply);
    tcase_add_test(all, c57_recorder_is_behind);
    tcase_add_test(all, policy_is_swapped);
    tcase_add_loop_test(all, bad_messages_end_it, 0, 3);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
