/* log_files.c: reading the log while it is written and rotated. */
#include "tools/tidegate/log_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 65536
#define LINE_LIMIT (1u << 20) /* longer is no record: it is offered in parts */
#define NAME_LIMIT 64

struct rotated {
    uint64_t first;
    char name[NAME_LIMIT];
};

struct rotated_list {
    struct rotated *files;
    size_t count, room;
};

/* tidegate-20261130T133700Z-4711.jsonl: 4711; 0 for any other name. */
static uint64_t rotated_first(const char *name) {
    static const char shape[] = "tidegate-00000000T000000Z-";
    if (strlen(name) >= NAME_LIMIT) return 0;
    for (size_t i = 0; shape[i] != '\0'; i++, name++)
        if (shape[i] == '0' ? *name < '0' || *name > '9' : *name != shape[i]) return 0;
    if (*name < '0' || *name > '9') return 0;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(name, &end, 10);
    return errno == 0 && strcmp(end, ".jsonl") == 0 ? n : 0;
}

static int rotated_compare(const void *a, const void *b) {
    const struct rotated *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int rotated_add(struct rotated_list *l, const char *name, uint64_t first) {
    if (l->count == l->room) {
        size_t room = l->room == 0 ? 64 : l->room * 2;
        struct rotated *files = realloc(l->files, room * sizeof *files);
        if (files == NULL) return -ENOMEM;
        l->files = files;
        l->room = room;
    }
    l->files[l->count].first = first;
    memcpy(l->files[l->count++].name, name, strlen(name) + 1);
    return 0;
}

/* Rotated files by the number in their names. */
static int rotated_read(int directory, struct rotated_list *ret) {
    *ret = (struct rotated_list){0};
    int r = 0, fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        r = -errno;
        if (fd >= 0) close(fd);
        return r;
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir)) != NULL;) {
        uint64_t first = rotated_first(e->d_name);
        if (first != 0) r = rotated_add(ret, e->d_name, first);
    }
    closedir(dir);
    if (ret->count > 1) qsort(ret->files, ret->count, sizeof ret->files[0], rotated_compare);
    return r;
}

/* ---- opening ------------------------------------------------------------------------------- */

static int file_open(int directory, const char *name, struct stat *st) {
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return -errno;
    int r = fstat(fd, st) < 0 ? -errno : S_ISREG(st->st_mode) ? 0 : -EINVAL;
    if (r == 0) return fd;
    close(fd);
    return r;
}

static void current_close(struct log_files *f) {
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    f->at = 0;
}

/* The file in use, from its beginning; its absence is no error. */
static int current_open(struct log_files *f, off_t *ret_size) {
    struct stat st;
    current_close(f);
    *ret_size = 0;
    int fd = file_open(f->directory, LOG_CURRENT, &st);
    if (fd < 0) return fd == -ENOENT ? 0 : fd;
    f->fd = fd;
    f->device = st.st_dev;
    f->inode = st.st_ino;
    *ret_size = st.st_size;
    return 0;
}

/* Where the last whole line before `size` ends. */
static int whole_lines(int fd, off_t size, off_t *ret) {
    char block[4096];
    while (size > 0) {
        size_t want = size < (off_t)sizeof block ? (size_t)size : sizeof block;
        ssize_t n = pread(fd, block, want, size - (off_t)want);
        if (n < 0) return -errno;
        const char *newline = memrchr(block, '\n', (size_t)n);
        if (newline != NULL) {
            *ret = size - (off_t)want + (newline - block) + 1;
            return 0;
        }
        size -= (off_t)want;
    }
    *ret = 0;
    return 0;
}

int log_files_open(struct log_files *f, const char *directory) {
    off_t size = 0;
    *f = (struct log_files){.fd = -1};
    f->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->directory < 0) return -errno;
    int r = current_open(f, &size);
    if (r == 0 && f->fd >= 0) r = whole_lines(f->fd, size, &f->at);
    if (r < 0) log_files_close(f);
    return r;
}

void log_files_close(struct log_files *f) {
    current_close(f);
    if (f->directory >= 0) close(f->directory);
    f->directory = -1;
}

/* ---- backwards ----------------------------------------------------------------------------- */

struct backward {
    log_line_fn *each;
    void *ctx;
    size_t wanted;
    char *line; /* the end of a line whose beginning is in blocks not read yet */
    size_t size;
};

/* Puts a piece in front of what is gathered. */
static int backward_gather(struct backward *b, const char *piece, size_t size) {
    char *line = malloc(size + b->size + 1);
    if (line == NULL) return -ENOMEM;
    memcpy(line, piece, size);
    if (b->size > 0) memcpy(line + size, b->line, b->size);
    free(b->line);
    b->line = line;
    b->size += size;
    return 0;
}

static int backward_offer(struct backward *b, const char *file, const char *piece, size_t size) {
    int r = backward_gather(b, piece, size);
    if (r < 0) return r;
    if (b->size > 0 && b->each(b->ctx, file, b->line, b->size)) b->wanted--;
    b->size = 0;
    return 0;
}

