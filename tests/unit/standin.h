/* standin.h: programs that stand in for the processes of tidegated, so that a test sees what the
 * supervisor hands to each and can make each behave well or badly.
 *
 * A stand-in says on standard error what it was given, one line "standin NAME key=value ...", and
 * what it receives. Core takes commands from the file `command` in its state directory, each in a
 * line of its own; the loader takes the first line of the configuration as its command.
 */
#ifndef TESTS_UNIT_STANDIN_H
#define TESTS_UNIT_STANDIN_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/policy/policy.h"
#include "gateway/proto/handover.h"
#include "gateway/proto/proto.h"

static inline void standin_say(const char *line) {
    char text[4096];
    int length = snprintf(text, sizeof text, "%s\n", line);
    (void)!write(STDERR_FILENO, text, (size_t)length);
}

/* Every open descriptor from 3 on as " fd3=socket:[1]". */
static inline size_t standin_descriptors(char *text, size_t size) {
    size_t used = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char target[256];
        long fd = strtol(e->d_name, NULL, 10);
        ssize_t length = readlinkat(dirfd(dir), e->d_name, target, sizeof target - 1);
        if (fd < 3 || fd == dirfd(dir) || length < 0) continue;
        target[length] = 0;
        target[strcspn(target, " ")] = 0;
        used += (size_t)snprintf(text + used, size - used, " fd%ld=%s", fd, target);
    }
    closedir(dir);
    return used;
}

/* Fields of /proc/self/status, blanks turned into commas. */
static inline size_t standin_status(char *text, size_t size) {
    static const char *const fields[] = {"Uid", "Gid", "Groups", "CapInh", "CapPrm",
                                         "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "SigBlk"};
    char line[512];
    size_t used = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon) continue;
        *colon = 0;
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
            if (strcmp(line, fields[i])) continue;
            char *value = colon + 1 + strspn(colon + 1, " \t");
            value[strcspn(value, "\n")] = 0;
            for (char *c = value; *c; c++)
                if (*c == '\t' || *c == ' ') *c = ',';
            used += (size_t)snprintf(text + used, size - used, " %s=%s", line, value);
        }
    }
    fclose(f);
    return used;
}

static inline void standin_introduce(const char *name, int argc, char **argv) {
    extern char **environ;
    char text[4000];
    int death = 0, environment = 0;
    prctl(PR_GET_PDEATHSIG, &death);
    for (char **e = environ; *e; e++) environment++;
    size_t used = (size_t)snprintf(text, sizeof text, "standin %s pid=%d pgid=%d death=%d env=%d",
                                   name, (int)getpid(), (int)getpgrp(), death, environment);
    for (int i = 1; i < argc; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, " arg%d=%s", i, argv[i]);
    used += standin_status(text + used, sizeof text - used);
    used += standin_descriptors(text + used, sizeof text - used);
    sigset_t set; /* only now: the test looks at the mask as it was handed over */
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    standin_say(text);
}

/* ---- core -------------------------------------------------------------------------------------- */

struct standin_core {
    struct channel supervisor, resolver;
    long commands_read; /* offset in the file */
    bool mute;          /* does not answer STOP */
};

static inline void standin_send(struct channel *c, struct proto_message *m) {
    int error = channel_send(c, m);
    char text[64];
    snprintf(text, sizeof text, "core sent type=%u error=%d", (unsigned)m->head.type, error);
    standin_say(text);
}

