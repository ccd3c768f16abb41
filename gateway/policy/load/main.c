/* main.c: tidegate-loader: gateway.yaml and the policy folder -> one image, or a report of faults.
 *
 * Started by tidegated for each load, see gateway/proto/handover.h. It reads free text with several
 * libraries, so before the first byte it gives up whatever it had: no sockets, no exec, no other
 * process, files for reading only. What it makes is checked by whoever takes it (policy_open()).
 */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gateway/base/confine.h"
#include "gateway/base/log.h"
#include "gateway/policy/load/load.h"
#include "gateway/proto/handover.h"

#define EXIT_INTERNAL 70 /* EX_SOFTWARE */
#define FILES_MAX     32

static const int calls[] = {
    /* files and folders; open has rules of its own */
    SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(close), SCMP_SYS(lseek),
    SCMP_SYS(fstat), SCMP_SYS(lstat), SCMP_SYS(stat), SCMP_SYS(newfstatat), SCMP_SYS(statx),
    SCMP_SYS(getdents64), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(access),
    SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(fcntl), SCMP_SYS(getcwd),
    /* the image, the report, standard error */
    SCMP_SYS(write), SCMP_SYS(writev),
    /* memory, time, the process itself */
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
    SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(getrandom), SCMP_SYS(sysinfo),
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack), SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getuid),
    SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(restart_syscall), SCMP_SYS(exit), SCMP_SYS(exit_group),
};

#define ALLOW(f, call, ...) seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(call), __VA_ARGS__)

static int filter_fill(scmp_filter_ctx f) {
    const scmp_datum_t reading = O_ACCMODE | O_CREAT | O_TRUNC;
    int result = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls && result == 0; i++) {
        result = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i], 0);
    }
    if (result == 0) {
        result = ALLOW(f, openat, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, reading, O_RDONLY));
    }
    if (result == 0) {
        result = ALLOW(f, open, 1, SCMP_A1(SCMP_CMP_MASKED_EQ, reading, O_RDONLY));
    }
    /* No memory that can be executed. */
    if (result == 0) result = ALLOW(f, mmap, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (result == 0) result = ALLOW(f, mprotect, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    /* stdio asks whether it writes to a terminal: no. */
    if (result == 0) {
        result = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOTTY), SCMP_SYS(ioctl), 1,
                                  SCMP_A1(SCMP_CMP_EQ, TCGETS));
    }
    /* abort() signals itself, nobody else. */
    if (result == 0) {
        result = ALLOW(f, tgkill, 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
    }
    return result;
}

static int confine(void) {
    if (confine_limits("tidegate-loader", FILES_MAX) < 0) return -1;
    if (confine_identity(geteuid(), getegid(), NULL, 0) < 0) return -1;
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int result = f ? filter_fill(f) : -ENOMEM;
    if (result == 0) result = seccomp_load(f);
    if (f) seccomp_release(f);
    if (result < 0) log_error("confinement: system calls: %s", strerror(-result));
    return result;
}

static int image_write(const struct load_result *r) {
    const char *bytes = r->image;
    for (size_t done = 0; done < r->size;) {
        ssize_t n = write(LOADER_IMAGE, bytes + done, r->size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            log_error("writing the image: %s", n < 0 ? strerror(errno) : "nothing is taken");
            return -1;
        }
        done += (size_t)n;
    }
    return 0;
}

static int run(const char *config) {
    struct load_source source = {.config = config};
    struct load_result result;
    FILE *report = fdopen(LOADER_REPORT, "w");
    if (!report) {
        log_error("the report: %s", strerror(errno));
        return EXIT_INTERNAL;
    }
    int loaded = load_policy(&source, report, &result);
    if (fclose(report) != 0) {
        log_error("writing the report: %s", strerror(errno));
        return EXIT_INTERNAL;
    }
    if (loaded < 0) return LOADER_EXIT_FAULTS;
    int written = image_write(&result);
    load_result_free(&result);
    return written < 0 ? EXIT_INTERNAL : 0;
}

int main(int argc, char **argv) {
    if (argc != 3 || fcntl(LOADER_IMAGE, F_GETFD) < 0 || fcntl(LOADER_REPORT, F_GETFD) < 0) {
        fprintf(stderr, "tidegate-loader is started by tidegated; to check a policy, use "
                        "\"tidegate check\"\n");
        return 2;
    }
    log_start("tidegate-loader", strstr(argv[1], "debug") != NULL);
    if (confine() < 0) return EXIT_INTERNAL;
    /* Not exit(): what libraries do at exit is no part of what was allowed. */
    _exit(run(argv[2]));
}
