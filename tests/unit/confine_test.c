/* confine_test.c: what a confined process can and cannot do. Each case runs in a child of its own,
 * which ends by itself (0: the act succeeded, 1: it failed) or by SIGSYS. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <nftables/libnftables.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "gateway/base/clock.h"
#include "gateway/base/confine.h"
#include "gateway/base/log.h"

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED true
#else
#define SANITIZED false
#endif

#define STRANGER 64321 /* a user and group that nothing belongs to */

/* Runs `act` in a child. Returns its exit code, or the negative of the signal that ended it. */
static int outcome(int (*act)(void *), void *arg) {
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) _exit(act(arg));
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- identity and limits ------------------------------------------------------------------- */

/* A hexadecimal field of /proc/self/status, such as "CapEff". */
static unsigned long long status_field(const char *name) {
    char line[256];
    unsigned long long value = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        size_t length = strlen(name);
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            value = strtoull(line + length + 1, NULL, 16);
    }
    if (f) fclose(f);
    return value;
}

static bool may_mark_packets(void) { /* needs CAP_NET_ADMIN, or CAP_NET_RAW */
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bool may = setsockopt(fd, SOL_SOCKET, SO_MARK, &(int){1}, sizeof(int)) == 0;
    close(fd);
    return may;
}

static bool is_stranger(void) {
    uid_t r, e, s;
    gid_t rg, eg, sg;
    if (getresuid(&r, &e, &s) < 0 || getresgid(&rg, &eg, &sg) < 0) return false;
    return r == STRANGER && e == STRANGER && s == STRANGER && rg == STRANGER && eg == STRANGER &&
           sg == STRANGER && getgroups(0, NULL) == 0;
}

static bool capabilities_are(unsigned long long mask) {
    return status_field("CapPrm") == mask && status_field("CapEff") == mask &&
           status_field("CapInh") == 0 && status_field("CapBnd") == mask &&
           status_field("CapAmb") == 0 && status_field("NoNewPrivs") == 1;
}

static int keeps_one(void *arg) {
    (void)arg;
    const int keep[] = {CAP_NET_ADMIN};
    if (setgroups(2, (gid_t[]){4, 5}) < 0) return 2;
    if (confine_identity(STRANGER, STRANGER, keep, 1) < 0) return 3;
    if (!is_stranger()) return 4;
    if (!capabilities_are(1ull << CAP_NET_ADMIN)) return 5;
    if (!may_mark_packets()) return 6;
    if (setuid(0) == 0 || chroot("/") == 0) return 7;
    /* Once more, as the process that was started under its user already: nothing changes. */
    if (confine_identity(STRANGER, STRANGER, keep, 1) < 0) return 8;
    if (!is_stranger() || !may_mark_packets()) return 9;
    if (confine_identity(STRANGER, STRANGER, NULL, 0) < 0) return 10;
    return may_mark_packets() ? 11 : 0;
}

static int keeps_none(void *arg) {
    (void)arg;
    if (confine_identity(STRANGER, STRANGER, NULL, 0) < 0) return 2;
    return is_stranger() && capabilities_are(0) && !may_mark_packets() ? 0 : 3;
}

static int cannot_gain(void *arg) {
    (void)arg;
    if (confine_identity(STRANGER, STRANGER, NULL, 0) < 0) return 2;
    const int keep[] = {CAP_NET_ADMIN};
    if (confine_identity(STRANGER, STRANGER, keep, 1) != -EPERM) return 3;
    return confine_identity(0, 0, NULL, 0) == -EPERM ? 0 : 4;
}

static int stays_root(void *arg) {
    (void)arg;
    const int keep[] = {CAP_NET_ADMIN};
    if (confine_identity(0, 0, keep, 1) < 0) return 2;
    return capabilities_are(1ull << CAP_NET_ADMIN) && chroot("/") < 0 ? 0 : 3;
}

START_TEST(identity) {
    if (geteuid() != 0) return; /* make check runs as root */
    ck_assert_int_eq(outcome(keeps_one, NULL), 0);
    ck_assert_int_eq(outcome(keeps_none, NULL), 0);
    ck_assert_int_eq(outcome(cannot_gain, NULL), 0);
    ck_assert_int_eq(outcome(stays_root, NULL), 0);
}
END_TEST

