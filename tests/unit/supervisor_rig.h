/* supervisor_rig.h: runs the real tidegated with stand-ins for its children, in a network namespace
 * of its own, and reads what they say. */
#ifndef TESTS_UNIT_SUPERVISOR_RIG_H
#define TESTS_UNIT_SUPERVISOR_RIG_H

#include <check.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "gateway/base/clock.h"
#include "gateway/policy/load/load.h"
#include "tests/unit/standin.h"

#define UID_BASE 64320
#define RESTART_LIMIT 2000 /* ms: how long a killed process may be away */
#define WAIT 20000 /* ms: for what must come, on a busy machine too */

static struct {
    char base[32], dir[64], bin[512], self[512]; /* base: of all cases */
    pid_t pid; /* tidegated */
    int output;
    char *text; /* all it wrote */
    size_t size;
    uint64_t policy[2]; /* ids of the two images */
    char digest[2][POLICY_DIGEST_TEXT_MAX];
} t;

static usec_t now_ms(void) { return clock_now(&clock_system) / USEC_PER_MSEC; }

/* ---- files --------------------------------------------------------------------------------------- */

static const char *path_of(const char *name) {
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", t.dir, name);
    return path;
}

static void file_write(const char *name, const char *text) {
    FILE *f = fopen(path_of(name), "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void file_copy(const char *from, const char *to, mode_t mode) {
    char block[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    ck_assert_msg(in >= 0 && out >= 0, "%s -> %s", from, to);
    for (ssize_t got; (got = read(in, block, sizeof block)) > 0;)
        ck_assert_int_eq(write(out, block, (size_t)got), got);
    close(in);
    close(out);
}

/* What the stand-in loader is to do; the rest is what a real file would say. */
static void config_write(const char *command) {
    char text[1024];
    snprintf(text, sizeof text, "%s\nagents: []\nstate: \"%s/state\" # here\n", command, t.dir);
    file_write("gateway.yaml", text);
}

static void config_image(unsigned which) {
    char command[128];
    snprintf(command, sizeof command, "#image %s/image%u", t.dir, which);
    config_write(command);
}

/* A real image, by the real loader, with directories of this case. */
static void image_make(unsigned which, const char *log) {
    char text[1024];
    struct load_result r;
    struct policy p;
    snprintf(text, sizeof text,
             "agents:\n  - interface: tg1\n    subnets: [10.9.%u.0/24]\n"
             "uplink: { interface: tg0 }\nupstreams: [ { address: 192.0.2.53 } ]\n"
             "log: { directory: %s/%s }\npolicy: %s/policy\nstate: %s/state\nruntime: %s/run\n",
             which + 1, t.dir, log, t.dir, t.dir, t.dir);
    file_write("real.yaml", text);
    struct load_source source = {.config = path_of("real.yaml")};
    FILE *report = fopen("/dev/null", "w");
    ck_assert_int_eq(load_policy(&source, report, &r), 0);
    fclose(report);
    ck_assert_int_eq(policy_open(&p, r.image, r.size), 0);
    t.policy[which] = policy_id(&p);
    policy_digest_text(&p, t.digest[which]);
    snprintf(text, sizeof text, "%s/image%u", t.dir, which);
    FILE *f = fopen(text, "w");
    ck_assert_uint_eq(fwrite(r.image, 1, r.size, f), r.size);
    fclose(f);
    load_result_free(&r);
}

static void setup(void) {
    static const char *const names[] = {"core", "resolver", "recorder", "control", "loader"};
    snprintf(t.dir, sizeof t.dir, "%s/XXXXXX", t.base);
    ck_assert_ptr_nonnull(mkdtemp(t.dir));
    chmod(t.dir, 0755);
    ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
    mkdir(path_of("bin"), 0755);
    mkdir(path_of("policy"), 0755);
    mkdir(path_of("policy/tools"), 0755);
    file_write("policy/agents.yaml", "agents: []\n");
    file_copy(t.bin, path_of("bin/tidegated"), 0755);
    for (unsigned i = 0; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "bin/tidegate-%s", names[i]);
        file_copy(t.self, path_of(name), 0755);
    }
    image_make(0, "log");
    image_make(1, "log");
    config_image(0);
    t.pid = 0;
    t.output = -1;
    t.text = NULL;
    t.size = 0;
}

static void remove_all(const char *path) {
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", "--", path, NULL);
        _exit(1);
    }
    waitpid(pid, NULL, 0);
}

