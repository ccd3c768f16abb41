/* control_rig.h: the control process in a child, a client on its socket, a core played by the test. */
#ifndef TESTS_UNIT_CONTROL_RIG_H
#define TESTS_UNIT_CONTROL_RIG_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/control/control.h"
#include "gateway/control/rrtype.h"
#include "gateway/policy/load/load.h"

static struct {
    char base[32], dir[64]; /* base: of all cases */
    struct sockaddr_un at;
    struct channel core; /* our end: we are core */
    pid_t pid;
    uint64_t policy;
} t;

static usec_t now_ms(void) { return clock_now(&clock_system) / USEC_PER_MSEC; }

/* ---- the process under test ------------------------------------------------------------------------ */

static void on_term(uv_signal_t *s, int number) {
    (void)number;
    control_close(s->data);
    uv_close((uv_handle_t *)s, NULL);
}

/* In a child, which ends by SIGTERM in order, so that leaks are reported. */
static _Noreturn void control_process(int core, int image, int listener) {
    uv_loop_t loop;
    struct control control;
    uv_signal_t term;
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&loop);
    if (control_open(&control, &loop, core, image, listener, 0) < 0) _exit(3);
    uv_signal_init(&loop, &term);
    term.data = &control;
    uv_signal_start(&term, on_term, SIGTERM);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_run(&loop, UV_RUN_DEFAULT);
    munmap(control.map, control.map_size);
    exit(uv_loop_close(&loop) == 0 ? 0 : 4);
}

static void file_write(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", t.dir, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static const char manifest[] =
    "tool: web-search\nversion: 1.4.2\nowner: search@example.com\npurpose: query the search API\n"
    "endpoints:\n  - { name: api.search.example, protocol: https, data: public }\n"
    "  - { name: \"*.cdn.search.example\", protocol: tcp, port: [8443, 9443], data: internal }\n"
    "  - { address: 203.0.114.0/24, protocol: udp, port: 123, data: public }\n";

/* A sealed image of a small policy with this deny pattern. */
static int image_make(const char *deny) {
    char text[512];
    struct load_result r;
    struct policy p;
    snprintf(text, sizeof text,
             "agents:\n  - { agent: research, sources: [10.77.1.16/28, \"fd77:1::10/124\"], "
             "tools: [web-search], mode: enforce }\ndeny: [ \"%s\" ]\n", deny);
    file_write("tools/web-search.yaml", manifest);
    file_write("agents.yaml", text);
    struct load_source source = {.directory = t.dir};
    ck_assert_int_eq(load_policy(&source, stderr, &r), 0);
    ck_assert_int_eq(policy_open(&p, r.image, r.size), 0);
    t.policy = policy_id(&p);
    int fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(write(fd, r.image, r.size), (ssize_t)r.size);
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    load_result_free(&r);
    return fd;
}

static void setup(void) {
    char path[128];
    int pair[2];
    t.core = (struct channel){0};
    snprintf(t.dir, sizeof t.dir, "%s/XXXXXX", t.base);
    ck_assert_ptr_nonnull(mkdtemp(t.dir));
    snprintf(path, sizeof path, "%s/tools", t.dir);
    mkdir(path, 0755);
    int image = image_make("*.pastebin.example");
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    t.core.fd = pair[0];
    t.at.sun_family = AF_UNIX;
    snprintf(t.at.sun_path, sizeof t.at.sun_path, "%s/control.sock", t.dir);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&t.at, sizeof t.at), 0);
    ck_assert_int_eq(listen(listener, 64), 0);
    t.pid = fork();
    if (t.pid == 0) control_process(pair[1], image, listener);
    close(pair[1]);
    close(image);
    close(listener);
}

static int process_end(void) {
    int status = -1;
    kill(t.pid, SIGTERM);
    for (usec_t end = now_ms() + 5000; waitpid(t.pid, &status, WNOHANG) != t.pid; usleep(5000))
        if (now_ms() > end) kill(t.pid, SIGKILL);
    t.pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void teardown(void) {
    int status = t.pid ? process_end() : 0;
    close(t.core.fd);
    ck_assert_int_eq(status, 0);
}

static void remove_all(const char *path) {
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", "--", path, NULL);
        _exit(1);
    }
    waitpid(pid, NULL, 0);
}

