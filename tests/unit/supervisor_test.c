/* supervisor_test.c: the real tidegated with stand-ins for its children, in a network namespace of
 * its own. Needs root; without it each case is skipped by name. */
#include "tests/unit/supervisor_rig.h"

/* ---- what each process is given ---------------------------------------------------------------------- */

#define NO_CAPS "0000000000000000"
#define NET_ADMIN "0000000000001000"

/* What stands at the descriptors from 3 on; "@" stands for the folder of the case. */
static const struct given {
    const char *name, *caps, *descriptors[8];
} given[PROCESS_COUNT] = {
    [PROCESS_CORE] = {"core", NET_ADMIN,
                      {"socket:", "socket:", "socket:", "socket:", "/memfd:policy", "/dev/net/tun",
                       "@/state/core"}},
    [PROCESS_RESOLVER] = {"resolver", NO_CAPS,
                          {"socket:", "socket:", "/memfd:policy", "socket:", "socket:", "socket:",
                           "socket:"}},
    [PROCESS_RECORDER] = {"recorder", NO_CAPS,
                          {"socket:", "socket:", "/memfd:policy", "@/log",
                           "/memfd:recorder-state"}},
    [PROCESS_CONTROL] = {"control", NO_CAPS, {"socket:", "/memfd:policy", "socket:"}},
    [PROCESS_LOADER] = {"loader", NO_CAPS, {"/memfd:policy", "/memfd:report"}},
};

static void check_descriptors(const struct given *g, const char *line) {
    char what[128];
    for (int fd = 3; fd < 64; fd++) {
        const char *wanted = fd < 11 ? g->descriptors[fd - 3] : NULL;
        snprintf(what, sizeof what, " fd%d=%s%s", fd, !wanted || wanted[0] != '@' ? "" : t.dir,
                 !wanted ? "" : wanted + (wanted[0] == '@'));
        if (wanted) ck_assert_msg(strstr(line, what), "no \"%s\" in: %s", what, line);
        else ck_assert_msg(!strstr(line, what), "\"%s\" in: %s", what, line);
    }
}

static void check_child(size_t from, unsigned process) {
    static const char *const sets[] = {"CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh"};
    const struct given *g = &given[process];
    unsigned uid = UID_BASE + process;
    char what[64];
    snprintf(what, sizeof what, "standin %s pid=", g->name);
    const char *line = line_after(from, what, WAIT);
    snprintf(what, sizeof what, "Uid=%u,%u,%u,%u", uid, uid, uid, uid);
    has(line, what);
    snprintf(what, sizeof what, "Gid=%u,%u,%u,%u", uid, uid, uid, uid);
    has(line, what);
    has(line, "Groups=");
    for (unsigned i = 0; i < 5; i++) {
        snprintf(what, sizeof what, "%s=%s", sets[i], g->caps);
        has(line, what);
    }
    has(line, "NoNewPrivs=1");
    has(line, "death=9");
    has(line, "SigBlk=0000000000000000");
    has(line, "arg1=-");
    int kept = (getenv("ASAN_OPTIONS") != NULL) + (getenv("UBSAN_OPTIONS") != NULL) +
               (getenv("LSAN_OPTIONS") != NULL);
    snprintf(what, sizeof what, "env=%d", kept);
    has(line, what);
    check_descriptors(g, line);
}

START_TEST(each_gets_its_own_and_nothing_else) {
    char uids[128];
    start();
    for (unsigned p = 0; p < PROCESS_COUNT; p++) check_child(0, p);
    snprintf(uids, sizeof uids, "arg2=%d arg3=%d arg4=%d arg5=%d", UID_BASE + 1, UID_BASE + 2,
             UID_BASE + 3, UID_BASE + 4);
    has(line_after(0, "standin core", WAIT), uids);
    has(line_after(0, "standin control", WAIT), "arg2=0");
    snprintf(uids, sizeof uids, "arg2=%s/gateway.yaml", t.dir);
    has(line_after(0, "standin loader", WAIT), uids);
}
END_TEST

static unsigned long long status_bits(pid_t pid, const char *field) {
    char path[64], line[256];
    unsigned long long bits = ~0ull;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, field, strlen(field))) bits = strtoull(line + strlen(field), NULL, 16);
    if (f) fclose(f);
    return bits;
}

