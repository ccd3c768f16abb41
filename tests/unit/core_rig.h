/* core_rig.h: a whole core in a network namespace of its own, with the test at the other end of its
 * channels. Policies are loaded from YAML. */
#ifndef TESTS_UNIT_CORE_RIG_H
#define TESTS_UNIT_CORE_RIG_H

#include <ftw.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "gateway/core/core.h"
#include "gateway/policy/load/load.h"
#include "tests/unit/core_kernel.h"

#define MAP_SIZE 512u
/* Public addresses; nothing leaves the namespace. */
#define A4 "93.184.216.34"
#define B4 "93.184.216.35"
#define C4 "93.184.216.36"
#define A6 "2606:2800:220:1::1"
#define B6 "2606:2800:220:1::2"

struct rig {
    struct lab lab;
    struct core core;
    struct channel supervisor, resolver, recorder, control; /* the test's ends */
    int ends[4];                                            /* core's, kept over its restarts */
    struct proto_message m;
    char dir[64];
    int state;
    uint64_t policy;
    uint64_t sequence;
};

static inline void rig_write(const struct rig *r, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static inline void rig_gateway(const struct rig *r, const char *limits) {
    char text[2048];
    snprintf(text, sizeof text,
             "agents:\n"
             "  - { interface: tga0, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
             "  - { interface: tgb0, subnets: [10.77.2.0/24, \"fd77:2::/64\"] }\n"
             "uplink: { interface: tgu0, masquerade: false, ipv6: yes }\n"
             "upstreams: [ { address: 198.51.100.53 } ]\n"
             "dns: { min_lifetime: 5s, max_lifetime: 1h, grace: 2s }\n"
             "log: { directory: %s/log }\n"
             "policy: %s/policy\nstate: %s/state\nruntime: %s/run\n%s\n",
             r->dir, r->dir, r->dir, r->dir, limits);
    rig_write(r, "gateway.yaml", text);
}

/* Two agents, the second with IPv6 too wide to list; `deny` and web-search's endpoints vary. */
static inline void rig_policy(const struct rig *r, const char *endpoints, const char *deny) {
    char text[2048];
    snprintf(text, sizeof text,
             "agents:\n"
             "  - { agent: research, sources: [10.77.1.16/28, \"fd77:1::10/124\"], tools: "
             "[web-search, cdn] }\n"
             "  - { agent: builder, sources: [10.77.2.16/28, \"fd77:2::/64\"], tools: [git] }\n"
             "deny: [%s]\n",
             deny);
    rig_write(r, "policy/agents.yaml", text);
    snprintf(text, sizeof text,
             "tool: web-search\nversion: 1.4.2\nowner: a@example.com\npurpose: search\n"
             "endpoints:\n%s",
             endpoints);
    rig_write(r, "policy/tools/web-search.yaml", text);
}

#define ENDPOINTS                                                                                 \
    "  - { name: api.search.example, protocol: https, data: public }\n"                           \
    "  - { name: \"*.w.search.example\", protocol: tcp, port: [443, 8443], data: public }\n"

/* Loads the files: a sealed image as the supervisor hands it over. */
static inline int rig_image(const struct rig *r) {
    char path[256];
    struct load_result image;
    snprintf(path, sizeof path, "%s/gateway.yaml", r->dir);
    const struct load_source source = {.config = path,
                                       .public_suffix_list = "conf/public_suffix_list.dat"};
    ck_assert_int_eq(load_policy(&source, stderr, &image), 0);
    int fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(write(fd, image.image, image.size), (ssize_t)image.size);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
    load_result_free(&image);
    return fd;
}

/* ---- core ---------------------------------------------------------------------------------- */

static inline int rig_try_core(struct rig *r, int image, int tun) {
    const struct core_config config = {
        .clock = &clock_system, .resolver = RESOLVER_UID, .map_size = MAP_SIZE, .flows_max = 1000,
        .supervisor = r->ends[0], .resolver_channel = r->ends[1], .recorder = r->ends[2],
        .control = r->ends[3], .image = image, .state = r->state, .tun = tun};
    int result = core_open(&r->core, &config);
    if (result == 0) result = core_start(&r->core);
    r->policy = r->core.image.id;
    return result;
}

static inline void rig_core(struct rig *r) {
    ck_assert_int_eq(rig_try_core(r, rig_image(r), -1), 0);
}

/* Namespace, files, channels, and a core that has started. */
static inline void rig_files(struct rig *r, const char *limits) {
    static const char *const folders[] = {"policy", "policy/tools", "log", "state", "run"};
    snprintf(r->dir, sizeof r->dir, "/tmp/core-rig-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(r->dir));
    for (unsigned i = 0; i < 5; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", r->dir, folders[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
        if (i == 3) r->state = open(path, O_PATH | O_CLOEXEC);
    }
    rig_gateway(r, limits);
    rig_policy(r, ENDPOINTS, "");
    rig_write(r, "policy/tools/cdn.yaml",
              "tool: cdn\nversion: 1.0.0\nowner: a@example.com\npurpose: content\nendpoints:\n"
              "  - { name: cdn.example.net, protocol: https, data: public }\n"
              "  - { address: 93.184.217.0/24, protocol: tcp, port: 22, data: internal }\n");
    rig_write(r, "policy/tools/git.yaml",
              "tool: git\nversion: 1.0.0\nowner: a@example.com\npurpose: code\nendpoints:\n"
              "  - { name: git.example.net, protocol: https, data: public }\n");
}

static inline void rig_new(struct rig *r, const char *limits) {
    *r = (struct rig){.state = -1};
    struct channel *mine[] = {&r->supervisor, &r->resolver, &r->recorder, &r->control};
    lab_network(&r->lab);
    rig_files(r, limits);
    for (unsigned i = 0; i < 4; i++) {
        int pair[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair),
                         0);
        mine[i]->fd = pair[0];
        r->ends[i] = pair[1];
    }
}

static inline void rig_start(struct rig *r, const char *limits) {
    rig_new(r, limits);
    rig_core(r);
}

static inline int rig_remove(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static inline void rig_end(struct rig *r) {
    core_close(&r->core);
    lab_stop(&r->lab);
    nftw(r->dir, rig_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- messages ------------------------------------------------------------------------------ */

static inline uint64_t any_type(void) { return UINT64_MAX; }

/* The next message of the type on the channel, skipping others; NULL: there is none. */
static inline void *rig_next(struct rig *r, struct channel *from, enum proto_type type) {
    for (;;) {
        int got = channel_receive(from, &r->m, any_type());
        ck_assert_int_ge(got, 0);
        if (got == 0) return NULL;
        if (r->m.head.type == type) return proto_body(&r->m);
        for (unsigned i = 0; i < r->m.fd_count; i++) close(r->m.fds[i]);
    }
}

static inline void *rig_expect(struct rig *r, struct channel *from, enum proto_type type) {
    void *body = rig_next(r, from, type);
    ck_assert_msg(body != NULL, "no message of type %d came", (int)type);
    return body;
}

/* The next event of this code; others are skipped. */
static inline struct msg_event *rig_event(struct rig *r, enum event_code code) {
    struct msg_event *e;
    do e = rig_expect(r, &r->recorder, PROTO_EVENT);
    while (e->code != code);
    return e;
}

static inline void rig_send_open(struct rig *r, const char *client, const char *name,
                                 uint32_t lifetime, const char *const *remotes, unsigned count) {
    struct msg_open *m = proto_begin(&r->m, PROTO_OPEN, count);
    m->id = ++r->sequence;
    m->policy = r->policy;
    m->client = lab_addr(client);
    ck_assert_int_eq(name_from_text(name, &m->name), 0);
    for (unsigned i = 0; i < count; i++)
        *(struct msg_open_addr *)proto_item(&r->m, i) =
            (struct msg_open_addr){.remote = lab_addr(remotes[i]), .lifetime = lifetime};
    ck_assert_int_eq(channel_send(&r->resolver, &r->m), 0);
}

/* Sends OPEN, lets core work, returns the answer. */
static inline struct msg_opened rig_open_many(struct rig *r, const char *client, const char *name,
                                              uint32_t lifetime, const char *const *remotes,
                                              unsigned count) {
    rig_send_open(r, client, name, lifetime, remotes, count);
    core_from_resolver(&r->core);
    struct msg_opened *m = rig_expect(r, &r->resolver, PROTO_OPENED);
    ck_assert_uint_eq(m->id, r->sequence);
    return *m;
}
#define OPEN(r, client, name, lifetime, ...)                                                      \
    rig_open_many(r, client, name, lifetime, (const char *const[]){__VA_ARGS__},                  \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
#define OPENS(r, ...) ck_assert_uint_eq(OPEN(r, __VA_ARGS__).result, REASON_ALLOWED)
#define REFUSES(r, reason, ...)                                                                   \
    do {                                                                                          \
        struct msg_opened opened_ = OPEN(r, __VA_ARGS__);                                         \
        ck_assert_str_eq(reason_tag(opened_.result), reason_tag(reason));                         \
        ck_assert_uint_eq(opened_.deadline, 0);                                                   \
    } while (0)

/* Another policy, as the files say now. Whether core took it. */
static inline bool rig_reload(struct rig *r, int image) {
    struct msg_loaded *m = proto_begin(&r->m, PROTO_LOADED, 0);
    m->id = 77;
    m->ok = 1;
    r->m.fds[0] = image;
    r->m.fds[1] = memfd_create("report", MFD_CLOEXEC);
    r->m.fd_count = 2;
    ck_assert_int_eq(channel_send(&r->supervisor, &r->m), 0);
    close(r->m.fds[0]);
    close(r->m.fds[1]);
    core_from_supervisor(&r->core);
    struct msg_commit *c = rig_expect(r, &r->supervisor, PROTO_COMMIT);
    ck_assert_uint_eq(c->id, 77);
    r->policy = r->core.image.id;
    return c->taken;
}

/* ---- the kernel ---------------------------------------------------------------------------- */

struct rig_element { struct element_key key; struct element found; unsigned count, all; };

static inline int rig_on_element(void *ctx, const struct element *e) {
    struct rig_element *want = ctx;
    want->all++;
    if (memcmp(&e->key, &want->key, sizeof e->key) != 0) return 0;
    want->found = *e;
    want->count++;
    return 0;
}

/* What the kernel has for the key; count is 0 or 1. */
static inline struct rig_element rig_element(struct rig *r, const char *client, const char *remote,
                                             uint8_t protocol, uint16_t port) {
    struct rig_element e = {.key = {.client = lab_addr(client), .remote = lab_addr(remote),
                                    .protocol = protocol, .port = port}};
    int result = elements_dump(r->lab.elements, e.key.client.family, rig_on_element, &e);
    ck_assert_msg(result >= 0, "dump: %d", result);
    return e;
}
#define IN_KERNEL(r, ...) ck_assert_uint_eq(rig_element(r, __VA_ARGS__).count, 1)
#define NOT_IN_KERNEL(r, ...) ck_assert_uint_eq(rig_element(r, __VA_ARGS__).count, 0)

static inline unsigned rig_elements(struct rig *r, uint8_t family) {
    struct rig_element e = {0};
    ck_assert_int_ge(elements_dump(r->lab.elements, family, rig_on_element, &e), 0);
    return e.all;
}

/* Events of conntrack and the log of denied packets, then what is due. */
static inline void rig_turn(struct rig *r) {
    record_all_flows(&r->core);
    record_denied(&r->core);
    core_tick(&r->core);
}

#endif