static int is_limited(void *arg) {
    (void)arg;
    struct rlimit core, files;
    char name[16];
    if (confine_limits("tidegate-x", 128) < 0) return 2;
    if (getrlimit(RLIMIT_CORE, &core) < 0 || core.rlim_cur != 0 || core.rlim_max != 0) return 3;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur != 128 || files.rlim_max != 128)
        return 4;
    if (prctl(PR_GET_DUMPABLE) != 0) return 5;
    if (prctl(PR_GET_NAME, name) < 0 || strcmp(name, "tidegate-x") != 0) return 6;
    if (syscall(SYS_io_uring_setup, 8, NULL) != -1 || errno != ENOSYS) return 7;
    return 0;
}

START_TEST(limits) {
    ck_assert_int_eq(outcome(is_limited, NULL), 0);
}
END_TEST

/* ---- system calls: single acts ------------------------------------------------------------- */

static int fails(bool failed) {
    return failed ? 1 : 0;
}

static int act_nothing(void) {
    return 0;
}

static int act_read_file(void) {
    return fails(open("/proc/self/status", O_RDONLY | O_CLOEXEC) < 0);
}

static int act_write_file(void) {
    return fails(open("confine-test", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0);
}

static int act_truncate_file(void) {
    return fails(open("confine-test", O_RDONLY | O_TRUNC | O_CLOEXEC) < 0);
}

static int act_unlink(void) {
    return fails(unlinkat(AT_FDCWD, "confine-test-none", 0) < 0 && errno != ENOENT);
}

static int act_exec(void) {
    execl("/bin/true", "true", (char *)NULL);
    return 1;
}

static int act_fork(void) {
    pid_t child = fork();
    if (child == 0) _exit(7);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    return fails(!WIFEXITED(status) || WEXITSTATUS(status) != 7);
}

static int act_namespace(void) {
    /* As clone() of a user namespace: the first step of many attacks on the kernel. */
    return fails(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL) < 0);
}

static int act_unshare(void) {
    return fails(unshare(CLONE_NEWNS) < 0);
}

static void *thread_body(void *arg) {
    *(int *)arg = 5;
    return NULL;
}

static int act_thread(void) {
    pthread_t thread;
    int seen = 0;
    if (pthread_create(&thread, NULL, thread_body, &seen) != 0) return 1;
    return fails(pthread_join(thread, NULL) != 0 || seen != 5);
}

static void on_work(uv_work_t *w) {
    *(int *)w->data = 5;
}

static int act_work(void) { /* libuv's own threads, four of them */
    uv_loop_t loop;
    int seen = 0;
    uv_work_t work = {.data = &seen};
    if (uv_loop_init(&loop) != 0 || uv_queue_work(&loop, &work, on_work, NULL) != 0) return 1;
    return fails(uv_run(&loop, UV_RUN_DEFAULT) != 0 || seen != 5);
}

static int act_read_limit(void) {
    struct rlimit limit;
    return fails(getrlimit(RLIMIT_STACK, &limit) < 0);
}

static int act_set_limit(void) {
    return fails(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) < 0);
}

static int act_ptrace(void) {
    return fails(ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0);
}

static int act_kill(void) {
    return fails(kill(getppid(), 0) < 0);
}

static int act_prctl(void) {
    return fails(prctl(PR_SET_DUMPABLE, 1) < 0);
}

static int act_map_code(void) {
    void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return fails(at == MAP_FAILED);
}

static int act_make_code(void) {
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return 1;
    return fails(mprotect(at, 4096, PROT_READ | PROT_EXEC) < 0);
}

static int act_guard_page(void) {
    void *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return fails(at == MAP_FAILED || mprotect(at, 4096, PROT_NONE) < 0 || munmap(at, 8192) < 0);
}

static int act_ring(void) {
    return fails(syscall(SYS_io_uring_setup, 8, NULL) == -1 && errno == ENOSYS);
}

static int act_enter_ring(void) {
    return fails(syscall(SYS_io_uring_enter, 0, 1, 0, 0, NULL, 0) < 0);
}

static int act_memfd(void) { /* the empty report of a reload without one */
    return fails(memfd_create("report", MFD_CLOEXEC) < 0);
}

static int act_socket(int family, int type) {
    return fails(socket(family, type | SOCK_CLOEXEC, 0) < 0);
}