START_TEST(supervisor_keeps_few_capabilities) {
    /* KILL 5, SETGID 6, SETUID 7, SETPCAP 8, NET_ADMIN 12 */
    const unsigned long long kept = 1ull << 5 | 1ull << 6 | 1ull << 7 | 1ull << 8 | 1ull << 12;
    start();
    ck_assert_uint_eq(status_bits(t.pid, "CapEff:"), kept);
    ck_assert_uint_eq(status_bits(t.pid, "CapPrm:"), kept);
    ck_assert_uint_eq(status_bits(t.pid, "CapBnd:"), kept);
    ck_assert_uint_eq(status_bits(t.pid, "NoNewPrivs:"), 1);
}
END_TEST

static void check_folder(const char *name, unsigned uid, unsigned mode) {
    struct stat st;
    ck_assert_msg(stat(path_of(name), &st) == 0, "%s", name);
    ck_assert_uint_eq(st.st_uid, uid);
    ck_assert_uint_eq(st.st_mode & 07777, mode);
}

START_TEST(folders_have_owners_and_modes) {
    start();
    check_folder("run", 0, 0755);
    check_folder("state", 0, 0755);
    check_folder("state/policy", 0, 0755);
    check_folder("state/core", UID_BASE + PROCESS_CORE, 0700);
    check_folder("log", UID_BASE + PROCESS_RECORDER, 0750);
    check_folder("run/control.sock", 0, 0660);
}
END_TEST

/* ---- death ------------------------------------------------------------------------------------------- */

START_TEST(killed_child_is_back) {
    static const char *const names[] = {"core", "resolver", "recorder", "control"};
    start();
    pid_t pid = pid_of(0, names[_i]);
    size_t from = t.size;
    usec_t began = now_ms();
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    pid_t next = pid_of(from, names[_i]);
    ck_assert_int_ne(next, pid);
    ck_assert_uint_lt(now_ms() - began, RESTART_LIMIT);
    if (_i) line_after(from, "running=1 restarts=1", WAIT); /* core is told */
    check_child(from, (unsigned)_i);
}
END_TEST

START_TEST(successor_reads_what_was_queued) {
    start();
    pid_t pid = pid_of(0, "resolver");
    kill(pid, SIGSTOP);
    size_t from = t.size;
    for (unsigned i = 1; i <= 50; i++) command("state", 1000 + i, 0, "core sent");
    kill(pid, SIGKILL);
    pid_of(from, "resolver");
    for (unsigned i = 1; i <= 50; i++) {
        char what[64];
        snprintf(what, sizeof what, "resolver got STATE epoch=%u", 1000 + i);
        line_after(from, what, WAIT);
    }
}
END_TEST

START_TEST(what_a_dead_child_sent_is_kept) {
    start();
    pid_t pid = pid_of(0, "resolver");
    kill(pid, SIGUSR1);
    line_after(0, "resolver sent", WAIT);
    size_t from = t.size;
    kill(pid, SIGKILL);
    pid_of(from, "resolver");
    command("read", 0, 0, "core read 3 from resolver");
}
END_TEST

START_TEST(what_an_ended_child_sent_is_dropped) {
    start();
    pid_t pid = pid_of(0, "resolver");
    kill(pid, SIGUSR1);
    line_after(0, "resolver sent", WAIT);
    size_t from = t.size;
    command("end", (unsigned)pid, PROCESS_RESOLVER, "core sent");
    ck_assert_int_ne(pid_of(from, "resolver"), pid);
    command("read", 0, 0, "core read 0 from resolver");
    /* Once more about the one that is gone: its successor lives on. */
    from = t.size;
    command("end", (unsigned)pid, PROCESS_RESOLVER, "core sent");
    usleep(200000);
    ck_assert(!said(from, "standin resolver"));
}
END_TEST

START_TEST(restarts_back_off) {
    start();
    const unsigned least[] = {0, 90, 190, 390, 790}; /* ms; at most a busy machine's delay more */
    for (unsigned i = 0; i < 5; i++) {
        size_t from = t.size;
        static pid_t pid;
        if (i == 0) pid = pid_of(0, "control");
        usec_t began = now_ms();
        kill(pid, SIGKILL);
        pid = pid_of(from, "control");
        usec_t away = now_ms() - began;
        ck_assert_msg(away >= least[i] && away <= least[i] + 1500, "restart %u after %llu ms", i,
                      (unsigned long long)away);
    }
}
END_TEST