/* ---- running tidegated ----------------------------------------------------------------------------- */

static void start_with(const char *extra, int notify) {
    int ends[2];
    char base[16];
    snprintf(base, sizeof base, "%d", UID_BASE);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    t.pid = fork();
    if (t.pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        setenv("SECRET", "must not be passed on", 1);
        if (notify >= 0) setenv("NOTIFY_SOCKET", path_of("notify"), 1);
        execl(path_of("bin/tidegated"), "tidegated", "-c", path_of("gateway.yaml"), "--uid-base",
              base, extra, NULL);
        _exit(127);
    }
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (t.output >= 0) close(t.output);
    t.output = ends[0];
}

static void output_read(unsigned ms) {
    char block[4096];
    struct pollfd wait = {.fd = t.output, .events = POLLIN};
    poll(&wait, 1, (int)ms);
    for (ssize_t got; (got = read(t.output, block, sizeof block)) > 0;) {
        t.text = realloc(t.text, t.size + (size_t)got + 1);
        memcpy(t.text + t.size, block, (size_t)got);
        t.size += (size_t)got;
        t.text[t.size] = 0;
    }
}

/* Waits for a line that contains `what`, from the offset `from` of the output on. Returns the line;
 * fails the test when it does not come. */
static const char *line_after(size_t from, const char *what, unsigned ms) {
    static char line[4096];
    for (usec_t end = now_ms() + ms;;) {
        for (char *at = t.text ? t.text + from : NULL; at && *at;) {
            char *newline = strchr(at, '\n');
            if (!newline) break;
            snprintf(line, sizeof line, "%.*s", (int)(newline - at), at);
            if (strstr(line, what)) return line;
            at = newline + 1;
        }
        ck_assert_msg(now_ms() < end, "no line with \"%s\" in:\n%s", what,
                      t.text ? t.text + from : "");
        output_read(20);
    }
}

static bool said(size_t from, const char *what) {
    output_read(0);
    return t.text && from < t.size && strstr(t.text + from, what);
}

static long number_in(const char *line, const char *key) {
    const char *at = strstr(line, key);
    ck_assert_msg(at, "no %s in: %s", key, line);
    return strtol(at + strlen(key), NULL, 10);
}

static pid_t pid_of(size_t from, const char *name) {
    char what[64];
    snprintf(what, sizeof what, "standin %s pid=", name);
    return (pid_t)number_in(line_after(from, what, WAIT), " pid=");
}

static void start(void) {
    start_with(NULL, -1);
    pid_of(0, "core");
    pid_of(0, "resolver");
    pid_of(0, "recorder");
    pid_of(0, "control");
}

/* A command to the stand-in core; waits until it is done. */
static void command(const char *format, unsigned long long a, unsigned b, const char *done) {
    char line[128];
    size_t from = t.size;
    snprintf(line, sizeof line, "%s", "");
    if (!strcmp(format, "ready")) snprintf(line, sizeof line, "ready %llx\n", a);
    else if (!strcmp(format, "commit")) snprintf(line, sizeof line, "commit %llu %u\n", a, b);
    else if (!strcmp(format, "end")) snprintf(line, sizeof line, "end %u %llu\n", b, a);
    else snprintf(line, sizeof line, "%s %llu\n", format, a);
    int fd = open(path_of("state/core/command"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, line, strlen(line)), (ssize_t)strlen(line));
    close(fd);
    line_after(from, done, WAIT);
}

static int ended(unsigned ms) {
    int status = -1;
    usec_t end = now_ms() + ms;
    while (waitpid(t.pid, &status, WNOHANG) != t.pid) {
        ck_assert_msg(now_ms() < end, "tidegated does not end; it said:\n%s", t.text);
        output_read(20);
    }
    t.pid = 0;
    output_read(50);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void teardown(void) {
    if (t.pid) {
        kill(t.pid, SIGTERM);
        for (unsigned i = 0; i < 400 && waitpid(t.pid, NULL, WNOHANG) != t.pid; i++) usleep(20000);
        kill(t.pid, SIGKILL);
    }
    if (t.output >= 0) close(t.output);
    free(t.text);
}

static void has(const char *line, const char *what) {
    char spaced[4200], wanted[256];
    snprintf(spaced, sizeof spaced, "%s ", line);
    snprintf(wanted, sizeof wanted, " %s ", what);
    ck_assert_msg(strstr(spaced, wanted), "no \"%s\" in: %s", what, line);
}

#endif