static inline void standin_command(struct standin_core *s, const char *line) {
    struct proto_message m;
    unsigned long long a = 0;
    unsigned b = 0;
    if (sscanf(line, "ready %llx", &a) == 1) {
        struct msg_ready *r = proto_begin(&m, PROTO_READY, 0);
        r->policy = a;
        standin_send(&s->supervisor, &m);
    } else if (sscanf(line, "load %llu", &a) == 1) {
        struct msg_load *l = proto_begin(&m, PROTO_LOAD, 0);
        l->id = a;
        standin_send(&s->supervisor, &m);
    } else if (sscanf(line, "commit %llu %u", &a, &b) == 2) {
        struct msg_commit *c = proto_begin(&m, PROTO_COMMIT, 0);
        c->id = a;
        c->taken = b;
        standin_send(&s->supervisor, &m);
    } else if (sscanf(line, "end %u %llu", &b, &a) == 2) {
        struct msg_child *c = proto_begin(&m, PROTO_END_CHILD, 0);
        c->process = b;
        c->pid = (uint32_t)a;
        standin_send(&s->supervisor, &m);
    } else if (sscanf(line, "state %llu", &a) == 1) {
        struct msg_state *t = proto_begin(&m, PROTO_STATE, 0);
        t->epoch = a;
        standin_send(&s->resolver, &m);
    } else if (!strncmp(line, "garbage", 7)) {
        (void)!send(s->supervisor.fd, "garbage", 7, 0);
    } else if (!strncmp(line, "mute", 4)) {
        s->mute = true;
        standin_say("core is mute");
    } else if (!strncmp(line, "read", 4)) {
        unsigned count = 0;
        char text[64];
        while (channel_receive(&s->resolver, &m, PROTO_BIT(REVERSE)) == 1) count++;
        snprintf(text, sizeof text, "core read %u from resolver", count);
        standin_say(text);
    }
}

static inline void standin_commands(struct standin_core *s) {
    char line[256];
    int fd = openat(CORE_STATE, "command", O_RDONLY | O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f) return;
    fseek(f, s->commands_read, SEEK_SET);
    while (fgets(line, sizeof line, f) && strchr(line, '\n')) {
        s->commands_read = ftell(f);
        standin_command(s, line);
    }
    fclose(f);
}

static inline void standin_loaded(struct proto_message *m) {
    const struct msg_loaded *l = proto_body(m);
    char report[512] = "", text[1024];
    struct stat st = {0};
    unsigned long long id = 0;
    int report_fd = m->fds[l->ok ? 1 : 0];
    /* At least these: newer kernels add one against execution. */
    const int wanted = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    int seals = fcntl(report_fd, F_GET_SEALS);
    bool sealed = seals >= 0 && (seals & wanted) == wanted;
    ssize_t length = pread(report_fd, report, sizeof report - 1, 0);
    report[length > 0 ? length : 0] = 0;
    for (char *c = report; *c; c++)
        if (*c == '\n' || (unsigned char)*c < 0x20) *c = *c == '\n' ? '|' : '^';
    if (l->ok && fstat(m->fds[0], &st) == 0) {
        void *bytes = malloc((size_t)st.st_size);
        struct policy p;
        sealed = sealed && (fcntl(m->fds[0], F_GET_SEALS) & F_SEAL_WRITE);
        if (pread(m->fds[0], bytes, (size_t)st.st_size, 0) == st.st_size &&
            policy_open(&p, bytes, (size_t)st.st_size) == 0)
            id = policy_id(&p);
        free(bytes);
    }
    snprintf(text, sizeof text, "core got LOADED id=%llu ok=%u faults=%u sealed=%d policy=%llx report=%s",
             (unsigned long long)l->id, l->ok, l->faults, sealed, id, report);
    standin_say(text);
    for (unsigned i = 0; i < m->fd_count; i++) close(m->fds[i]);
}

static inline void standin_from_supervisor(struct standin_core *s) {
    struct proto_message m;
    char text[128];
    uint64_t accept = PROTO_BIT(LOADED) | PROTO_BIT(CHILD) | PROTO_BIT(STOP);
    while (channel_receive(&s->supervisor, &m, accept) == 1) {
        if (m.head.type == PROTO_LOADED) {
            standin_loaded(&m);
        } else if (m.head.type == PROTO_CHILD) {
            const struct msg_child *c = proto_body(&m);
            snprintf(text, sizeof text, "core got CHILD process=%u pid=%u running=%u restarts=%u",
                     c->process, c->pid, c->running, c->restarts);
            standin_say(text);
        } else {
            standin_say("core got STOP");
            if (s->mute) continue;
            proto_begin(&m, PROTO_STOPPED, 0);
            standin_send(&s->supervisor, &m);
        }
    }
}

