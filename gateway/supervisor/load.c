/* load.c: runs the loader, checks what it made, offers it to core. One load at a time: the next
 * one starts when core has taken or refused the image of the one before. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/supervisor/supervisor.h"

#define LOAD_TIME (10 * USEC_PER_SEC)
#define REPORT_LINES_SHOWN 200
#define REPORT_LINE_MAX 1000

static int load_start(struct supervisor *s, uint64_t id) {
    struct load l = {.id = id, .image = memfd_make("policy"), .report = memfd_make("report")};
    const char *const arguments[] = {"tidegate-loader", s->debug ? "debug" : "-", s->config, NULL};
    int fds[] = {l.image, l.report};
    pid_t parent = getpid();
    l.pid = l.image < 0 || l.report < 0 ? -1 : fork();
    if (l.pid == 0) {
        const struct rlimit size = {POLICY_IMAGE_MAX, POLICY_IMAGE_MAX};
        setrlimit(RLIMIT_FSIZE, &size);
        child_become(s, PROCESS_LOADER, parent, fds, 2, arguments);
    }
    if (l.pid < 0) {
        int error = -errno;
        if (l.image >= 0) close(l.image);
        if (l.report >= 0) close(l.report);
        log_error("cannot start the loader: %s", strerror(-error));
        return error;
    }
    l.deadline = clock_now(&clock_system) + LOAD_TIME;
    s->load = l;
    return 0;
}

/* For people and editors at a terminal: the line alone, without what could steer it. */
static void report_plain(char *line) {
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    fprintf(stderr, "%s\n", line);
}

/* Shows the report to the operator, line by line. Returns how many of them are faults. */
static uint32_t report_show(const struct supervisor *s, int fd, enum log_level level) {
    struct stat st;
    char line[REPORT_LINE_MAX];
    uint32_t lines = 0, faults = 0;
    if (fstat(fd, &st) < 0 || st.st_size <= 0) return 0;
    const char *text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (text == MAP_FAILED) return 0;
    const char *end = text + st.st_size;
    for (const char *at = text; at < end; lines++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        size_t shown = length < sizeof line ? length : sizeof line - 1;
        memcpy(line, at, shown);
        line[shown] = 0;
        if (!strstr(line, ": warning: ")) faults++;
        if (s->check) report_plain(line);
        else if (lines < REPORT_LINES_SHOWN) log_line(level, "%s", line);
        at += length + 1;
    }
    munmap((void *)(uintptr_t)text, (size_t)st.st_size);
    if (lines > REPORT_LINES_SHOWN && !s->check)
        log_line(level, "%u more", (unsigned)(lines - REPORT_LINES_SHOWN));
    return faults;
}

/* What the loader cannot say itself, as one more line of its report. */
static void report_add(int fd, const char *config, const char *what) {
    char line[REPORT_LINE_MAX];
    int length = snprintf(line, sizeof line, "%s: %s\n", config, what);
    if (length < 0 || (size_t)length >= sizeof line) return;
    if (lseek(fd, 0, SEEK_END) < 0 || write(fd, line, (size_t)length) != length)
        log_error("%s: %s", config, what);
}

/* Takes the result of the loader that just ended: 0 and an image, or -EINVAL and a report that
 * says why. Either way s->load.report stays open, sealed. */
