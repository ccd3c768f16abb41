/* folders.c: the directories of an instance and the lock on its runtime directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/supervisor/supervisor.h"

#define LOCK_TRIES 20 /* of 50 ms: a predecessor that was killed may still be dying */

/* mkdir -p with mode 0755; the last part may exist. */
static int folder_make(const char *path) {
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (path[0] != '/' || length >= sizeof part) return -EINVAL;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0755) < 0 && errno != EEXIST) return -errno;
    }
    return 0;
}

static bool folder_empty(int fd) {
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir) {
        if (copy >= 0) close(copy);
        return false;
    }
    bool empty = true;
    for (struct dirent *e; empty && (e = readdir(dir));)
        empty = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
    closedir(dir);
    return empty;
}

/* Makes the folder and gives it to its owner. One that exists is taken over only when it is empty
 * or the owner's already: `log: {directory: /var/log}` must not hand out /var/log. */
static int folder_own(const char *path, uid_t uid, gid_t gid, mode_t mode) {
    struct stat st;
    int error = folder_make(path);
    if (error < 0) {
        log_error("cannot make directory %s: %s", path, strerror(-error));
        return error;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        error = -errno;
        log_error("cannot open directory %s: %s", path, strerror(-error));
        goto fail;
    }
    if (st.st_uid != uid && !folder_empty(fd)) {
        error = -EPERM;
        log_error("directory %s belongs to uid %u and is not empty: `chown -R %u %s` if it is "
                  "Tidegate's, else name another one",
                  path, (unsigned)st.st_uid, (unsigned)uid, path);
        goto fail;
    }
    bool wrong = st.st_uid != uid || st.st_gid != gid || (st.st_mode & 07777) != mode;
    if (wrong && (fchown(fd, uid, gid) < 0 || fchmod(fd, mode) < 0)) {
        error = -errno;
        log_error("cannot set owner and mode of %s: %s", path, strerror(-error));
        goto fail;
    }
    return fd;
fail:
    if (fd >= 0) close(fd);
    return error;
}

/* A folder that stays root's, with nobody else writing into it. Its mode is left alone. */
static int folder_root(const char *path) {
    struct stat st;
    int error = folder_make(path);
    int fd = error < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        if (error == 0) error = -errno;
        log_error("cannot make or open directory %s: %s", path, strerror(-error));
    } else if (st.st_uid != 0 || (st.st_mode & 022)) {
        error = -EPERM;
        log_error("directory %s must belong to root and be writable by root alone: "
                  "`chown root %s; chmod go-w %s`, or name another one",
                  path, path, path);
    } else {
        return fd;
    }
    if (fd >= 0) close(fd);
    return error;
}

static int folder_lock(int runtime, const char *path) {
    char text[32];
    int fd = openat(runtime, "tidegated.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        int error = -errno;
        log_error("%s/tidegated.lock: %s", path, strerror(-error));
        return error;
    }
    for (unsigned i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (i < LOCK_TRIES) {
            usleep(50000);
            continue;
        }
        ssize_t got = pread(fd, text, sizeof text - 1, 0);
        text[got > 0 ? got : 0] = 0;
        text[strspn(text, "0123456789")] = 0;
        log_error("another tidegated (pid %s) already runs over %s: stop it, or give this one "
                  "directories of its own (runtime, state, log in gateway.yaml)",
                  text[0] ? text : "unknown", path);
        close(fd);
        return -EBUSY;
    }
    int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)length, 0) != length)
        log_warn("%s/tidegated.lock: cannot write the pid: %s", path, strerror(errno));
    return fd;
}

/* The recorder and core get O_PATH descriptors: a place to start from, no right of its own. */
static int folder_path(int fd) {
    int path = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    close(fd);
    return path;
}

int folders_make(struct supervisor *s) {
    const struct policy_gateway *g = policy_gateway(&s->current.policy);
    const struct identity *core = &s->users[PROCESS_CORE], *recorder = &s->users[PROCESS_RECORDER];
    char below[POLICY_PATH_MAX + 16];
    int runtime = folder_root(g->runtime_directory);
    if (runtime < 0) return runtime;
    s->lock = folder_lock(runtime, g->runtime_directory);
    close(runtime);
    if (s->lock < 0) return s->lock;

    int state = folder_root(g->state_directory);
    if (state < 0) return state;
    close(state);
    snprintf(below, sizeof below, "%s/policy", g->state_directory);
    s->policy_directory = folder_root(below);
    if (s->policy_directory < 0) return s->policy_directory;
    snprintf(below, sizeof below, "%s/core", g->state_directory);
    int fd = folder_own(below, core->uid, core->gid, 0700);
    if (fd < 0) return fd;
    s->core_directory = folder_path(fd);
    fd = folder_own(g->log_directory, recorder->uid, recorder->gid, 0750);
    if (fd < 0) return fd;
    s->log_directory = folder_path(fd);
    return s->core_directory < 0 || s->log_directory < 0 ? -EMFILE : 0;
}

bool folders_same(const struct policy *a, const struct policy *b) {
    const struct policy_gateway *g = policy_gateway(a), *h = policy_gateway(b);
    return !strcmp(g->log_directory, h->log_directory) &&
           !strcmp(g->state_directory, h->state_directory) &&
           !strcmp(g->runtime_directory, h->runtime_directory);
}
