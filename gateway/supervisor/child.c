/* child.c: starting a process with what is its own and nothing else, and starting it again. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/base/confine.h"
#include "gateway/base/log.h"
#include "gateway/supervisor/supervisor.h"

_Static_assert((int)PAIR_RESOLVER == PROCESS_RESOLVER && (int)PAIR_RECORDER == PROCESS_RECORDER &&
                   (int)PAIR_CONTROL == PROCESS_CONTROL && (int)PAIR_SUPERVISOR == PROCESS_CORE,
               "the pair of core and a process has the process's number");

#define FIRST_FD 3
#define FDS_MAX 16
#define STEADY (10 * USEC_PER_SEC) /* alive this long: the next restart is immediate again */
#define DELAY_FIRST (100 * USEC_PER_MSEC)
#define DELAY_MAX (2 * USEC_PER_SEC)

/* CAP_NET_ADMIN survives the exec of an unprivileged user only as an ambient capability, which
 * must be inheritable first (capabilities(7)). */
static int child_keep_net_admin(void) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &head, data) < 0) return -errno;
    data[0].inheritable |= 1u << CAP_NET_ADMIN;
    if (syscall(SYS_capset, &head, data) < 0) return -errno;
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_ADMIN, 0, 0) < 0 ? -errno : 0;
}

static int child_identity(const struct supervisor *s, enum process p) {
    static const int core_keeps[] = {CAP_NET_ADMIN};
    const struct identity *user = &s->users[p];
    if (p == PROCESS_LOADER && geteuid() != 0) return 0; /* tidegated --check by a plain user */
    int error = confine_identity(user->uid, user->gid, core_keeps, p == PROCESS_CORE ? 1 : 0);
    if (error == 0 && p == PROCESS_CORE) error = child_keep_net_admin();
    return error;
}

/* Moves the descriptors to 3, 4, ...; above FDS_MAX first, so that none is overwritten before it
 * is copied. Everything else is closed by exec, `binary` included (close-on-exec). */
static int child_descriptors(const int *fds, unsigned count, int *binary) {
    int high[FDS_MAX], null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (count > FDS_MAX || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0) return -EMFILE;
    for (unsigned i = 0; i < count; i++) {
        high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_FD + FDS_MAX);
        if (high[i] < 0) return -errno;
    }
    int moved = fcntl(*binary, F_DUPFD_CLOEXEC, FIRST_FD + FDS_MAX);
    if (moved < 0) return -errno;
    *binary = moved;
    for (unsigned i = 0; i < count; i++)
        if (dup2(high[i], FIRST_FD + (int)i) < 0) return -errno;
    return close_range(FIRST_FD + count, ~0u, CLOSE_RANGE_CLOEXEC) < 0 ? -errno : 0;
}