static int load_take(struct supervisor *s, int status, struct image *ret) {
    struct load *l = &s->load;
    int error = 0;
    l->pid = 0;
    if (status == 0) {
        error = image_open(ret, l->image);
        if (error < 0) report_add(l->report, s->config, "the loader made an image that is not valid");
    } else {
        error = -EINVAL;
        close(l->image);
        if (status == -1) report_add(l->report, s->config, "took longer than 10 s to load");
        else if (!WIFEXITED(status) || WEXITSTATUS(status) != LOADER_EXIT_FAULTS)
            report_add(l->report, s->config, "the loader ended before it was done");
    }
    l->image = -1;
    if (error == 0 && s->current.fd >= 0 && !folders_same(&s->current.policy, &ret->policy)) {
        report_add(l->report, s->config,
                   "log.directory, state or runtime differ from those in use: that needs a restart");
        image_close(ret);
        error = -EINVAL;
    }
    fcntl(l->report, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    return error < 0 ? -EINVAL : 0;
}

/* LOADED to core; with an image it becomes the candidate, until core says whether it took it or is
 * gone, however long that is: given up earlier, what is in force and what is kept would differ. */
static void load_answer(struct supervisor *s, uint64_t id, struct image *image, int report,
                        uint32_t faults) {
    struct proto_message m;
    struct msg_loaded *answer = proto_begin(&m, PROTO_LOADED, 0);
    answer->id = id;
    answer->ok = image != NULL;
    answer->faults = faults;
    if (image) m.fds[m.fd_count++] = image->fd;
    m.fds[m.fd_count++] = report;
    int error = channel_send(&s->core, &m);
    if (error < 0) log_error("cannot hand the policy to core: %s", strerror(-error));
    if (!image) return;
    if (error < 0) {
        image_close(image);
        return;
    }
    s->candidate = *image;
    s->candidate_id = id;
}

void load_next(struct supervisor *s) {
    while (s->waiting_count && !s->load.pid && s->candidate.fd < 0 &&
           s->children[PROCESS_CORE].pid) {
        uint64_t id = s->waiting[0];
        s->waiting_count--;
        memmove(s->waiting, s->waiting + 1, s->waiting_count * sizeof s->waiting[0]);
        if (load_start(s, id) == 0) return;
        int report = memfd_make("report");
        if (report < 0) continue;
        report_add(report, s->config, "the loader could not be started");
        load_answer(s, id, NULL, report, 1);
        close(report);
    }
}

void load_ask(struct supervisor *s, uint64_t id) {
    if (s->waiting_count < SUPERVISOR_LOADS_MAX) s->waiting[s->waiting_count++] = id;
    else log_warn("a reload is dropped: %u are waiting already", s->waiting_count);
    load_next(s);
}

void load_ended(struct supervisor *s, int status) {
    struct image image;
    if (status == -1) { /* time is up */
        kill(s->load.pid, SIGKILL);
        waitpid(s->load.pid, NULL, 0);
    }
    bool ok = load_take(s, status, &image) == 0;
    uint32_t faults = report_show(s, s->load.report, ok ? LOG_WARN : LOG_ERROR);
    if (!ok) log_error("the new policy is refused; the one in force stays");
    load_answer(s, s->load.id, ok ? &image : NULL, s->load.report, ok ? 0 : faults);
    close(s->load.report);
    load_next(s);
}

void load_commit(struct supervisor *s, uint64_t id, bool taken) {
    if (s->candidate.fd < 0 || s->candidate_id != id) return;
    if (taken) {
        image_close(&s->current);
        s->current = s->candidate;
        s->candidate = (struct image){.fd = -1};
        s->stored = store_save(s) == 0;
    } else {
        image_close(&s->candidate);
    }
    load_next(s);
}

/* Core is gone, and with it whoever asked; its successor asks afresh. A load by SIGHUP is done once
 * more for the successor, however far it had come. */
void load_forget(struct supervisor *s) {
    bool signalled = (s->load.pid && s->load.id == 0) ||
                     (s->candidate.fd >= 0 && s->candidate_id == 0);
    for (unsigned i = 0; i < s->waiting_count; i++) signalled = signalled || s->waiting[i] == 0;
    image_close(&s->candidate);
    if (s->load.pid) {
        kill(s->load.pid, SIGKILL);
        waitpid(s->load.pid, NULL, 0);
        s->load.pid = 0;
        close(s->load.image);
        close(s->load.report);
    }
    s->waiting_count = 0;
    if (signalled) s->waiting[s->waiting_count++] = 0;
}

int load_first(struct supervisor *s, struct image *ret) {
    struct pollfd wait = {.fd = s->signals, .events = POLLIN};
    int status = -1, error = load_start(s, 0);
    if (error < 0) return error;
    for (;;) {
        usec_t now = clock_now(&clock_system);
        pid_t got = waitpid(s->load.pid, &status, WNOHANG);
        if (got == s->load.pid) break;
        if (now >= s->load.deadline) {
            kill(s->load.pid, SIGKILL);
            waitpid(s->load.pid, NULL, 0);
            status = -1;
            break;
        }
        poll(&wait, 1, 100); /* any signal wakes us; they are read later, in the loop */
        if (wait.revents) usleep(10000);
    }
    error = load_take(s, status, ret);
    report_show(s, s->load.report, error < 0 ? LOG_ERROR : LOG_WARN);
    close(s->load.report);
    return error;
}