static int act_socket4(void) { return act_socket(AF_INET, SOCK_DGRAM); }
static int act_socket6(void) { return act_socket(AF_INET6, SOCK_STREAM); }
static int act_socket_unix(void) { return act_socket(AF_UNIX, SOCK_STREAM); }
static int act_socket_netlink(void) { return act_socket(AF_NETLINK, SOCK_RAW); }
static int act_socket_packet(void) { return act_socket(AF_PACKET, SOCK_RAW); }

static int act_abort(void) {
    abort();
}

static int act_heap(void) {
    for (size_t size = 16; size < (8u << 20); size *= 3) {
        void *p = malloc(size), *q = realloc(p, size * 2);
        if (!p || !q) return 1;
        memset(q, 1, size * 2);
        free(q);
    }
    return 0;
}

static int act_time_and_random(void) {
    uint64_t value;
    random_bytes(&value, sizeof value);
    log_note("now %llu", (unsigned long long)clock_now(&clock_system));
    return fails(clock_realtime(&clock_system) == 0);
}

static int act_kernel_version(void) { /* libuv asks when it makes a loop */
    struct utsname name;
    return fails(uname(&name) < 0);
}

static int act_stdio(void) { /* fstat(), and the question whether it is a terminal */
    return fails(printf("%s", "") < 0 || setvbuf(stdout, NULL, _IOLBF, 0) < 0 || fflush(stdout) != 0);
}

/* ---- system calls: what each process does -------------------------------------------------- */

static int held_directory, held_image, held_listener, held_peer; /* opened before confinement */

static int act_map_image(void) {
    struct stat st;
    if (fstat(held_image, &st) < 0 || st.st_size != 4096) return 1;
    if (fcntl(held_image, F_GET_SEALS) < 0) return 1;
    const char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, held_image, 0);
    return fails(at == MAP_FAILED || at[0] != 0 || munmap((void *)at, 4096) < 0);
}

