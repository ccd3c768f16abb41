/* confine.c: identity and capabilities (libcap-ng), limits, system call filters (libseccomp).
 *
 * The lists are what libuv, glibc and our own code call on Debian 12 (glibc 2.36, libuv 1.44) and
 * Debian 13 (glibc 2.41, libuv 1.50) once a process has started. Threads are made by the recorder
 * alone (its fsync() may take long).
 */
#include "gateway/base/confine.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/if_tun.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <string.h>
#include <unistd.h>

#include "gateway/base/log.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int failed(const char *what, int error) {
    log_error("confinement: %s: %s", what, strerror(error));
    return -error;
}

/* ---- identity ------------------------------------------------------------------------------ */

static int drop_bounding(const int *keep, size_t count) {
    /* Without CAP_SETPCAP the set cannot shrink; no_new_privs makes it meaningless then. */
    if (!capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP)) return 0;
    capng_clear(CAPNG_SELECT_BOUNDS);
    for (size_t i = 0; i < count; i++)
        capng_update(CAPNG_ADD, CAPNG_BOUNDING_SET, (unsigned)keep[i]);
    return capng_apply(CAPNG_SELECT_BOUNDS) < 0 ? -EPERM : 0;
}

static int change_ids(uid_t uid, gid_t gid) {
    /* Only the empty list of groups can be told without CAP_SETGID: by not having any. */
    if (getgroups(0, NULL) != 0 && setgroups(0, NULL) < 0) return -errno;
    if (setresgid(gid, gid, gid) < 0) return -errno;
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0) return -errno;
    if (setresuid(uid, uid, uid) < 0) return -errno;
    if (prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0) return -errno;
    return 0;
}

/* Sets exactly the capabilities of `keep`, none inheritable or ambient, and looks whether the
 * kernel agrees. */
static int set_capabilities(const int *keep, size_t count) {
    capng_clear(CAPNG_SELECT_CAPS);
    for (size_t i = 0; i < count; i++)
        capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, (unsigned)keep[i]);
    if (capng_apply(CAPNG_SELECT_CAPS) < 0) return -EPERM;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) return -errno;

    if (capng_get_caps_process() < 0) return -EPERM;
    for (unsigned cap = 0; cap <= CAP_LAST_CAP; cap++) {
        int wanted = 0;
        for (size_t i = 0; i < count; i++) wanted |= (unsigned)keep[i] == cap;
        if (capng_have_capability(CAPNG_PERMITTED, cap) != wanted) return -EPERM;
        if (capng_have_capability(CAPNG_EFFECTIVE, cap) != wanted) return -EPERM;
    }
    return 0;
}

int confine_identity(uid_t uid, gid_t gid, const int *keep, size_t count) {
    if (capng_get_caps_process() < 0) return failed("reading capabilities", EPERM);
    int result = drop_bounding(keep, count);
    if (result < 0) return failed("the bounding set", -result);
    result = change_ids(uid, gid);
    if (result < 0) return failed("user, group and groups", -result);
    result = set_capabilities(keep, count);
    if (result < 0) return failed("capabilities", -result);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return failed("no_new_privs", errno);
    if (uid != 0 && setuid(0) == 0) return failed("user 0 can be had again", EPERM);
    return 0;
}

/* ---- limits -------------------------------------------------------------------------------- */

/* libuv 1.49 and later makes a ring in uv_loop_init() and submits epoll_ctl() through it. What a
 * ring does passes by every filter, so there must be none: libuv takes ENOSYS for an old kernel
 * and goes on without. This filter comes early because the loop may be made before the other. */
static int forbid_rings(void) {
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
    if (!f) return -ENOMEM;
    int result = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(io_uring_setup), 0);
    if (result == 0) result = seccomp_load(f);
    seccomp_release(f);
    return result;
}

int confine_limits(const char *name, unsigned long files) {
    const struct rlimit no_core = {0, 0}, descriptors = {files, files};
    if (prctl(PR_SET_NAME, name, 0, 0, 0) < 0) return failed("name", errno);
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) return failed("dumpable", errno);
    if (setrlimit(RLIMIT_CORE, &no_core) < 0) return failed("RLIMIT_CORE", errno);
    if (setrlimit(RLIMIT_NOFILE, &descriptors) < 0) return failed("RLIMIT_NOFILE", errno);
    int result = forbid_rings();
    return result < 0 ? failed("filter against io_uring", -result) : 0;
}

/* ---- system calls -------------------------------------------------------------------------- */

#define CALLS(name, ...) static const int name[] = {__VA_ARGS__}
#define S(name) SCMP_SYS(name)

