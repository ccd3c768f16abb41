/* cli_test.c: the `tidegate` program itself, run on files and against a daemon played by the test. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    char program[600], base[32], dir[64], socket[128]; /* base: of all cases */
    pid_t daemon;
    char out[65536], err[65536]; /* of the last run */
    char asked[4096];            /* the request the daemon got */
    bool full;                   /* the next run cannot write its output */
} t;

/* ---- files --------------------------------------------------------------------------------------- */

static void file_write(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", t.dir, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void setup(void) {
    char path[256];
    snprintf(t.dir, sizeof t.dir, "%s/XXXXXX", t.base);
    ck_assert_ptr_nonnull(mkdtemp(t.dir));
    snprintf(path, sizeof path, "%s/policy", t.dir);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/policy/tools", t.dir);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/run", t.dir);
    mkdir(path, 0755);
    snprintf(t.socket, sizeof t.socket, "%s/run/control.sock", t.dir);
    file_write("policy/agents.yaml",
               "agents:\n  - { agent: research, sources: [10.77.1.16/28], tools: [web-search], "
               "mode: enforce }\ndeny: [ \"*.pastebin.example\" ]\n");
    file_write("policy/tools/web-search.yaml",
               "tool: web-search\nversion: 1.4.2\nowner: o@example.com\npurpose: search\nendpoints:\n"
               "  - { name: api.search.example, protocol: https, data: public }\n"
               "  - { name: b\xc3\xbc" "cher.example, protocol: tcp, port: [8443, 9443], data: public }\n");
    char text[1024];
    snprintf(text, sizeof text,
             "agents:\n  - interface: eth1\n    subnets: [10.77.1.0/24]\n"
             "uplink: { interface: eth0 }\nupstreams: [ { address: 192.0.2.53 } ]\n"
             "policy: %s/policy\nstate: %s/state\nruntime: \"%s/run\"   # quoted\n"
             "log: { directory: %s/log }\n", t.dir, t.dir, t.dir, t.dir);
    file_write("gateway.yaml", text);
    t.daemon = 0;
}

static void teardown(void) {
    if (!t.daemon) return;
    kill(t.daemon, SIGKILL);
    waitpid(t.daemon, NULL, 0);
}

static void remove_all(const char *path) {
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", "--", path, NULL);
        _exit(1);
    }
    waitpid(pid, NULL, 0);
}

/* ---- a daemon that says one thing ------------------------------------------------------------------ */

/* Answers every connection with `says` and writes the request to the file `asked`. */
static void daemon_says(const char *says) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, t.socket, strlen(t.socket) + 1 > sizeof at.sun_path ? 0 : strlen(t.socket) + 1);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    t.daemon = fork();
    if (t.daemon == 0) {
        for (;;) {
            char line[4096];
            int fd = accept(listener, NULL, NULL);
            ssize_t got = recv(fd, line, sizeof line - 1, 0);
            line[got > 0 ? got : 0] = 0;
            file_write("asked", line);
            (void)!send(fd, says, strlen(says), MSG_NOSIGNAL);
            close(fd);
        }
    }
    close(listener);
}

/* ---- running ---------------------------------------------------------------------------------------- */

static void read_file(const char *name, char *text, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", t.dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, size - 1);
    text[got > 0 ? got : 0] = 0;
    if (fd >= 0) close(fd);
}

/* Runs `tidegate` with the arguments, separated by '|'; "@" in front of one stands for the folder of
 * the case. Returns the exit status. */
static int run(const char *arguments) {
    char *words[32] = {t.program}, copy[1024], made[32][256];
    unsigned count = 1;
    int status;
    snprintf(copy, sizeof copy, "%s", arguments);
    for (char *rest = copy, *word; (word = strsep(&rest, "|")) && count < 31; count++) {
        words[count] = word;
        if (word[0] != '@') continue;
        snprintf(made[count], sizeof made[0], "%s/%s", t.dir, word + 1);
        words[count] = made[count];
    }
    char out[256], err[256];
    snprintf(out, sizeof out, "%s/out", t.dir);
    snprintf(err, sizeof err, "%s/err", t.dir);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(open(t.full ? "/dev/full" : out, O_WRONLY | O_CREAT | O_TRUNC, 0644), 1);
        dup2(open(err, O_WRONLY | O_CREAT | O_TRUNC, 0644), 2);
        setenv("LC_ALL", "C.UTF-8", 1);
        execv(t.program, words);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    t.full = false;
    read_file("out", t.out, sizeof t.out);
    read_file("err", t.err, sizeof t.err);
    read_file("asked", t.asked, sizeof t.asked);
    for (const char *c = t.out; *c; c++) ck_assert((unsigned char)*c >= 0x20 || *c == '\n');
    for (const char *c = t.err; *c; c++) ck_assert((unsigned char)*c >= 0x20 || *c == '\n');
    ck_assert_msg(WIFEXITED(status), "%s: %s", arguments, t.err);
    return WEXITSTATUS(status);
}