static int act_record(void) {
    int fd = openat(held_directory, "a", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    int dir = openat(held_directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    struct statfs fs;
    char entries[512];
    if (fd < 0 || dir < 0) return 1;
    if (write(fd, "x\n", 2) != 2 || fdatasync(fd) < 0 || fsync(dir) < 0) return 1;
    if (fstat(fd, &st) < 0 || fstatat(held_directory, "a", &st, 0) < 0) return 1;
    if (ftruncate(fd, 1) < 0 || fstatfs(held_directory, &fs) < 0) return 1;
    if (syscall(SYS_getdents64, dir, entries, sizeof entries) <= 0) return 1;
    if (renameat(held_directory, "a", held_directory, "b") < 0) return 1;
    return fails(unlinkat(held_directory, "b", 0) < 0);
}

static int act_keep_state(void) { /* what core does to a file of its own */
    int fd = openat(held_directory, "new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) < 0) return 1;
    if (renameat(held_directory, "new", held_directory, "marks") < 0) return 1;
    return fails(unlinkat(held_directory, "marks", 0) < 0);
}

static int act_messages(void) {
    struct mmsghdr many[1];
    memset(many, 0, sizeof many);
    char byte = 'x';
    struct iovec part = {&byte, 1};
    many[0].msg_hdr.msg_iov = &part, many[0].msg_hdr.msg_iovlen = 1;
    int pending = 0;
    socklen_t size = sizeof pending;
    if (sendmsg(held_peer, &many[0].msg_hdr, MSG_NOSIGNAL) != 1) return 1;
    if (sendmmsg(held_peer, many, 1, MSG_NOSIGNAL) != 1) return 1;
    if (recvmmsg(held_peer, many, 1, MSG_DONTWAIT, NULL) >= 0 || errno != EAGAIN) return 1;
    return fails(getsockopt(held_peer, SOL_SOCKET, SO_ERROR, &pending, &size) < 0);
}

/* Takes a connection that waits, asks who it is. */
static int act_accept(void) {
    struct ucred who;
    socklen_t size = sizeof who;
    int fd = accept4(held_listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return fails(fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0 || close(fd) < 0);
}

static void on_timer(uv_timer_t *t) {
    uv_stop(t->loop);
}

static void on_poll(uv_poll_t *p, int status, int events) {
    (void)p, (void)status, (void)events;
}

/* A loop made after confinement is the harder case: libuv makes its descriptors then. */
static int act_loop(void) {
    uv_loop_t loop;
    uv_timer_t timer;
    uv_poll_t poll;
    uv_signal_t on_term;
    if (uv_loop_init(&loop) != 0 || uv_timer_init(&loop, &timer) != 0) return 1;
    if (uv_poll_init(&loop, &poll, held_peer) != 0 || uv_signal_init(&loop, &on_term) != 0) return 1;
    if (uv_poll_start(&poll, UV_READABLE, on_poll) != 0) return 1;
    if (uv_signal_start(&on_term, NULL, SIGTERM) != 0) return 1;
    if (uv_timer_start(&timer, on_timer, 5, 0) != 0) return 1;
    uv_run(&loop, UV_RUN_DEFAULT);
    return fails(uv_now(&loop) == 0);
}

static void on_connection(uv_stream_t *s, int status) {
    (void)s, (void)status;
}

/* UDP and TCP of a loop, over loopback. */
static int act_resolve(void) {
    uv_loop_t loop;
    uv_udp_t udp;
    uv_tcp_t tcp;
    struct sockaddr_in any;
    char byte = 'x';
    uv_buf_t data = uv_buf_init(&byte, 1);
    uv_ip4_addr("127.0.0.1", 0, &any);
    if (uv_loop_init(&loop) != 0 || uv_udp_init(&loop, &udp) != 0) return 1;
    if (uv_udp_bind(&udp, (struct sockaddr *)&any, 0) != 0) return 1;
    int size = sizeof any;
    if (uv_udp_getsockname(&udp, (struct sockaddr *)&any, &size) != 0) return 1;
    if (uv_udp_try_send(&udp, &data, 1, (struct sockaddr *)&any) != 1) return 1;
    any.sin_port = 0;
    if (uv_tcp_init(&loop, &tcp) != 0 || uv_tcp_bind(&tcp, (struct sockaddr *)&any, 0) != 0) return 1;
    return fails(uv_listen((uv_stream_t *)&tcp, 5, on_connection) != 0);
}

/* libnftables as core's helper runs it: in a child, in a network namespace of its own. */
static int act_nftables(void) {
    pid_t child = fork();
    if (child == 0) {
        struct nft_ctx *nft = nft_ctx_new(NFT_CTX_DEFAULT);
        nft_ctx_buffer_output(nft);
        nft_ctx_buffer_error(nft);
        int result = nft_run_cmd_from_buffer(
            nft, "add table inet t; add chain inet t c { type filter hook forward priority 0; "
                 "policy drop; }; add rule inet t c ct state established meta l4proto tcp log group 5 "
                 "reject with icmpx admin-prohibited");
        if (result != 0) log_error("%s", nft_ctx_get_error_buffer(nft));
        nft_ctx_free(nft);
        _exit(result == 0 ? 0 : 1);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

struct act { const char *name; int (*run)(void); };
struct trial { enum confine_profile profile; const struct act *act; };

static int confined(void *arg) {
    const struct trial *t = arg;
    if (confine_limits("confined", 256) < 0) return 100;
    if (confine_syscalls(t->profile) < 0) return 101;
    return t->act->run();
}

static const char *const profiles[] = {"resolver", "recorder", "control", "core", "loader"};
#define PROFILES (sizeof profiles / sizeof *profiles)

static void expect(const struct act *acts, size_t count, unsigned profile, int expected) {
    for (size_t i = 0; i < count; i++) {
        struct trial t = {(enum confine_profile)profile, &acts[i]};
        int got = outcome(confined, &t);
        ck_assert_msg(got == expected, "%s: %s ended with %d, not %d", profiles[profile],
                      acts[i].name, got, expected);
    }
}

#define ACT(name) {#name, act_##name}
#define EXPECT(profile, expected, ...)                                                           \
    do {                                                                                         \
        static const struct act acts_[] = {__VA_ARGS__};                                         \
        expect(acts_, sizeof acts_ / sizeof *acts_, profile, expected);                          \
    } while (0)

static void hold_descriptors(void) {
    char directory[] = "/tmp/confine-test-XXXXXX";
    int pair[2];
    ck_assert_ptr_nonnull(mkdtemp(directory));
    held_directory = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(chdir(directory), 0); /* what wrongly succeeds stays in it */
    held_image = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(ftruncate(held_image, 4096), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    held_peer = pair[0];
    held_listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(held_listener, &(struct sockaddr){.sa_family = AF_UNIX}, sizeof(sa_family_t)), 0);
    ck_assert_int_eq(listen(held_listener, 64), 0);
    struct sockaddr where;
    socklen_t size = sizeof where;
    ck_assert_int_eq(getsockname(held_listener, &where, &size), 0);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(client, &where, size), 0);
}

static void release_descriptors(void) {
    char path[64] = "";
    ssize_t size = readlink("/proc/self/cwd", path, sizeof path - 1);
    ck_assert_int_gt(size, 0);
    unlink("confine-test");
    ck_assert_int_eq(rmdir(path), 0);
}

START_TEST(what_all_may) {
    hold_descriptors();
    for (unsigned p = 0; p < PROFILES; p++) {
        EXPECT(p, 0, ACT(nothing), ACT(heap), ACT(time_and_random), ACT(stdio),
               ACT(kernel_version), ACT(read_limit), ACT(map_image), ACT(guard_page),
               ACT(messages), ACT(loop));
        EXPECT(p, 1, ACT(ring)); /* told that there is no such call */
        EXPECT(p, -SIGABRT, ACT(abort));
    }
    release_descriptors();
}
END_TEST

START_TEST(what_none_may) {
    hold_descriptors();
    for (unsigned p = 0; p < PROFILES; p++)
        EXPECT(p, -SIGSYS, ACT(exec), ACT(namespace), ACT(unshare), ACT(ptrace), ACT(prctl),
               ACT(set_limit), ACT(map_code), ACT(make_code), ACT(enter_ring), ACT(socket_unix),
               ACT(socket_packet));
    release_descriptors();
}
END_TEST

START_TEST(resolver) {
    hold_descriptors();
    EXPECT(CONFINE_RESOLVER, 0, ACT(socket4), ACT(socket6), ACT(accept), ACT(resolve));
    EXPECT(CONFINE_RESOLVER, -SIGSYS, ACT(write_file), ACT(unlink), ACT(fork), ACT(thread),
           ACT(kill), ACT(socket_netlink), ACT(record));
    EXPECT(CONFINE_RESOLVER, SANITIZED ? 0 : 1, ACT(read_file));
    release_descriptors();
}
END_TEST

START_TEST(recorder) {
    hold_descriptors();
    EXPECT(CONFINE_RECORDER, 0, ACT(record), ACT(thread), ACT(work), ACT(write_file), ACT(read_file));
    EXPECT(CONFINE_RECORDER, -SIGSYS, ACT(fork), ACT(kill), ACT(socket4), ACT(socket6),
           ACT(socket_netlink), ACT(accept));
    release_descriptors();
}
END_TEST

START_TEST(control) {
    hold_descriptors();
    EXPECT(CONFINE_CONTROL, 0, ACT(accept));
    EXPECT(CONFINE_CONTROL, -SIGSYS, ACT(write_file), ACT(unlink), ACT(fork), ACT(thread),
           ACT(kill), ACT(socket4), ACT(socket6), ACT(socket_netlink), ACT(record));
    EXPECT(CONFINE_CONTROL, SANITIZED ? 0 : 1, ACT(read_file));
    release_descriptors();
}
END_TEST

START_TEST(loader) {
    hold_descriptors();
    EXPECT(CONFINE_LOADER, 0, ACT(read_file));
    EXPECT(CONFINE_LOADER, -SIGSYS, ACT(write_file), ACT(truncate_file), ACT(unlink), ACT(fork),
           ACT(thread), ACT(kill), ACT(socket4), ACT(socket6), ACT(socket_netlink), ACT(accept),
           ACT(record));
    release_descriptors();
}
END_TEST

START_TEST(core) {
    hold_descriptors();
    EXPECT(CONFINE_CORE, 0, ACT(keep_state), ACT(socket_netlink), ACT(memfd), ACT(fork));
    EXPECT(CONFINE_CORE, -SIGSYS, ACT(thread), ACT(kill), ACT(socket4), ACT(socket6), ACT(accept));
    if (geteuid() == 0) {
        ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
        EXPECT(CONFINE_CORE, 0, ACT(nftables));
    }
    release_descriptors();
}
END_TEST

int main(void) {
    TCase *t = tcase_create("confine");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, identity);
    tcase_add_test(t, limits);
    tcase_add_test(t, what_all_may);
    tcase_add_test(t, what_none_may);
    tcase_add_test(t, resolver);
    tcase_add_test(t, recorder);
    tcase_add_test(t, control);
    tcase_add_test(t, loader);
    tcase_add_test(t, core);
    Suite *s = suite_create("confine");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
