/* main.c: tidegate-core. Started by the supervisor only; see handover.h for what it finds open. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "gateway/base/confine.h"
#include "gateway/base/log.h"
#include "gateway/core/core.h"
#include "gateway/proto/handover.h"

/* libnftables asks the name service for every uid it reads, numbers too: nscd's socket, plugins of
 * nsswitch.conf, perhaps a directory server, from the privileged process. This definition takes the
 * place of libc's in this program: there are no user names in our ruleset, and the library goes on to
 * read the number. (Here and not in ruleset.c, lest other programs get it from the archive.) */
struct passwd *getpwnam(const char *name) {
    (void)name;
    return NULL;
}

#define FILES_MAX 64 /* descriptors */
#define FLOWS_MAX 1048576u
#define SOURCES 7

struct source {
    uv_poll_t poll;
    struct core *core;
    void (*handle)(struct core *);
};

struct loop {
    uv_loop_t uv;
    uv_timer_t timer;
    struct source sources[SOURCES];
    unsigned count;
    struct core core;
};

static void flows_ready(struct core *c) { record_flows(c); }

static void on_ready(uv_poll_t *poll, int status, int events) {
    struct source *s = poll->data;
    (void)events;
    s->handle(s->core);
    /* A netlink socket on which messages were lost reports an error, and libuv stops watching it;
     * the handler has read the error, so watching goes on. */
    if (status < 0) uv_poll_start(poll, UV_READABLE, on_ready);
    if (s->core->stopping) uv_stop(poll->loop);
}

static void on_tick(uv_timer_t *timer) {
    struct core *c = timer->data;
    core_tick(c);
}

static int watch(struct loop *l, int fd, void (*handle)(struct core *)) {
    struct source *s = &l->sources[l->count];
    int r = uv_poll_init(&l->uv, &s->poll, fd);
    if (r < 0) return r;
    s->core = &l->core;
    s->handle = handle;
    s->poll.data = s;
    l->count++;
    return uv_poll_start(&s->poll, UV_READABLE, on_ready);
}

static int watch_all(struct loop *l) {
    struct core *c = &l->core;
    const struct { int fd; void (*handle)(struct core *); } all[SOURCES] = {
        {CORE_SUPERVISOR, core_from_supervisor},
        {conntrack_fd(c->conntrack), flows_ready},
        {CORE_RESOLVER, core_from_resolver},
        {CORE_RECORDER, core_from_recorder},
        {CORE_CONTROL, core_from_control},
        {denied_fd(c->denied), record_denied},
        {uplink_fd(c->uplink), core_uplink},
    };
    int r = uv_timer_init(&l->uv, &l->timer);
    l->timer.data = c;
    for (unsigned i = 0; i < SOURCES && r == 0; i++) r = watch(l, all[i].fd, all[i].handle);
    if (r == 0)
        r = uv_timer_start(&l->timer, on_tick, CORE_TICK / USEC_PER_MSEC,
                           CORE_TICK / USEC_PER_MSEC);
    return r;
}

/* Whatever we were started with: our user for good, CAP_NET_ADMIN, nothing else. */
static int confine(void) {
    static const int keep[] = {CAP_NET_ADMIN};
    if (getuid() == 0) {
        log_error("tidegate-core does not run as root: start tidegated, which starts it");
        return -EPERM;
    }
    int r = confine_identity(getuid(), getgid(), keep, 1);
    return r < 0 ? r : confine_limits("tidegate-core", FILES_MAX);
}

static int parse_uid(const char *text, uid_t *ret) {
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end || value >= UINT32_MAX) return -EINVAL;
    *ret = (uid_t)value;
    return 0;
}

static int check_handover(int argc, char **argv, uid_t *ret_resolver) {
    bool ok = argc == 6 && parse_uid(argv[2], ret_resolver) == 0;
    for (int fd = CORE_SUPERVISOR; ok && fd < CORE_FD_END; fd++) {
        ok = fcntl(fd, F_GETFD) >= 0;
        if (ok) fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    if (!ok) log_error("tidegate-core is started by tidegated, not by hand");
    return ok ? 0 : -EINVAL;
}

static int run(struct loop *l, uid_t resolver) {
    const struct core_config config = {
        .clock = &clock_system, .resolver = resolver, .map_size = RULESET_MAP_SIZE,
        .flows_max = FLOWS_MAX, .supervisor = CORE_SUPERVISOR, .resolver_channel = CORE_RESOLVER,
        .recorder = CORE_RECORDER, .control = CORE_CONTROL, .image = CORE_IMAGE,
        .state = CORE_STATE, .tun = CORE_TUN};
    int r = core_open(&l->core, &config);
    if (r < 0) return r;
    if ((r = uv_loop_init(&l->uv)) < 0) return r;
    /* From here on even the start has only the calls that the profile lists. */
    if ((r = confine_syscalls(CONFINE_CORE)) < 0) return r;
    if ((r = core_start(&l->core)) < 0) return r;
    close(CORE_TUN);
    if ((r = watch_all(l)) < 0) {
        log_error("event loop: %s", uv_strerror(r));
        return r;
    }
    uv_run(&l->uv, UV_RUN_DEFAULT);
    return 0;
}

int main(int argc, char **argv) {
    uid_t resolver;
    log_start("core", argc > 1 && strcmp(argv[1], "debug") == 0);
    signal(SIGINT, SIG_IGN); /* stopping is the supervisor's to say */
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    if (check_handover(argc, argv, &resolver) < 0 || confine() < 0) return 1;
    struct loop *l = calloc(1, sizeof *l);
    if (!l) return 1;
    /* No exit path takes anything out of the kernel: what is open runs out, the rest is closed. */
    return run(l, resolver) < 0 ? 1 : 0;
}