static void expect(const char *arguments, int status, const char *out, const char *err) {
    int got = run(arguments);
    ck_assert_msg(got == status, "%s: exit %d\n%s%s", arguments, got, t.out, t.err);
    ck_assert_msg(!out || strstr(t.out, out), "%s: no \"%s\" in:\n%s%s", arguments, out, t.out, t.err);
    ck_assert_msg(!err || strstr(t.err, err), "%s: no \"%s\" in:\n%s%s", arguments, err, t.err, t.out);
}

static json_t *json_out(void) {
    json_error_t error;
    json_t *o = json_loads(t.out, 0, &error);
    ck_assert_msg(o, "%s in: %s", error.text, t.out);
    return o;
}

/* ---- cases -------------------------------------------------------------------------------------------- */

START_TEST(usage) {
    expect("help", 0, "explain", NULL);
    expect("--help", 0, "usage: tidegate", NULL);
    expect("", 2, NULL, "`tidegate help` lists them");
    expect("version", 0, "tidegate ", NULL);
    expect("--version", 0, "tidegate ", NULL);
    expect("explian", 2, NULL, "did you mean \"explain\"?");
    expect("stat", 2, NULL, "did you mean \"status\"?");
    expect("frobnicate", 2, NULL, "`tidegate help` lists them");
    expect("help|relaod", 2, NULL, "did you mean \"reload\"?");
    expect("status|--jsno", 2, NULL, "did you mean \"--json\"?");
    expect("status|--client|10.0.0.1", 2, NULL, "takes no option");
    expect("status|extra", 2, NULL, "unexpected argument \"extra\"");
    expect("openings|--client", 2, NULL, "--client needs a value");
    expect("openings|--client|10.0.0.256", 2, NULL, "is not an IP address");
    expect("--json|status", 2, NULL, "--json belongs behind the command");
    expect("version|--json", 2, NULL, "version takes no option \"--json\"");
    expect("log", 2, NULL, "log needs a verb: tail;");
    expect("log|tail|--bogus", 2, NULL, "log tail takes no option \"--bogus\"; see");
    expect("log|tail|--lines", 2, NULL, "--lines needs a value; see");
    expect("openings|--json=1", 2, NULL, "--json takes no value");
    expect("why", 2, NULL, "needs an address");
    expect("why|example.com", 2, NULL, "is not an IP address");
    expect("explain|--client|10.0.0.1", 2, NULL, "--name");
    expect("explain|--client|10.0.0.1|--name|a..b", 2, NULL, "is not a domain name");
    expect("explain|--client|10.0.0.1|--name|a|--type|B", 2, NULL, "is not a record type");
    expect("-c|x|--socket|y|status", 2, NULL, "not both");
    expect("frob\x1b[31m", 2, NULL, "frob\\u001b[31m");
}
END_TEST

START_TEST(every_command_helps) {
    static const char *const names[] = {"check", "explain", "why", "status", "openings", "reload",
                                        "log"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "%s|--help", names[i]);
        expect(line, 0, names[i], NULL);
        snprintf(line, sizeof line, "help|%s", names[i]);
        expect(line, 0, names[i], NULL);
    }
}
END_TEST