CALLS(common_calls,
      /* descriptors the process holds */
      S(read), S(write), S(readv), S(writev), S(close), S(lseek), S(fcntl), S(fstat), S(recvmsg),
      S(sendmsg), S(recvmmsg), S(sendmmsg), S(recvfrom), S(sendto), S(getsockname), S(getpeername),
      S(getsockopt), S(setsockopt),
      /* the event loop */
      S(epoll_create1), S(epoll_ctl), S(epoll_wait), S(epoll_pwait), S(epoll_pwait2), S(eventfd2),
      S(pipe2), S(poll), S(ppoll), S(timerfd_create), S(timerfd_settime),
      /* time */
      S(clock_gettime), S(clock_getres), S(gettimeofday), S(clock_nanosleep), S(nanosleep),
      S(restart_syscall),
      /* memory; mmap and mprotect have rules of their own */
      S(brk), S(munmap), S(mremap), S(madvise), S(futex), S(getrandom), S(sysinfo),
      /* the process itself */
      S(rt_sigaction), S(rt_sigprocmask), S(rt_sigreturn), S(sigaltstack), S(getpid), S(getppid),
      S(gettid), S(getuid), S(geteuid), S(getgid), S(getegid), S(sched_yield),
      S(sched_getaffinity), S(getrusage), S(getcpu), S(uname), S(set_robust_list), S(rseq), S(exit),
      S(exit_group));

CALLS(resolver_calls, S(connect), S(bind), S(listen), S(accept4));

CALLS(control_calls, S(listen), S(accept4));

CALLS(recorder_calls, S(openat), S(newfstatat), S(statx), S(rename), S(renameat), S(renameat2),
      S(unlinkat), S(fsync), S(fdatasync), S(sync_file_range), S(ftruncate), S(fallocate),
      S(fstatfs), S(getdents64), S(pread64), S(pwrite64), S(preadv), S(pwritev), S(flock));

CALLS(loader_calls, S(newfstatat), S(statx), S(getdents64), S(pread64), S(readlink), S(readlinkat),
      S(access), S(faccessat), S(faccessat2), S(getcwd));

/* Core also runs libnftables in a helper of its own (fork without exec); that reads the tables of
 * names below /etc/iproute2 and /etc. */
CALLS(core_calls, S(bind), S(connect), S(openat), S(newfstatat), S(statx), S(rename), S(renameat),
      S(renameat2), S(unlinkat), S(fsync), S(fdatasync), S(ftruncate), S(getdents64), S(pread64),
      S(pwrite64), S(access), S(faccessat), S(faccessat2), S(readlink), S(readlinkat), S(wait4),
      S(waitid), S(pselect6), S(memfd_create), S(umask));

/* Reports of the sanitizers: reading /proc/self/maps and the program itself, and the signal. */
CALLS(sanitizer_calls, S(newfstatat), S(readlink), S(readlinkat), S(access), S(pread64),
      S(getcwd), S(personality), S(sched_getaffinity), S(getdents64),
      S(process_vm_readv));

#define ALLOW(f, call, ...) seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(call), __VA_ARGS__)

static int allow_all(scmp_filter_ctx f, const int *calls, size_t count) {
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++)
        result = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i], 0);
    return result;
}