static const char *const *child_environment(const char *kept[4], char text[3][1024]) {
    static const char *const names[] = {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"};
    unsigned count = 0;
    for (unsigned i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (!value || snprintf(text[count], sizeof text[0], "%s=%s", names[i], value) >= 1024)
            continue;
        kept[count] = text[count];
        count++;
    }
    kept[count] = NULL;
    return kept;
}

_Noreturn void child_become(const struct supervisor *s, enum process p, pid_t parent,
                            const int *fds, unsigned count, const char *const *arguments) {
    const char *kept[4];
    char text[3][1024];
    sigset_t none;
    int binary = s->binaries[p];
    int error = child_descriptors(fds, count, &binary);
    if (error == 0) error = child_identity(s, p);
    /* After the change of identity, which would clear it. The kernel sends this signal with the
     * rights of the dying parent: that is why we keep CAP_KILL. */
    if (error == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) error = -errno;
    if (getppid() != parent) _exit(1);
    setpgid(0, 0); /* a Ctrl-C at the terminal is for the supervisor, which stops in order */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (error == 0) {
        syscall(SYS_execveat, binary, "", arguments, child_environment(kept, text), AT_EMPTY_PATH);
        error = -errno;
    }
    log_error("cannot start tidegate-%s: %s", process_name(p), strerror(-error));
    _exit(1);
}

/* What each process gets, at the places that handover.h names. Returns how many; -errno. */
static int child_gets(const struct supervisor *s, enum process p, int fds[FDS_MAX]) {
#define AT(place) fds[(place)-FIRST_FD]
    switch (p) {
    case PROCESS_CORE:
        AT(CORE_SUPERVISOR) = s->pairs[PAIR_SUPERVISOR][0];
        AT(CORE_RESOLVER) = s->pairs[PAIR_RESOLVER][0];
        AT(CORE_RECORDER) = s->pairs[PAIR_RECORDER][0];
        AT(CORE_CONTROL) = s->pairs[PAIR_CONTROL][0];
        AT(CORE_IMAGE) = s->current.fd;
        AT(CORE_STATE) = s->core_directory;
        /* A fresh one each time: an interface stays attached to its descriptor, and goes with it. */
        AT(CORE_TUN) = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
        return AT(CORE_TUN) < 0 ? -errno : CORE_FD_END - FIRST_FD;
    case PROCESS_RESOLVER:
        AT(RESOLVER_CORE) = s->pairs[PAIR_RESOLVER][1];
        AT(RESOLVER_RECORDER) = s->pairs[PAIR_RECORDS][0];
        AT(RESOLVER_IMAGE) = s->current.fd;
        AT(RESOLVER_UDP4) = s->dns[DNS_UDP4];
        AT(RESOLVER_UDP6) = s->dns[DNS_UDP6];
        AT(RESOLVER_TCP4) = s->dns[DNS_TCP4];
        AT(RESOLVER_TCP6) = s->dns[DNS_TCP6];
        return RESOLVER_FD_END - FIRST_FD;
    case PROCESS_RECORDER:
        AT(RECORDER_CORE) = s->pairs[PAIR_RECORDER][1];
        AT(RECORDER_RESOLVER) = s->pairs[PAIR_RECORDS][1];
        AT(RECORDER_IMAGE) = s->current.fd;
        AT(RECORDER_DIRECTORY) = s->log_directory;
        AT(RECORDER_STATE) = s->record_state;
        return RECORDER_FD_END - FIRST_FD;
    case PROCESS_CONTROL:
        AT(CONTROL_CORE) = s->pairs[PAIR_CONTROL][1];
        AT(CONTROL_IMAGE) = s->current.fd;
        AT(CONTROL_LISTENER) = s->listener;
        return CONTROL_FD_END - FIRST_FD;
    default: return -EINVAL;
    }
#undef AT
}

/* Tells core, which shows it in the status and records ends. Core may be dead or behind: it gets
 * the whole picture when it is started. */
static void child_tell(struct supervisor *s, enum process p, int status) {
    struct proto_message m;
    struct msg_child *tell = proto_begin(&m, PROTO_CHILD, 0);
    const struct child *c = &s->children[p];
    tell->process = p;
    tell->pid = (uint32_t)c->pid;
    tell->running = c->pid && status < 0;
    tell->status = status < 0 ? 0 : (uint32_t)status;
    tell->restarts = c->restarts;
    channel_send(&s->core, &m);
}

/* What we sent to a core that is gone means nothing to its successor; and what a child that was
 * ended had queued for core must not be seen again. A pair that was shut down gives empty reads for
 * ever. */
static void child_drain(const struct supervisor *s, enum pair pair) {
    char byte[1];
    while (!pair_shut(s, pair)) {
        /* Descriptors in a message that is cut off are closed by the kernel. */
        ssize_t got = recv(s->pairs[pair][0], byte, sizeof byte, MSG_DONTWAIT | MSG_TRUNC);
        if (got < 0 && errno != EINTR) return;
    }
}

/* A process that shut a pair down before it ended must not leave its successor, and who was at the
 * other end, without one. The other end belongs to core or (of records) to resolver or recorder. */
static void child_pairs(struct supervisor *s, enum process p) {
    for (unsigned pair = 0; pair < PAIR_COUNT; pair++) {
        enum process ends[] = {PROCESS_CORE, (enum process)pair};
        if (pair == PAIR_RECORDS) ends[0] = PROCESS_RESOLVER, ends[1] = PROCESS_RECORDER;
        if ((p != ends[0] && p != ends[1]) || !pair_shut(s, pair)) continue;
        log_error("tidegate-%s or tidegate-%s shut down their channel; it is made anew",
                  process_name(ends[0]), process_name(ends[1]));
        if (pair_open(s, pair) == 0) child_kill(s, ends[p == ends[0]]);
    }
}

static int child_fail(struct supervisor *s, enum process p, int error) {
    log_error("cannot start tidegate-%s: %s", process_name(p), strerror(-error));
    s->children[p].due = clock_now(&clock_system) + DELAY_MAX;
    return error;
}

int child_start(struct supervisor *s, enum process p) {
    struct child *c = &s->children[p];
    char program[32], uids[4][12];
    int fds[FDS_MAX], count = child_gets(s, p, fds);
    if (count < 0) return child_fail(s, p, count);
    snprintf(program, sizeof program, "tidegate-%s", process_name(p));
    const char *arguments[8] = {program, s->debug ? "debug" : "-"};
    if (p == PROCESS_CONTROL) {
        snprintf(uids[0], sizeof uids[0], "%u", (unsigned)s->admin);
        arguments[2] = uids[0];
    }
    for (unsigned i = 0; p == PROCESS_CORE && i < 4; i++) {
        snprintf(uids[i], sizeof uids[i], "%u", (unsigned)s->users[PROCESS_RESOLVER + i].uid);
        arguments[2 + i] = uids[i];
    }
    if (p == PROCESS_CORE) child_drain(s, PAIR_SUPERVISOR);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) child_become(s, p, parent, fds, (unsigned)count, arguments);
    int error = pid < 0 ? -errno : 0;
    if (p == PROCESS_CORE) close(fds[CORE_TUN - FIRST_FD]);
    if (error < 0) return child_fail(s, p, error);
    c->pid = pid;
    c->due = 0;
    c->started = clock_now(&clock_system);
    log_debug("tidegate-%s runs as pid %d", program + sizeof "tidegate", (int)pid);
    for (unsigned i = 0; p == PROCESS_CORE && i < PROCESS_LOADER; i++)
        if (s->children[i].pid) child_tell(s, (enum process)i, -1);
    if (p != PROCESS_CORE) child_tell(s, p, -1);
    else load_next(s);
    return 0;
}

