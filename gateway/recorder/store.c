/* store.c: appending lines to the file in use. */
#include "gateway/recorder/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "gateway/recorder/files.h"
#include "gateway/recorder/record.h"

void store_init(struct store *s, int directory, const struct clock *clock) {
    *s = (struct store){
        .directory = directory, .clock = clock, .fd = -1, .segment_bytes = STORE_SEGMENT_DEFAULT};
}

void store_close(struct store *s) {
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    s->size = s->first = s->unsynced = 0;
}

/* A file system that does not say how large it is (blocks 0) is asked by writing. */
static int space_check(int fd, uint64_t wanted) {
    struct statvfs v;
    if (fstatvfs(fd, &v) < 0) return -errno;
    return v.f_blocks != 0 && (uint64_t)v.f_bavail * v.f_frsize < wanted ? -ENOSPC : 0;
}

/* O_NONBLOCK: a fifo under this name must not hang us; it is refused. */
static int file_open(const struct store *s, int flags, uint64_t *ret_size) {
    struct stat st;
    int fd = openat(s->directory, STORE_FILE, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0640);
    if (fd < 0) return -errno;
    int r = fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;
    if (r < 0) {
        close(fd);
        return r;
    }
    *ret_size = (uint64_t)st.st_size;
    return fd;
}

int store_open(struct store *s, const void *next, size_t size) {
    uint64_t end = 0;
    store_close(s);
    s->torn = 0;
    int r = 0, fd = file_open(s, O_RDWR | O_APPEND | O_CREAT, &end);
    if (fd < 0) {
        r = fd;
        fd = file_open(s, O_RDONLY, &end); /* to know at least how far it goes */
    }
    if (fd < 0) return r;
    if (r == 0) r = space_check(fd, STORE_RESUME);
    if (r == 0) r = file_mend(s, fd, next, size, &end);
    int ends = file_read_ends(s, fd, end);
    if (r == 0) r = ends;
    if (r < 0) {
        close(fd);
        s->first = 0;
        return r;
    }
    s->fd = fd;
    s->size = end;
    return 0;
}

int store_sync(struct store *s) {
    if (s->fd < 0 || s->unsynced == 0) return 0;
    if (fdatasync(s->fd) < 0) return -errno;
    s->unsynced = 0;
    return 0;
}

int store_check(const struct store *s) {
    struct stat named, ours;
    if (s->fd < 0) return -EBADF;
    if (fstat(s->fd, &ours) < 0) return -errno;
    if (fstatat(s->directory, STORE_FILE, &named, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? -ESTALE : -errno;
    return named.st_ino == ours.st_ino && named.st_dev == ours.st_dev ? 0 : -ESTALE;
}

bool store_directory_gone(const struct store *s) {
    struct stat st;
    return fstat(s->directory, &st) == 0 && st.st_nlink == 0;
}

static int rotate(struct store *s) {
    if (fsync(s->fd) < 0) return -errno;
    int r = file_rename(s);
    if (r < 0) return r;
    store_close(s);
    file_retire(s);
    return store_open(s, NULL, 0);
}

static size_t line_length(const uint8_t *lines, size_t size) {
    const uint8_t *end = memchr(lines, '\n', size);
    return end == NULL ? size : (size_t)(end - lines) + 1;
}

/* As many whole lines as the file may still take, but at least one when it is empty. */
static size_t fitting(const struct store *s, const uint8_t *lines, size_t size) {
    uint64_t room = s->size < s->segment_bytes ? s->segment_bytes - s->size : 0;
    size_t fit = 0;
    if (size <= room) return size;
    while (fit < size) {
        size_t line = line_length(lines + fit, size - fit);
        if (fit + line > room) break;
        fit += line;
    }
    return fit == 0 && s->size == 0 ? line_length(lines, size) : fit;
}

/* Writes all or, when the file system refuses, the whole lines that fit; the rest is cut off. */
static int write_lines(struct store *s, const uint8_t *lines, size_t size, size_t *ret_written) {
    size_t done = 0;
    int r = 0;
    while (done < size) {
        ssize_t n = write(s->fd, lines + done, size - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            r = n == 0 ? -EIO : -errno;
            break;
        }
    }
    const uint8_t *last = done == 0 ? NULL : memrchr(lines, '\n', done);
    size_t whole = last == NULL ? 0 : (size_t)(last - lines) + 1;
    /* When this fails too the piece stays, and is cut off by the store_open() that must follow. */
    if (whole < done && ftruncate(s->fd, (off_t)(s->size + whole)) < 0 && r == 0) r = -errno;
    if (s->size == 0 && whole > 0) s->first = record_line_sequence(lines, whole);
    s->size += whole;
    s->unsynced += whole;
    *ret_written = whole;
    return r;
}

int store_append(struct store *s, const void *lines, size_t size, size_t *ret_written) {
    const uint8_t *at = lines;
    size_t done = 0;
    int r = s->fd < 0 ? -EBADF : space_check(s->fd, STORE_RESERVE);
    while (r == 0 && done < size) {
        size_t written = 0, fit = fitting(s, at + done, size - done);
        if (fit == 0) {
            r = rotate(s);
            continue;
        }
        r = write_lines(s, at + done, fit, &written);
        done += written;
    }
    *ret_written = done;
    return r;
}