START_TEST(check_files) {
    expect("check|@policy", 0, "good: agents 1, tools 1, endpoints 2, deny patterns 1; policy ", NULL);
    expect("check|-c|@gateway.yaml", 0, "good", NULL);
    expect("-c|@gateway.yaml|check", 0, "good", NULL);
    expect("check|--json|@policy", 0, NULL, NULL);
    json_t *o = json_out();
    ck_assert(json_is_true(json_object_get(o, "ok")));
    ck_assert_uint_eq(strlen(json_string_value(json_object_get(o, "policy"))), 64);
    json_decref(o);
    file_write("policy/tools/git.yaml",
               "tool: git\nversion: 1\nendpoints:\n  - { nam: x, protocol: ftp }\n");
    expect("check|@policy", 1, NULL, "git.yaml:4:");
    expect("check|--json|@policy", 1, NULL, NULL);
    o = json_out();
    ck_assert(json_is_false(json_object_get(o, "ok")));
    ck_assert_uint_gt(json_array_size(json_object_get(o, "report")), 0);
    json_decref(o);
    expect("check|@nothing", 1, NULL, "nothing");
}
END_TEST

START_TEST(explain_by_files) {
    expect("explain|--client|10.77.1.17|--name|API.search.example.|@policy", 0, "ALLOW", NULL);
    ck_assert_ptr_nonnull(strstr(t.out, "tcp/443"));
    ck_assert_ptr_nonnull(strstr(t.out, "web-search.yaml:6"));
    ck_assert_ptr_nonnull(strstr(t.out, "web-search@1.4.2"));
    ck_assert_ptr_nonnull(strstr(t.out, "files of "));
    expect("explain|--client|10.77.1.17|--name|steal.example|@policy", 1, "DENY", NULL);
    ck_assert_ptr_nonnull(strstr(t.out, "not-listed"));
    expect("explain|--client|10.77.9.17|--name|api.search.example|@policy", 1, "unknown-client", NULL);
    expect("explain|--client|10.77.1.17|--name|x.pastebin.example|--type|AAAA|@policy", 1,
           "deny agents.yaml:3", NULL);
    expect("explain|--client|10.77.1.17|--name|b\xc3\xbc" "cher.example|@policy", 0,
           "xn--bcher-kva.example (b\xc3\xbc" "cher.example)", NULL);
    ck_assert_ptr_nonnull(strstr(t.out, "tcp/8443,9443"));
    expect("explain|--client|10.77.1.17|--name|api.search.example|--json|@policy", 0, NULL, NULL);
    json_t *o = json_out();
    ck_assert_str_eq(json_string_value(json_object_get(o, "decision")), "allow");
    ck_assert_str_eq(json_string_value(json_object_get(o, "agent")), "research");
    json_decref(o);
    /* What the other IP family, the uplink and what is open have to do with it. */
    expect("explain|--client|10.77.1.17|--name|api.search.example|--type|AAAA|@policy", 1, "no-family", NULL);
    ck_assert_ptr_nonnull(strstr(t.out, "answer     NODATA"));
    ck_assert_ptr_nonnull(strstr(t.out, "note       list at most 16 IPv6 addresses of the agent"));
    expect("explain|--client|10.77.1.17|--name|7.100.51.198.in-addr.arpa|--type|PTR|@policy", 1,
           "note       answered while the client has an opening", NULL);
    /* No daemon: the files of -c FILE. */
    expect("explain|--client|10.77.1.17|--name|api.search.example|-c|@gateway.yaml", 0, "files of ",
           NULL);
}
END_TEST

START_TEST(explain_by_daemon) {
    daemon_says("{\"ok\":true,\"decision\":\"deny\",\"reason\":\"not-listed\",\"text\":\"no\","
                "\"name\":\"a.example\",\"client\":\"10.77.1.17\",\"type\":\"A\",\"opens\":[],"
                "\"policy\":\"00112233445566778899\"}\n");
    expect("explain|--client|10.77.1.17|--name|A.Example|-c|@gateway.yaml", 1, "in force", NULL);
    ck_assert_ptr_nonnull(strstr(t.asked, "\"name\":\"a.example\""));
    expect("explain|--client|10.77.1.17|--name|api.search.example|-c|@gateway.yaml|--files", 0,
           "files of ", NULL);
}
END_TEST

