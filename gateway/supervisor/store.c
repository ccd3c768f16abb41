/* store.c: policy images on disk: state/policy/DIGEST.img, `current` -> the one in force, and
 * `source` -> the gateway.yaml it was made from. Only the supervisor, root, writes here. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/base/confine.h"
#include "gateway/base/log.h"
#include "gateway/supervisor/supervisor.h"

#define KEPT_IMAGES 32
#define DEFAULT_STATE "/var/lib/tidegate"
#define HINT_LINES 10000
#define HINT_TIME_MSEC 2000

/* The absolute path of the configuration, even when the file itself is gone. */
static void store_source(const struct supervisor *s, char path[PATH_MAX]) {
    if (!realpath(s->config, path)) snprintf(path, PATH_MAX, "%s", s->config);
}

static int write_all(int fd, const uint8_t *bytes, size_t size) {
    while (size) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return -errno;
        bytes += done;
        size -= (size_t)done;
    }
    return 0;
}

/* Whether the file is this image, every byte: a disk may have lost some since it was written. Read,
 * not mapped: a bad block must be an error, not a signal. */
static bool store_has(int dir, const struct image *i, const char *name) {
    const uint8_t *rest = i->map;
    size_t left = i->size;
    uint8_t block[65536];
    ssize_t got = 0;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    while ((got = read(fd, block, sizeof block)) > 0) {
        if ((size_t)got > left || memcmp(block, rest, (size_t)got) != 0) break;
        rest += got;
        left -= (size_t)got;
    }
    close(fd);
    return got == 0 && left == 0;
}

static int store_image(int dir, const struct image *i, const char *name) {
    if (store_has(dir, i, name)) return 0;
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dir, "new.img", flags, 0644);
    int error = fd < 0 ? -errno : write_all(fd, i->map, i->size);
    if (error == 0 && fsync(fd) < 0) error = -errno;
    if (fd >= 0) close(fd);
    if (error == 0 && renameat(dir, "new.img", dir, name) < 0) error = -errno;
    if (error < 0) unlinkat(dir, "new.img", 0);
    return error;
}

static int store_link(int dir, const char *target, const char *name) {
    unlinkat(dir, "new.link", 0);
    if (symlinkat(target, dir, "new.link") < 0) return -errno;
    return renameat(dir, "new.link", dir, name) < 0 ? -errno : 0;
}