START_TEST(core_that_talks_garbage_is_ended) {
    start();
    pid_t pid = pid_of(0, "core");
    size_t from = t.size;
    command("garbage", 0, 0, "core is ended");
    ck_assert_int_ne(pid_of(from, "core"), pid);
    line_after(from, "core got CHILD process=1", WAIT); /* it learns of the others */
}
END_TEST

START_TEST(children_die_with_the_supervisor) {
    static const char *const names[] = {"core", "resolver", "recorder", "control"};
    pid_t pids[4];
    start();
    for (unsigned i = 0; i < 4; i++) pids[i] = pid_of(0, names[i]);
    kill(t.pid, SIGKILL);
    ck_assert_int_eq(ended(WAIT), -SIGKILL);
    for (unsigned i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/fd", (int)pids[i]);
        for (usec_t end = now_ms() + WAIT; access(path, F_OK) == 0; usleep(10000)) {
            char line[256] = "";
            snprintf(path, sizeof path, "/proc/%d/stat", (int)pids[i]);
            FILE *f = fopen(path, "r");
            if (f && fgets(line, sizeof line, f) && strstr(line, ") Z ")) { /* init's to reap */
                fclose(f);
                break;
            }
            if (f) fclose(f);
            ck_assert_msg(now_ms() < end, "%s lives on", names[i]);
        }
    }
    size_t from = t.size;
    start_with(NULL, -1); /* the next one takes over at once */
    pid_of(from, "core");
}
END_TEST

/* ---- loading ------------------------------------------------------------------------------------------ */

static int notify_socket(void) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path_of("notify"));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static bool notified(int fd, const char *what, unsigned ms) {
    char text[256];
    for (usec_t end = now_ms() + ms; now_ms() < end; usleep(10000)) {
        ssize_t got = recv(fd, text, sizeof text - 1, 0);
        if (got < 0) continue;
        text[got] = 0;
        if (strstr(text, what)) return true;
    }
    return false;
}

static void current_is(unsigned which) {
    char target[256] = "", wanted[128];
    snprintf(wanted, sizeof wanted, "%s.img", t.digest[which]);
    for (usec_t end = now_ms() + WAIT; now_ms() < end && strcmp(target, wanted); usleep(10000)) {
        ssize_t got = readlink(path_of("state/policy/current"), target, sizeof target - 1);
        target[got > 0 ? got : 0] = 0;
    }
    ck_assert_str_eq(target, wanted);
}

START_TEST(ready_is_notified_and_the_image_kept) {
    int fd = notify_socket();
    start_with(NULL, fd);
    pid_of(0, "core");
    ck_assert(!notified(fd, "READY=1", 200));
    ck_assert_int_ne(access(path_of("state/policy/current"), F_OK), 0);
    command("ready", t.policy[0], 0, "core sent");
    ck_assert(notified(fd, "READY=1", WAIT));
    current_is(0);
    kill(t.pid, SIGTERM);
    ck_assert(notified(fd, "STOPPING=1", WAIT));
    close(fd);
}
END_TEST

START_TEST(core_asks_and_takes) {
    char what[128];
    start();
    command("ready", t.policy[0], 0, "core sent");
    config_image(1);
    size_t from = t.size;
    command("load", 7, 0, "core got LOADED id=7 ok=1 faults=0 sealed=1");
    snprintf(what, sizeof what, "policy=%llx", (unsigned long long)t.policy[1]);
    ck_assert_ptr_nonnull(strstr(line_after(from, "core got LOADED", WAIT), what));
    current_is(0); /* not before core took it */
    command("commit", 7, 1, "core sent");
    current_is(1);
    /* A child started from now on gets it. */
    from = t.size;
    kill(pid_of(0, "resolver"), SIGKILL);
    pid_of(from, "resolver");
}
END_TEST

START_TEST(core_refuses) {
    start();
    command("ready", t.policy[0], 0, "core sent");
    config_image(1);
    command("load", 8, 0, "core got LOADED id=8 ok=1");
    command("commit", 8, 0, "core sent");
    command("load", 9, 0, "core got LOADED id=9 ok=1"); /* the next load is not stuck */
    current_is(0);
}
END_TEST