START_TEST(no_daemon) {
    expect("status|-c|@gateway.yaml", 1, NULL, "run/control.sock");
    ck_assert_ptr_nonnull(strstr(t.err, "is tidegated running?"));
    expect("--socket|@none|openings", 1, NULL, "none");
    /* Nothing that could be taken for "nothing is open". */
    expect("--socket|@none|openings|--json", 1, NULL, "none");
    ck_assert_str_eq(t.out, "");
    expect("why|10.0.0.1|--json|--socket|@none", 1, NULL, "none");
    ck_assert_str_eq(t.out, "");
    /* A mistyped -c is no other gateway. */
    expect("reload|-c|@gatewya.yaml", 1, NULL, "gatewya.yaml: No such file or directory (name a");
    expect("explain|--client|10.0.0.1|--name|a|-c|@gatewya.yaml", 1, NULL, "gatewya.yaml:1:1: ");
    expect("why|10.0.0.1|--socket|@none", 1, NULL, "none");
    expect("reload|--socket|@none", 1, NULL, "none");
    expect("explain|--client|10.0.0.1|--name|a|--socket|@none", 1, NULL, "none");
}
END_TEST

#define OPENING(remote, name)                                                                     \
    "{\"static\":false,\"client\":\"10.77.1.17\",\"remote\":\"" remote "\",\"protocol\":\"tcp\"," \
    "\"port\":443,\"name\":" name ",\"remaining\":3725,\"agent\":\"research\","                    \
    "\"tool\":\"web-search@1.4.2\",\"rule\":\"tools/web-search.yaml:6\"}\n"

START_TEST(openings_listed) {
    daemon_says(OPENING("198.51.100.7", "\"api.search.example\"")
                OPENING("2001:db8::7", "\"x\\u001b[31m\\u202e\\u009b.example\"")
                "{\"ok\":true,\"count\":2}\n");
    expect("openings|-c|@gateway.yaml|--client|10.77.1.17", 0, "1h 02m", NULL);
    ck_assert_ptr_nonnull(strstr(t.out, "x\\u001b[31m\\u202e\\u009b.example"));
    ck_assert_ptr_nonnull(strstr(t.asked, "\"client\":\"10.77.1.17\""));
    /* Aligned: the second column starts at the same place in every line. */
    size_t column = (size_t)(strstr(t.out, "remote") - t.out);
    ck_assert_uint_eq((size_t)(strstr(t.out, "198.51.100.7") - strchr(t.out, '\n') - 1), column);
    expect("openings|--socket|@run/control.sock|--json", 0, NULL, NULL);
    json_t *o = json_out();
    ck_assert_uint_eq(json_array_size(o), 2);
    json_decref(o);
    expect("why|198.51.100.7|-c|@gateway.yaml", 0, "2 openings", NULL);
    expect("why|198.51.100.7|-c|@gateway.yaml|--json", 0, NULL, NULL);
    o = json_out();
    ck_assert_uint_eq(json_array_size(json_object_get(o, "openings")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "count")), 2);
    json_decref(o);
}
END_TEST

START_TEST(nothing_is_open) {
    daemon_says("{\"ok\":true,\"count\":0,\"address\":\"10.0.0.1\",\"range\":\"private\",\"agent\":null}\n");
    expect("openings|-c|@gateway.yaml", 0, "no openings", NULL);
    expect("why|10.0.0.1|-c|@gateway.yaml", 1, "nothing is open to it", NULL);
    expect("why|10.0.0.1|-c|@gateway.yaml|--json", 1, "\"openings\":[]", NULL);
    json_decref(json_out());
}
END_TEST

START_TEST(reload_refused) {
    daemon_says("{\"ok\":false,\"error\":\"refused\",\"report\":[\"a.yaml:1:2: bad\\u001b thing\","
                "\"b.yaml:3:4: caf\xc3\xa9\"]}\n");
    file_write("broken.yaml", "runtime: ");
    expect("reload|-c|@gateway.yaml", 1, NULL, "a.yaml:1:2: bad\\u001b thing\nb.yaml:3:4: caf\xc3\xa9\n");
    /* It is found although the configuration is broken just now. */
    char text[512];
    snprintf(text, sizeof text, "agents: [[[\nnonsense\nruntime: %s/run\n", t.dir);
    file_write("broken.yaml", text);
    expect("reload|-c|@broken.yaml", 1, NULL, "b.yaml:3:4");
}
END_TEST