static inline _Noreturn void standin_core_main(long commands_read) {
    struct standin_core s = {.supervisor = {.fd = CORE_SUPERVISOR},
                             .resolver = {.fd = CORE_RESOLVER},
                             .commands_read = commands_read};
    for (;;) {
        struct pollfd wait = {.fd = CORE_SUPERVISOR, .events = POLLIN};
        poll(&wait, 1, 10);
        standin_from_supervisor(&s);
        standin_commands(&s);
    }
}

/* ---- the others ---------------------------------------------------------------------------------- */

static inline _Noreturn void standin_resolver_main(void) {
    struct channel core = {.fd = RESOLVER_CORE};
    struct proto_message m;
    char text[64];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1); /* sends three messages to core; blocked since the introduction */
    for (;;) {
        struct pollfd wait = {.fd = RESOLVER_CORE, .events = POLLIN};
        const struct timespec now = {0};
        poll(&wait, 1, 10);
        while (channel_receive(&core, &m, PROTO_BIT(STATE)) == 1) {
            snprintf(text, sizeof text, "resolver got STATE epoch=%llu",
                     (unsigned long long)((struct msg_state *)proto_body(&m))->epoch);
            standin_say(text);
        }
        if (sigtimedwait(&set, NULL, &now) != SIGUSR1) continue;
        for (unsigned i = 0; i < 3; i++) {
            struct msg_reverse *r = proto_begin(&m, PROTO_REVERSE, 0);
            r->client = r->remote = addr_from4((const uint8_t[]){10, 0, 0, 1});
            channel_send(&core, &m);
        }
        standin_say("resolver sent");
    }
}

/* First line of the configuration: "#image PATH", "#fault", "#hang", "#crash", "#garbage". */
static inline int standin_loader_main(char **argv) {
    char line[512] = "", block[65536];
    FILE *f = fopen(argv[2], "r");
    if (!f || !fgets(line, sizeof line, f)) {
        dprintf(LOADER_REPORT, "%s:1:1: cannot be read\n", argv[2]);
        return LOADER_EXIT_FAULTS;
    }
    line[strcspn(line, "\n")] = 0;
    if (!strncmp(line, "#image ", 7)) {
        int in = open(line + 7, O_RDONLY | O_CLOEXEC);
        for (ssize_t got; (got = read(in, block, sizeof block)) > 0;)
            (void)!write(LOADER_IMAGE, block, (size_t)got);
        return 0;
    }
    if (!strcmp(line, "#hang")) pause();
    if (!strcmp(line, "#crash")) raise(SIGKILL);
    if (!strcmp(line, "#garbage")) return write(LOADER_IMAGE, line, 8) != 8;
    dprintf(LOADER_REPORT, "%s:7:3: bad thing \x1b[31m\n%s:9:1: worse thing\n", argv[2], argv[2]);
    return LOADER_EXIT_FAULTS;
}

/* Runs as the stand-in that argv[0] names; returns when it names none. */
static inline int standin_main(int argc, char **argv) {
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    if (strncmp(name, "tidegate-", 9)) return -1;
    name += 9;
    /* A successor starts behind what its predecessor was told; looked at before it says that it is
     * there, since the next command may follow at once. */
    struct stat st;
    long told = fstatat(CORE_STATE, "command", &st, 0) == 0 ? st.st_size : 0;
    standin_introduce(name, argc, argv);
    if (!strcmp(name, "loader")) return standin_loader_main(argv);
    if (!strcmp(name, "core")) standin_core_main(told);
    if (!strcmp(name, "resolver")) standin_resolver_main();
    for (;;) pause();
}

#endif