START_TEST(one_load_after_the_other) {
    start();
    size_t from = t.size;
    for (unsigned i = 1; i <= 3; i++) command("load", i, 0, "core sent");
    line_after(from, "core got LOADED id=1 ok=1", WAIT);
    usleep(300000);
    ck_assert(!said(from, "LOADED id=2"));
    command("commit", 1, 1, "core got LOADED id=2 ok=1");
    command("commit", 2, 0, "core got LOADED id=3 ok=1");
}
END_TEST

START_TEST(sighup_loads) {
    start();
    size_t from = t.size;
    config_image(1);
    kill(t.pid, SIGHUP);
    line_after(from, "core got LOADED id=0 ok=1", WAIT);
    command("commit", 0, 1, "core sent");
    current_is(1);
}
END_TEST

START_TEST(bad_loads_are_reported) {
    static const struct {
        const char *config, *report;
    } cases[] = {{"#fault", "gateway.yaml:9:1: worse thing|"},
                 {"#crash", "the loader ended before it was done|"},
                 {"#garbage", "the loader made an image that is not valid|"}};
    start();
    config_write(cases[_i].config);
    size_t from = t.size;
    command("load", 3, 0, "core got LOADED id=3 ok=0");
    const char *line = line_after(from, "core got LOADED id=3", WAIT);
    ck_assert_msg(strstr(line, cases[_i].report) && strstr(line, "sealed=1"), "%s", line);
    ck_assert_int_gt(number_in(line, "faults="), 0);
    output_read(50);
    ck_assert_ptr_null(strchr(t.text + from, 0x1b)); /* nothing steers the terminal: our log */
    config_image(1);
    command("load", 4, 0, "core got LOADED id=4 ok=1");
}
END_TEST

START_TEST(hanging_loader_is_ended) {
    start();
    config_write("#hang");
    size_t from = t.size;
    usec_t began = now_ms();
    command("load", 3, 0, "core sent");
    const char *line = line_after(from, "core got LOADED id=3 ok=0", WAIT);
    ck_assert_msg(strstr(line, "longer than 10 s"), "%s", line);
    ck_assert_uint_ge(now_ms() - began, 9900);
}
END_TEST

START_TEST(other_directories_need_a_restart) {
    start();
    image_make(1, "elsewhere");
    config_image(1);
    size_t from = t.size;
    command("load", 5, 0, "core got LOADED id=5 ok=0");
    const char *line = line_after(from, "core got LOADED id=5", WAIT);
    ck_assert_msg(strstr(line, "needs a restart"), "%s", line);
}
END_TEST

START_TEST(core_dies_while_it_loads) {
    start();
    config_image(1);
    command("load", 5, 0, "core got LOADED id=5 ok=1");
    size_t from = t.size;
    kill(pid_of(0, "core"), SIGKILL); /* before it said whether it takes it */
    pid_of(from, "core");
    usleep(100000);
    ck_assert(!said(from, "LOADED"));
    command("load", 1, 0, "core got LOADED id=1 ok=1");
    command("commit", 1, 1, "core sent");
    current_is(1);
}
END_TEST

START_TEST(sighup_outlives_core) {
    start();
    pid_t pid = pid_of(0, "core");
    config_image(1);
    size_t from = t.size;
    if (_i == 0) { /* it is offered, and core dies before it says whether it takes it */
        kill(t.pid, SIGHUP);
        line_after(from, "core got LOADED id=0 ok=1", WAIT);
        from = t.size;
        kill(pid, SIGKILL);
    } else { /* there is no core just now */
        kill(pid, SIGKILL);
        kill(t.pid, SIGHUP);
    }
    pid_of(from, "core");
    line_after(from, "core got LOADED id=0 ok=1", WAIT);
    command("commit", 0, 1, "core sent");
    current_is(1);
}
END_TEST

/* ---- start ------------------------------------------------------------------------------------------- */

static void refused(int status, const char *why) {
    size_t from = t.size;
    start_with(NULL, -1);
    ck_assert_int_eq(ended(WAIT), status);
    ck_assert_msg(t.text && strstr(t.text + from, why), "no \"%s\" in:\n%s", why, t.text + from);
    ck_assert_ptr_null(strstr(t.text + from, "standin core"));
}

START_TEST(faulty_without_a_last_good_one) {
    config_write("#fault");
    refused(78, "gateway.yaml:7:3: bad thing");
}
END_TEST