static void child_log_end(enum process p, const struct child *c, int status, usec_t delay) {
    char how[64];
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was ended by signal %d%s", WTERMSIG(status),
                 WTERMSIG(status) == SIGSYS ? " (a system call it may not make)" : "");
    else
        snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(status));
    log_warn("tidegate-%s (pid %d) %s; started again in %u ms", process_name(p), (int)c->pid, how,
             (unsigned)(delay / USEC_PER_MSEC));
}

void child_ended(struct supervisor *s, enum process p, int status) {
    struct child *c = &s->children[p];
    usec_t now = clock_now(&clock_system), delay = 0;
    if (s->stopping) {
        c->pid = 0;
        return;
    }
    if (now - c->started >= STEADY) c->quick = 0;
    if (c->quick) delay = c->quick > 5 ? DELAY_MAX : DELAY_FIRST << (c->quick - 1);
    if (delay > DELAY_MAX) delay = DELAY_MAX;
    c->quick++;
    c->restarts++;
    child_log_end(p, c, status, delay);
    if (p == PROCESS_CORE) load_forget(s);
    else child_tell(s, p, status);
    if (c->discard) child_drain(s, (enum pair)p);
    c->discard = false;
    c->pid = 0;
    c->due = now + delay;
    child_pairs(s, p);
}

void child_kill(struct supervisor *s, enum process p) {
    if (s->children[p].pid) kill(s->children[p].pid, SIGKILL);
}