/* ---- a client --------------------------------------------------------------------------------------- */

static int client(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&t.at, sizeof t.at), 0);
    return fd;
}

static void ask(int fd, const char *line) {
    ck_assert_int_eq(send(fd, line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
}

/* The next line as JSON; NULL at the end. */
static json_t *answer(int fd) {
    static char line[65536];
    size_t used = 0;
    for (;;) {
        ssize_t got = recv(fd, line + used, 1, 0);
        if (got <= 0) {
            ck_assert_uint_eq(used, 0);
            ck_assert_msg(got == 0 || errno == ECONNRESET, "no answer: %s", strerror(errno));
            return NULL;
        }
        if (line[used++] == '\n') break;
        ck_assert_uint_lt(used, sizeof line);
    }
    for (size_t i = 0; i + 1 < used; i++)
        ck_assert((unsigned char)line[i] >= 0x20 && (unsigned char)line[i] < 0x7f);
    json_error_t error;
    json_t *o = json_loadb(line, used, 0, &error);
    ck_assert_msg(json_is_object(o), "%.*s", (int)used, line);
    return o;
}

static const char *text_in(const json_t *o, const char *key) {
    const char *text = json_string_value(json_object_get(o, key));
    ck_assert_msg(text, "no text \"%s\"", key);
    return text;
}

static void expect_error(int fd, const char *what) {
    json_t *o = answer(fd);
    ck_assert(o && json_is_false(json_object_get(o, "ok")));
    ck_assert_msg(strstr(text_in(o, "error"), what), "%s", text_in(o, "error"));
    json_decref(o);
}

static void expect_version(int fd) {
    ask(fd, "{\"op\":\"version\"}\n");
    json_t *o = answer(fd);
    ck_assert_str_eq(text_in(o, "version"), TIDEGATE_VERSION);
    json_decref(o);
}

/* ---- core ------------------------------------------------------------------------------------------- */

/* The next question to core; `ms` 0: there is to be none. */
static bool asked(struct proto_message *m, unsigned ms) {
    uint64_t accept = PROTO_BIT(ASK_STATUS) | PROTO_BIT(ASK_OPENINGS) | PROTO_BIT(ASK_RELOAD) |
                      PROTO_BIT(POLICY_USED);
    struct pollfd wait = {.fd = t.core.fd, .events = POLLIN};
    poll(&wait, 1, (int)ms);
    int got = channel_receive(&t.core, m, accept);
    ck_assert_int_ge(got, 0);
    return got == 1;
}

static struct msg_ask core_asked(enum proto_type type) {
    struct proto_message m;
    ck_assert(asked(&m, 5000));
    ck_assert_int_eq(m.head.type, type);
    return *(struct msg_ask *)proto_body(&m);
}

static struct addr addr_of(const char *text) {
    struct addr a;
    ck_assert_int_eq(addr_parse(text, &a), 0);
    return a;
}

static void core_openings(uint64_t id, uint64_t cursor, unsigned count, unsigned first) {
    struct proto_message m;
    struct msg_openings *page = proto_begin(&m, PROTO_OPENINGS, count);
    page->id = id;
    page->cursor = cursor;
    for (unsigned i = 0; i < count; i++) {
        struct msg_opening *o = proto_item(&m, i);
        o->client = addr_of("10.77.1.17");
        o->remote = addr_from4((uint8_t[]){198, 51, (uint8_t)((first + i) >> 8), (uint8_t)(first + i)});
        o->port = 443;
        o->protocol = IPPROTO_TCP;
        o->mark = 0x40001;
        o->agent = o->endpoint = 0;
        o->remaining = 60;
        ck_assert_int_eq(name_from_text("api.search.example", &o->name), 0);
    }
    ck_assert_int_eq(channel_send(&t.core, &m), 0);
}

#endif