START_TEST(faulty_with_a_last_good_one) {
    start();
    command("ready", t.policy[0], 0, "core sent");
    current_is(0);
    kill(t.pid, SIGTERM);
    ck_assert_int_eq(ended(6000), 0);
    config_write("#fault");
    size_t from = t.size;
    start_with(NULL, -1);
    pid_of(from, "core");
    line_after(from, "LAST GOOD POLICY", WAIT);
    line_after(from, "gateway.yaml:9:1: worse thing", WAIT);
    config_image(1); /* and when it is corrected it is taken */
    kill(t.pid, SIGHUP);
    line_after(from, "core got LOADED id=0 ok=1", WAIT);
}
END_TEST

/* A disk that lost bits: the image is kept anew, though a file of its name and size is there. */
START_TEST(damaged_image_is_kept_anew) {
    char path[192], byte;
    start();
    command("ready", t.policy[0], 0, "core sent");
    current_is(0);
    kill(t.pid, SIGTERM);
    ck_assert_int_eq(ended(6000), 0);
    snprintf(path, sizeof path, "%s/state/policy/%s.img", t.dir, t.digest[0]);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(pread(fd, &byte, 1, 1000), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, 1000), 1);
    close(fd);
    unlink(path_of("state/policy/current"));
    size_t from = t.size;
    start_with(NULL, -1);
    pid_of(from, "core");
    command("ready", t.policy[0], 0, "core sent");
    current_is(0);
    kill(t.pid, SIGTERM);
    ck_assert_int_eq(ended(6000), 0);
    config_write("#fault");
    from = t.size;
    start_with(NULL, -1);
    line_after(from, "LAST GOOD POLICY", WAIT);
}
END_TEST

START_TEST(last_good_one_of_another_configuration) {
    start();
    command("ready", t.policy[0], 0, "core sent");
    current_is(0);
    kill(t.pid, SIGTERM);
    ck_assert_int_eq(ended(6000), 0);
    unlink(path_of("state/policy/source"));
    ck_assert_int_eq(symlink("/etc/other.yaml", path_of("state/policy/source")), 0);
    config_write("#fault");
    refused(78, "no last good one");
}
END_TEST

START_TEST(check_says_and_ends) {
    start_with("--check", -1);
    ck_assert_int_eq(ended(WAIT), 0);
    config_write("#fault");
    size_t from = t.size;
    start_with("--check", -1);
    ck_assert_int_eq(ended(WAIT), 1);
    char line[256]; /* bare, as an editor wants it */
    snprintf(line, sizeof line, "\n%s/gateway.yaml:9:1: worse thing\n", t.dir);
    ck_assert_msg(strstr(t.text + from, line), "%s", t.text + from);
    ck_assert_ptr_null(strchr(t.text + from, 0x1b));
    ck_assert_int_ne(access(path_of("run"), F_OK), 0);
}
END_TEST

START_TEST(second_instance_is_refused) {
    start();
    pid_t first = t.pid;
    int output = dup(t.output); /* its children still write there */
    refused(1, "already runs over");
    close(output);
    t.pid = first;
    ck_assert_int_eq(kill(first, 0), 0);
}
END_TEST

static int control_bind(void) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    mkdir(path_of("run"), 0755);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path_of("run/control.sock"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(fd, 100), 0);
    return fd;
}

START_TEST(dead_socket_is_replaced_and_a_live_one_respected) {
    int fd = control_bind();
    refused(1, "another process answers on it");
    close(fd);
    start();
    check_folder("run/control.sock", 0, 0660);
}
END_TEST

START_TEST(file_in_place_of_the_socket) {
    mkdir(path_of("run"), 0755);
    file_write("run/control.sock", "x");
    refused(1, "remove it");
}
END_TEST

START_TEST(log_directory_of_others) {
    mkdir(path_of("log"), 0755);
    file_write("log/precious", "x");
    refused(1, "is not empty");
    check_folder("log", 0, 0755);
}
END_TEST

START_TEST(state_that_others_can_write) {
    mkdir(path_of("state"), 0777);
    chmod(path_of("state"), 0777);
    refused(1, "must belong to root");
}
END_TEST

START_TEST(port_is_taken) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(53)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    refused(1, "systemd-resolved");
    close(fd);
}
END_TEST

/* ---- stop -------------------------------------------------------------------------------------------- */