/* Removes the oldest image while there are more than KEPT_IMAGES, never `current`. */
static void store_prune(int dir, const char *current) {
    for (;;) {
        char oldest[NAME_MAX + 1] = "";
        struct timespec when = {0};
        unsigned count = 0;
        int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *list = copy < 0 ? NULL : fdopendir(copy);
        if (!list) return;
        for (struct dirent *e; (e = readdir(list));) {
            struct stat st;
            size_t length = strlen(e->d_name);
            if (length != POLICY_DIGEST_TEXT_MAX + 3 || strcmp(e->d_name + length - 4, ".img") ||
                fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                continue;
            count++;
            bool older = !oldest[0] || st.st_mtim.tv_sec < when.tv_sec ||
                         (st.st_mtim.tv_sec == when.tv_sec && st.st_mtim.tv_nsec < when.tv_nsec);
            if (!older || !strcmp(e->d_name, current)) continue;
            snprintf(oldest, sizeof oldest, "%s", e->d_name);
            when = st.st_mtim;
        }
        closedir(list);
        if (count <= KEPT_IMAGES || !oldest[0] || unlinkat(dir, oldest, 0) < 0) return;
    }
}

int store_save(struct supervisor *s) {
    char digest[POLICY_DIGEST_TEXT_MAX], name[POLICY_DIGEST_TEXT_MAX + 4], source[PATH_MAX];
    int dir = s->policy_directory;
    snprintf(name, sizeof name, "%s.img", policy_digest_text(&s->current.policy, digest));
    store_source(s, source);
    int error = store_image(dir, &s->current, name);
    if (error == 0) error = store_link(dir, source, "source");
    if (error == 0) error = store_link(dir, name, "current");
    if (error == 0 && fsync(dir) < 0) error = -errno;
    if (error < 0)
        log_error("the policy image cannot be kept for the next start: %s", strerror(-error));
    else store_prune(dir, name);
    return error;
}

/* ---- the way back, when gateway.yaml is faulty: where was the state kept? ---------------------- */

/* Writes the value of the first top-level `state:` line. Runs as the loader's user, without any
 * capability: this is the one place in which free text is looked at, and its answer is checked. */
static _Noreturn void hint_child(const struct supervisor *s, int out) {
    const struct identity *user = &s->users[PROCESS_LOADER];
    char line[4096];
    if (confine_identity(user->uid, user->gid, NULL, 0) < 0) _exit(1);
    FILE *f = fopen(s->config, "re");
    for (unsigned i = 0; f && i < HINT_LINES && fgets(line, sizeof line, f); i++) {
        if (strncmp(line, "state:", 6)) continue;
        const char *value = line + 6 + strspn(line + 6, " \t\"'");
        size_t length = strcspn(value, " \t\"'#\r\n");
        if (length && length < POLICY_PATH_MAX) (void)!write(out, value, length);
        break;
    }
    _exit(0);
}

static void hint_state(const struct supervisor *s, char path[POLICY_PATH_MAX]) {
    int ends[2];
    ssize_t got = 0;
    snprintf(path, POLICY_PATH_MAX, "%s", DEFAULT_STATE);
    if (pipe2(ends, O_CLOEXEC) < 0) return;
    pid_t pid = fork();
    if (pid == 0) hint_child(s, ends[1]);
    close(ends[1]);
    if (pid > 0) {
        char value[POLICY_PATH_MAX] = "";
        struct pollfd wait = {.fd = ends[0], .events = POLLIN};
        if (poll(&wait, 1, HINT_TIME_MSEC) > 0) got = read(ends[0], value, sizeof value - 1);
        if (got > 0 && value[0] == '/') memcpy(path, value, sizeof value);
        kill(pid, SIGKILL); /* it may hang on a fifo */
        waitpid(pid, NULL, 0);
    }
    close(ends[0]);
}

/* Copies the file that `current` names, when it and its folder are root's alone. */
static int store_read(int dir, int *ret) {
    struct stat st;
    int fd = openat(dir, "current", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return -errno;
    int copy = -EPERM;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 && !(st.st_mode & 022) &&
        st.st_size > 0 && (uint64_t)st.st_size <= POLICY_IMAGE_MAX)
        copy = memfd_make("policy");
    int error = copy < 0 ? copy : 0;
    while (error == 0) {
        uint8_t block[65536];
        ssize_t got = read(fd, block, sizeof block);
        if (got == 0) break;
        error = got < 0 ? -errno : write_all(copy, block, (size_t)got);
    }
    close(fd);
    if (error < 0 && copy >= 0) close(copy);
    if (error == 0) *ret = copy;
    return error;
}

int store_last(struct supervisor *s, struct image *ret) {
    char state[POLICY_PATH_MAX], dir_path[POLICY_PATH_MAX + 8], source[PATH_MAX], made[PATH_MAX];
    struct stat st;
    struct image i;
    int fd = -1;
    hint_state(s, state);
    snprintf(dir_path, sizeof dir_path, "%s/policy", state);
    store_source(s, source);
    int dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return -errno;
    int error = fstat(dir, &st) < 0 || st.st_uid != 0 || (st.st_mode & 022) ? -EPERM : 0;
    /* Never another instance's policy, should the state directory not be the one we looked for. */
    ssize_t length = readlinkat(dir, "source", made, sizeof made - 1);
    made[length > 0 ? length : 0] = 0;
    if (error == 0 && strcmp(made, source)) error = -ENOENT;
    if (error == 0) error = store_read(dir, &fd);
    if (error == 0) error = image_open(&i, fd);
    if (error == 0 && strcmp(policy_gateway(&i.policy)->state_directory, state)) {
        image_close(&i);
        error = -ENOENT;
    }
    close(dir);
    if (error == 0) *ret = i;
    return error;
}