/* Calls of every profile that are allowed for some arguments only. */
static int allow_common(scmp_filter_ctx f) {
    static const unsigned long ioctls[] = {FIONBIO, FIOCLEX, FIONREAD};
    int result = allow_all(f, common_calls, COUNT(common_calls));
    for (size_t i = 0; i < COUNT(ioctls) && result == 0; i++)
        result = ALLOW(f, ioctl, 1, SCMP_A1(SCMP_CMP_EQ, ioctls[i]));
    /* stdio asks whether it writes to a terminal: no. */
    if (result == 0)
        result = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOTTY), SCMP_SYS(ioctl), 1,
                                  SCMP_A1(SCMP_CMP_EQ, TCGETS));
    if (result == 0)
        result = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(io_uring_setup), 0);
    /* No memory that can be executed. */
    if (result == 0) result = ALLOW(f, mmap, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (result == 0) result = ALLOW(f, mprotect, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (result == 0) result = ALLOW(f, prlimit64, 1, SCMP_A2(SCMP_CMP_EQ, 0)); /* reading alone */
    /* abort() signals itself, nobody else. */
    if (result == 0)
        result = ALLOW(f, tgkill, 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
    return result;
}

/* openat() that neither makes nor changes a file. O_RDONLY with O_TRUNC would. */
#define READING SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY)

/* For processes without files. Reading is refused rather than deadly, because libuv opens /dev/null
 * when it makes the first stream, and again whenever accept() has run out of descriptors: a client
 * with many connections must not be able to end the process. */
static int refuse_files(scmp_filter_ctx f) {
    int result = 0;
#ifndef __SANITIZE_ADDRESS__ /* its reports read files */
    result = seccomp_rule_add(f, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(openat), 1, READING);
#endif
    /* Before glibc 2.39 fstat() is newfstatat() of an empty path. */
    if (result == 0)
        result = ALLOW(f, newfstatat, 1, SCMP_A3(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, AT_EMPTY_PATH));
    return result;
}

static int allow_socket(scmp_filter_ctx f, int family) {
    return ALLOW(f, socket, 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family));
}

/* Threads, no processes. The flags of clone3() are in memory, where no filter sees them: glibc
 * takes ENOSYS as a reason to use clone(). */
static int allow_threads(scmp_filter_ctx f) {
    int result = ALLOW(f, clone, 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
    /* libuv 1.50 names its threads. */
    if (result == 0) result = ALLOW(f, prctl, 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
    if (result == 0)
        result = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return result;
}

/* A child by fork(), in the same namespaces. */
static int allow_fork(scmp_filter_ctx f) {
    const scmp_datum_t others = CLONE_VM | CLONE_THREAD | CLONE_NEWNS | CLONE_NEWUTS |
                                CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |
                                CLONE_NEWCGROUP;
    int result = ALLOW(f, clone, 1, SCMP_A0(SCMP_CMP_MASKED_EQ, others, 0));
    if (result == 0)
        result = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return result;
}

static int allow_resolver(scmp_filter_ctx f) {
    int result = allow_all(f, resolver_calls, COUNT(resolver_calls));
    if (result == 0) result = refuse_files(f);
    if (result == 0) result = allow_socket(f, AF_INET);
    if (result == 0) result = allow_socket(f, AF_INET6);
    return result;
}

static int allow_recorder(scmp_filter_ctx f) {
    int result = allow_all(f, recorder_calls, COUNT(recorder_calls));
    return result == 0 ? allow_threads(f) : result;
}

static int allow_control(scmp_filter_ctx f) {
    int result = allow_all(f, control_calls, COUNT(control_calls));
    return result == 0 ? refuse_files(f) : result;
}

static int allow_core(scmp_filter_ctx f) {
    int result = allow_all(f, core_calls, COUNT(core_calls));
    if (result == 0) result = allow_socket(f, AF_NETLINK);
    if (result == 0) result = ALLOW(f, ioctl, 1, SCMP_A1(SCMP_CMP_EQ, TUNSETIFF));
    if (result == 0) result = allow_fork(f);
    /* The helper that fork() made may end by abort(), and core may end the helper. */
    if (result == 0) result = ALLOW(f, tgkill, 1, SCMP_A2(SCMP_CMP_EQ, SIGABRT));
    if (result == 0) result = ALLOW(f, kill, 1, SCMP_A1(SCMP_CMP_EQ, SIGKILL));
    return result;
}

static int allow_loader(scmp_filter_ctx f) {
    int result = allow_all(f, loader_calls, COUNT(loader_calls));
    return result == 0 ? ALLOW(f, openat, 1, READING) : result;
}

static int allow_sanitizer(scmp_filter_ctx f) {
#ifdef __SANITIZE_ADDRESS__
    int result = allow_all(f, sanitizer_calls, COUNT(sanitizer_calls));
    return result == 0 ? ALLOW(f, openat, 1, READING) : result;
#else
    (void)f, (void)sanitizer_calls;
    return 0;
#endif
}

static int load_filter(scmp_filter_ctx f, enum confine_profile profile) {
    static int (*const allow[])(scmp_filter_ctx) = {
        [CONFINE_RESOLVER] = allow_resolver,
        [CONFINE_RECORDER] = allow_recorder,
        [CONFINE_CONTROL] = allow_control,
        [CONFINE_CORE] = allow_core,
        [CONFINE_LOADER] = allow_loader,
    };
    int result = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (result == 0) result = seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* binary tree */
    if (result == 0) result = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
    if (result == 0) result = allow_common(f);
    if (result == 0) result = allow[profile](f);
    if (result == 0) result = allow_sanitizer(f);
    if (result == 0) result = seccomp_load(f);
    return result;
}

int confine_syscalls(enum confine_profile profile) {
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_KILL_PROCESS);
    if (!f) return failed("filter of system calls", ENOMEM);
    int result = load_filter(f, profile);
    seccomp_release(f);
    return result < 0 ? failed("filter of system calls", -result) : 0;
}