START_TEST(stops_in_order) {
    start();
    size_t from = t.size;
    kill(t.pid, _i ? SIGINT : SIGTERM);
    ck_assert_int_eq(ended(3000), 0);
    ck_assert_ptr_nonnull(strstr(t.text + from, "core got STOP"));
    ck_assert_ptr_null(strstr(t.text + from, "standin"));
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* and left no child behind */
    ck_assert_int_ne(access(path_of("run/control.sock"), F_OK), 0);
}
END_TEST

START_TEST(stops_without_core) {
    start();
    command("mute", 0, 0, "core is mute");
    usec_t began = now_ms();
    kill(t.pid, SIGTERM);
    ck_assert_int_eq(ended(7000), 0);
    ck_assert_uint_ge(now_ms() - began, 2900);
}
END_TEST

/* ---- the suite ----------------------------------------------------------------------------------------- */

static Suite *supervisor_suite(void) {
    Suite *s = suite_create("supervisor");
    TCase *c = tcase_create("supervisor");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, each_gets_its_own_and_nothing_else);
    tcase_add_test(c, supervisor_keeps_few_capabilities);
    tcase_add_test(c, folders_have_owners_and_modes);
    tcase_add_loop_test(c, killed_child_is_back, 0, 4);
    tcase_add_test(c, successor_reads_what_was_queued);
    tcase_add_test(c, what_a_dead_child_sent_is_kept);
    tcase_add_test(c, what_an_ended_child_sent_is_dropped);
    tcase_add_test(c, restarts_back_off);
    tcase_add_test(c, core_that_talks_garbage_is_ended);
    tcase_add_test(c, children_die_with_the_supervisor);
    tcase_add_test(c, ready_is_notified_and_the_image_kept);
    tcase_add_test(c, core_asks_and_takes);
    tcase_add_test(c, core_refuses);
    tcase_add_test(c, one_load_after_the_other);
    tcase_add_test(c, sighup_loads);
    tcase_add_loop_test(c, bad_loads_are_reported, 0, 3);
    tcase_add_test(c, hanging_loader_is_ended);
    tcase_add_test(c, other_directories_need_a_restart);
    tcase_add_test(c, core_dies_while_it_loads);
    tcase_add_loop_test(c, sighup_outlives_core, 0, 2);
    tcase_add_test(c, faulty_without_a_last_good_one);
    tcase_add_test(c, faulty_with_a_last_good_one);
    tcase_add_test(c, damaged_image_is_kept_anew);
    tcase_add_test(c, last_good_one_of_another_configuration);
    tcase_add_test(c, check_says_and_ends);
    tcase_add_test(c, second_instance_is_refused);
    tcase_add_test(c, dead_socket_is_replaced_and_a_live_one_respected);
    tcase_add_test(c, file_in_place_of_the_socket);
    tcase_add_test(c, log_directory_of_others);
    tcase_add_test(c, state_that_others_can_write);
    tcase_add_test(c, port_is_taken);
    tcase_add_loop_test(c, stops_in_order, 0, 2);
    tcase_add_test(c, stops_without_core);
    suite_add_tcase(s, c);
    return s;
}

int main(int argc, char **argv) {
    int status = standin_main(argc, argv);
    if (status >= 0) return status;
    if (geteuid() != 0) {
        puts("supervisor: all cases skipped: they need root");
        return 0;
    }
    ssize_t length = readlink("/proc/self/exe", t.self, sizeof t.self - 1);
    if (length < 0) return 1;
    snprintf(t.bin, sizeof t.bin, "%.*s", (int)length, t.self);
    for (unsigned i = 0; i < 2 && strrchr(t.bin, '/'); i++) *strrchr(t.bin, '/') = 0;
    size_t used = strlen(t.bin);
    snprintf(t.bin + used, sizeof t.bin - used, "/bin/tidegated");
    if (access("/dev/net/tun", R_OK | W_OK) != 0) {
        puts("supervisor: all cases skipped: there is no /dev/net/tun");
        return 0;
    }
    snprintf(t.base, sizeof t.base, "/tmp/tgs-XXXXXX");
    if (!mkdtemp(t.base) || chmod(t.base, 0755) < 0) return 1;
    SRunner *r = srunner_create(supervisor_suite());
    srunner_run_all(r, CK_NORMAL);
    remove_all(t.base); /* here, since a case that fails does not come to its teardown */
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