START_TEST(reload_done) {
    daemon_says("{\"ok\":true,\"policy\":\"00112233445566778899\",\"openings_revoked\":3,"
                "\"flows_revoked\":1,\"report\":[]}\n");
    expect("reload|-c|@gateway.yaml", 0, "revoked openings 3, flows 1", NULL);
}
END_TEST

START_TEST(status_shown) {
    daemon_says("{\"ok\":true,\"problems\":[\"the log cannot be written\"],\"notes\":[\"drift\"],"
                "\"policy\":\"00112233445566778899\",\"uptime\":61,\"openings\":7,"
                "\"processes\":{\"core\":{\"pid\":7,\"restarts\":0}},\"resolver\":{\"queries\":5}}\n");
    expect("status|-c|@gateway.yaml", 1, "1m 01s", NULL);
    ck_assert_int_eq(strncmp(t.out, "PROBLEM", 7), 0);
    expect("status|-c|@gateway.yaml|--json", 1, NULL, NULL);
    json_decref(json_out());
}
END_TEST

/* What cannot be written was not said. */
START_TEST(output_full) {
    daemon_says("{\"ok\":true,\"count\":0}\n");
    static const char *const commands[] = {"help", "version", "check|@policy", "openings|-c|@gateway.yaml"};
    for (unsigned i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        t.full = true;
        expect(commands[i], 1, NULL, "tidegate: standard output cannot be written: No space left");
    }
}
END_TEST

/* The log is found by a -c in front, too. */
START_TEST(log_of_the_instance) {
    char path[256];
    snprintf(path, sizeof path, "%s/log", t.dir);
    mkdir(path, 0755);
    file_write("log/tidegate.jsonl",
               "{\"time\":\"2026-11-30T13:37:00.000001Z\",\"kind\":\"stop\",\"text\":\"here\"}\n");
    expect("-c|@gateway.yaml|log|tail", 0, "here", NULL);
    expect("log|tail|-c|@gateway.yaml|--json", 0, "\"text\":\"here\"", NULL);
    expect("-c|@gatewya.yaml|log|tail", 1, NULL, "gatewya.yaml:1:1: does not exist");
}
END_TEST

START_TEST(strange_daemons) {
    static const char *const says[] = {"", "nonsense\n", "{\"a\":1}\n", "[]\n", "{\"ok\":false}\n",
                                       "{\"ok\":false,\"error\":\"no\\u0007\"}\n"};
    static const char *const commands[] = {"status", "openings", "openings|--json", "why|10.0.0.1",
                                           "why|10.0.0.1|--json", "reload"};
    daemon_says(says[_i]);
    for (unsigned i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char line[128];
        snprintf(line, sizeof line, "%s|--socket|@run/control.sock", commands[i]);
        expect(line, 1, NULL, strstr(commands[i], "reload") ? "tidegate: " : NULL);
    }
}
END_TEST

static Suite *cli_suite(void) {
    Suite *s = suite_create("cli");
    TCase *c = tcase_create("cli");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, usage);
    tcase_add_test(c, every_command_helps);
    tcase_add_test(c, check_files);
    tcase_add_test(c, explain_by_files);
    tcase_add_test(c, explain_by_daemon);
    tcase_add_test(c, no_daemon);
    tcase_add_test(c, openings_listed);
    tcase_add_test(c, nothing_is_open);
    tcase_add_test(c, reload_refused);
    tcase_add_test(c, reload_done);
    tcase_add_test(c, status_shown);
    tcase_add_test(c, output_full);
    tcase_add_test(c, log_of_the_instance);
    tcase_add_loop_test(c, strange_daemons, 0, 6);
    suite_add_tcase(s, c);
    return s;
}

int main(void) {
    ssize_t length = readlink("/proc/self/exe", t.program, sizeof t.program - 1);
    if (length < 0) return 1;
    for (unsigned i = 0; i < 2 && strrchr(t.program, '/'); i++) *strrchr(t.program, '/') = 0;
    size_t used = strlen(t.program);
    snprintf(t.program + used, sizeof t.program - used, "/bin/tidegate");
    snprintf(t.base, sizeof t.base, "/tmp/tgs-XXXXXX");
    if (!mkdtemp(t.base)) return 1;
    SRunner *r = srunner_create(cli_suite());
    srunner_run_all(r, CK_NORMAL);
    remove_all(t.base);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