/* Lines of one file that end at or before `end`, the last one first. */
static int backward_file(struct backward *b, int fd, const char *file, off_t end) {
    static const size_t block = BLOCK;
    char *bytes = malloc(block);
    int r = bytes == NULL ? -ENOMEM : 0;
    bool last = true; /* the newline at `end` itself ends a line, and begins none */
    while (r == 0 && end > 0 && b->wanted > 0) {
        size_t want = end < (off_t)block ? (size_t)end : block;
        ssize_t n = pread(fd, bytes, want, end - (off_t)want);
        if (n != (ssize_t)want) {
            r = n < 0 ? -errno : -EIO;
            break;
        }
        size_t left = last ? want - 1 : want;
        last = false;
        for (const char *nl; r == 0 && b->wanted > 0 && (nl = memrchr(bytes, '\n', left));) {
            r = backward_offer(b, file, nl + 1, left - (size_t)(nl + 1 - bytes));
            left = (size_t)(nl - bytes);
        }
        if (r == 0 && b->wanted > 0)
            r = b->size + left > LINE_LIMIT ? backward_offer(b, file, bytes, left)
                                            : backward_gather(b, bytes, left);
        end -= (off_t)want;
    }
    if (r == 0 && b->wanted > 0) r = backward_offer(b, file, "", 0); /* the first line */
    b->size = 0;
    free(bytes);
    return r;
}

static int backward_rotated(struct log_files *f, struct backward *b, const struct rotated *file) {
    struct stat st;
    off_t end = 0;
    int fd = file_open(f->directory, file->name, &st);
    if (fd < 0) return fd == -ENOENT ? 0 : fd; /* removed meanwhile */
    int r = 0;
    /* Rotated after log_files_open(): it is the one we hold, and was read. */
    if (f->fd < 0 || st.st_ino != f->inode || st.st_dev != f->device)
        r = whole_lines(fd, st.st_size, &end);
    if (r == 0 && end > 0) r = backward_file(b, fd, file->name, end);
    close(fd);
    return r;
}

int log_files_last(struct log_files *f, size_t count, log_line_fn *each, void *ctx) {
    struct backward b = {.each = each, .ctx = ctx, .wanted = count};
    struct rotated_list l;
    int r = rotated_read(f->directory, &l);
    if (r == 0 && f->fd < 0 && l.count == 0) r = -ENOENT;
    if (r == 0 && l.count > 0) f->first = l.files[l.count - 1].first;
    if (r == 0 && f->fd >= 0) r = backward_file(&b, f->fd, LOG_CURRENT, f->at);
    for (size_t i = l.count; r == 0 && i > 0 && b.wanted > 0; i--)
        r = backward_rotated(f, &b, &l.files[i - 1]);
    free(b.line);
    free(l.files);
    return r;
}

/* ---- forwards ------------------------------------------------------------------------------ */

/* Offers whole lines from *at on, and moves it past them. */
static int forward_file(int fd, const char *file, off_t *at, log_line_fn *each, void *ctx) {
    char *bytes = malloc(LINE_LIMIT);
    int r = bytes == NULL ? -ENOMEM : 0;
    while (r == 0) {
        ssize_t n = pread(fd, bytes, LINE_LIMIT, *at);
        if (n <= 0) {
            r = n < 0 ? -errno : 0;
            break;
        }
        const char *end = memrchr(bytes, '\n', (size_t)n);
        if (end == NULL && n < (ssize_t)LINE_LIMIT) break; /* the rest is being written */
        size_t whole = end == NULL ? (size_t)n : (size_t)(end - bytes) + 1;
        for (size_t i = 0; i < whole;) {
            const char *newline = memchr(bytes + i, '\n', whole - i);
            size_t size = newline == NULL ? whole - i : (size_t)(newline - bytes) - i;
            if (size > 0) each(ctx, file, bytes + i, size);
            i += size + (newline != NULL);
        }
        *at += (off_t)whole;
    }
    free(bytes);
    return r;
}

/* Files that were begun and rotated while we looked away, but not the one just read. */
static int forward_rotated(struct log_files *f, dev_t device, ino_t inode, log_line_fn *each,
                           void *ctx) {
    struct rotated_list l;
    int r = rotated_read(f->directory, &l);
    for (size_t i = 0; r == 0 && i < l.count; i++) {
        struct stat st;
        off_t at = 0;
        if (l.files[i].first <= f->first) continue;
        int fd = file_open(f->directory, l.files[i].name, &st);
        if (fd == -ENOENT) continue;
        if (fd < 0) {
            r = fd;
            break;
        }
        bool current = f->fd >= 0 && st.st_ino == f->inode && st.st_dev == f->device;
        bool skip = st.st_ino == inode && st.st_dev == device;
        if (!current && !skip) r = forward_file(fd, l.files[i].name, &at, each, ctx);
        close(fd);
        if (current) break; /* rotated just now: it is read next, then those after it */
        f->first = l.files[i].first;
    }
    free(l.files);
    return r;
}

int log_files_follow(struct log_files *f, log_line_fn *each, void *ctx) {
    struct stat named;
    bool there = fstatat(f->directory, LOG_CURRENT, &named, AT_SYMLINK_NOFOLLOW) == 0;
    if (!there && errno != ENOENT) return -errno;
    bool same = there && f->fd >= 0 && named.st_ino == f->inode && named.st_dev == f->device;
    if (same && named.st_size < f->at) f->at = 0; /* cut by somebody else: begin again */
    int r = 0;
    /* Looked up first, read then: once a file has lost its name nothing more is written to it. */
    if (f->fd >= 0) r = forward_file(f->fd, LOG_CURRENT, &f->at, each, ctx);
    if (r < 0 || same || (!there && f->fd < 0)) return r;
    off_t size = 0;
    dev_t device = f->device;
    ino_t inode = f->fd >= 0 ? f->inode : 0;
    r = current_open(f, &size); /* before the list: what is rotated after it is still held here */
    if (r == 0) r = forward_rotated(f, device, inode, each, ctx);
    if (r == 0 && f->fd >= 0) r = forward_file(f->fd, LOG_CURRENT, &f->at, each, ctx);
    return r;
}
