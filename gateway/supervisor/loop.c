/* loop.c: waits for signals, children and messages from core. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/supervisor/supervisor.h"

#define FROM_CORE                                                                                 \
    (PROTO_BIT(READY) | PROTO_BIT(LOAD) | PROTO_BIT(COMMIT) | PROTO_BIT(END_CHILD) |              \
     PROTO_BIT(STOPPED))
#define STOP_TIME (3 * USEC_PER_SEC)  /* for core's last records and revocations */
#define DRAIN_TIME (1 * USEC_PER_SEC) /* for the recorder to write what is queued */
#define END_TIME (1 * USEC_PER_SEC)   /* from SIGTERM to SIGKILL */

static void loop_end_child(struct supervisor *s, const struct msg_child *m) {
    if (m->process == PROCESS_CORE || m->process >= PROCESS_LOADER) return;
    struct child *c = &s->children[m->process];
    if (!c->pid || (uint32_t)c->pid != m->pid) return; /* of its predecessor: too late */
    log_error("core ends tidegate-%s (pid %d): it sent an impossible message",
              process_name(m->process), (int)c->pid);
    c->discard = true;
    child_kill(s, (enum process)m->process);
}

static void loop_ready(struct supervisor *s, const struct msg_ready *m) {
    char digest[POLICY_DIGEST_TEXT_MAX];
    bool same = m->policy == policy_id(&s->current.policy);
    log_note("ready: policy %.16s is in force", policy_digest_text(&s->current.policy, digest));
    if (same && !s->stored) s->stored = store_save(s) == 0;
    notify("READY=1\nSTATUS=The gateway enforces its policy.");
}

/* Returns false when there is nothing more to read. */
static bool loop_message(struct supervisor *s) {
    struct proto_message m;
    int got = channel_receive(&s->core, &m, FROM_CORE);
    if (got == 0) return false;
    if (got < 0) {
        log_error("message from core: %s; core is ended", strerror(-got));
        s->children[PROCESS_CORE].discard = true;
        child_kill(s, PROCESS_CORE);
        return false;
    }
    for (unsigned i = 0; i < m.fd_count; i++) close(m.fds[i]); /* none of these carries any */
    switch (m.head.type) {
    case PROTO_READY: loop_ready(s, proto_body(&m)); break;
    case PROTO_LOAD: load_ask(s, ((struct msg_load *)proto_body(&m))->id); break;
    case PROTO_COMMIT: {
        const struct msg_commit *c = proto_body(&m);
        load_commit(s, c->id, c->taken);
        break;
    }
    case PROTO_END_CHILD: loop_end_child(s, proto_body(&m)); break;
    case PROTO_STOPPED: s->stopped = true; break;
    default: break;
    }
    return true;
}

static void loop_reap(struct supervisor *s) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid == s->load.pid) {
            load_ended(s, status);
            continue;
        }
        for (unsigned p = 0; p < PROCESS_LOADER; p++) {
            if (s->children[p].pid != pid) continue;
            /* What core said before it died counts: it may have taken a policy. Its pid is free
             * for others from now on, so nothing may be sent to it meanwhile. */
            s->children[p].pid = 0;
            while (p == PROCESS_CORE && !s->children[p].discard && loop_message(s)) {}
            s->children[p].pid = pid;
            child_ended(s, (enum process)p, status);
        }
    }
}

static void loop_signals(struct supervisor *s) {
    struct signalfd_siginfo got;
    while (read(s->signals, &got, sizeof got) == sizeof got) {
        switch (got.ssi_signo) {
        case SIGHUP:
            if (!s->stopping) load_ask(s, 0);
            break;
        case SIGTERM:
        case SIGINT: s->stopping = true; break;
        default: break; /* SIGCHLD: reaped by the caller */
        }
    }
}

/* Does what is due; returns how long nothing will be, in ms, or -1. */
static int loop_due(struct supervisor *s) {
    usec_t now = clock_now(&clock_system), next = UINT64_MAX;
    if (s->watchdog) {
        if (now >= s->watchdog_due) {
            notify("WATCHDOG=1");
            s->watchdog_due = now + s->watchdog;
        }
        next = s->watchdog_due;
    }
    for (unsigned p = 0; p < PROCESS_LOADER; p++) {
        struct child *c = &s->children[p];
        if (!c->pid && c->due <= now) child_start(s, (enum process)p);
        if (!c->pid && c->due < next) next = c->due;
    }
    if (s->load.pid && s->load.deadline <= now) load_ended(s, -1);
    if (s->load.pid && s->load.deadline < next) next = s->load.deadline;
    if (next == UINT64_MAX) return -1;
    return next <= now ? 0 : (int)((next - now) / USEC_PER_MSEC) + 1;
}

static void loop_once(struct supervisor *s, int timeout) {
    struct pollfd wait[] = {{.fd = s->signals, .events = POLLIN},
                            {.fd = s->core.fd, .events = POLLIN}};
    if (poll(wait, 2, timeout) < 0) return;
    if (wait[1].revents)
        while (loop_message(s)) {}
    if (wait[0].revents) {
        loop_signals(s);
        loop_reap(s);
    }
}

/* Waits until `done` or the time is over, still serving messages and signals. */
static void loop_until(struct supervisor *s, usec_t time, bool (*done)(struct supervisor *)) {
    usec_t end = clock_now(&clock_system) + time;
    while (!done(s)) {
        usec_t now = clock_now(&clock_system);
        if (now >= end) return;
        usec_t rest = (end - now) / USEC_PER_MSEC + 1;
        loop_once(s, rest > 20 ? 20 : (int)rest);
    }
}

static bool core_stopped(struct supervisor *s) {
    return s->stopped || !s->children[PROCESS_CORE].pid;
}

static bool records_written(struct supervisor *s) {
    char byte;
    if (!s->children[PROCESS_RECORDER].pid) return true;
    return recv(s->pairs[PAIR_RECORDER][1], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           recv(s->pairs[PAIR_RECORDS][1], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

static bool all_ended(struct supervisor *s) {
    for (unsigned p = 0; p < PROCESS_LOADER; p++)
        if (s->children[p].pid) return false;
    return true;
}

/* The ruleset stays in the kernel: nothing here touches it. */
void stop_all(struct supervisor *s) {
    struct proto_message m;
    s->stopping = true;
    notify("STOPPING=1");
    s->waiting_count = 0;
    if (s->load.pid) kill(s->load.pid, SIGKILL);
    proto_begin(&m, PROTO_STOP, 0);
    if (s->children[PROCESS_CORE].pid && channel_send(&s->core, &m) == 0)
        loop_until(s, STOP_TIME, core_stopped);
    loop_until(s, DRAIN_TIME, records_written);
    for (unsigned p = 0; p < PROCESS_LOADER; p++)
        if (s->children[p].pid) kill(s->children[p].pid, SIGTERM);
    loop_until(s, END_TIME, all_ended);
    for (unsigned p = 0; p < PROCESS_LOADER; p++) child_kill(s, (enum process)p);
    loop_until(s, END_TIME, all_ended);
    sockets_remove(s);
    log_note("stopped; the ruleset stays in the kernel");
}

int loop_run(struct supervisor *s) {
    s->watchdog = notify_watchdog();
    while (!s->stopping) loop_once(s, loop_due(s));
    stop_all(s);
    return 0;
}
