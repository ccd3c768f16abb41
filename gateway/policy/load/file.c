/* file.c: reading one file, bounded. */
#include "gateway/policy/load/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void tell_errno(struct faults *f, struct place at, int error) {
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        fault_add(f, at, "does not exist; make this file, or correct the path");
        return;
    case EACCES:
        fault_add(f, at, "may not be read; let the user that loads the policy read it (see chmod)");
        return;
    default:
        fault_add(f, at, "cannot be read: %s; check the path", strerror(error));
        return;
    }
}

/* 0 and the size as stat tells it, or -1 after a fault. */
static int check_kind(struct faults *f, struct place at, int fd, size_t *ret_size) {
    struct stat st;
    if (fstat(fd, &st) < 0) {
        tell_errno(f, at, errno);
        return -1;
    }
    if (S_ISDIR(st.st_mode)) {
        fault_add(f, at, "is a directory; a file is needed here");
        return -1;
    }
    if (!S_ISREG(st.st_mode)) {
        fault_add(f, at, "is no regular file; devices, pipes and sockets are not read");
        return -1;
    }
    if (st.st_size > (off_t)TREE_FILE_MAX) {
        fault_add(f, at, "is larger than 16 MiB; split it up");
        return -1;
    }
    *ret_size = (size_t)st.st_size;
    return 0;
}

/* Fills `bytes` up to the file's end or `size`. The file may change meanwhile: what counts is what
 * read() returns. */
static ssize_t fill(int fd, char *bytes, size_t size) {
    size_t used = 0;
    while (used < size) {
        ssize_t n = read(fd, bytes + used, size - used);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        if (n == 0) break;
        used += (size_t)n;
    }
    return (ssize_t)used;
}

int file_read(struct faults *f, const struct source_file *file, char **ret, size_t *ret_size) {
    struct place at = {file, 1, 1};
    /* Not blocking: a pipe put where a file is expected must not hold up the load. */
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        tell_errno(f, at, errno);
        return -1;
    }
    size_t size;
    if (check_kind(f, at, fd, &size) < 0) {
        close(fd);
        return -1;
    }
    char *bytes = malloc(size + 1);
    ssize_t got = bytes ? fill(fd, bytes, size) : 0;
    close(fd);
    if (!bytes || got < 0) {
        if (!bytes)
            f->nomem = true;
        else
            tell_errno(f, at, (int)-got);
        free(bytes);
        return -1;
    }
    bytes[got] = '\0';
    *ret = bytes;
    *ret_size = (size_t)got;
    return 0;
}
