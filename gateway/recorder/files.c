/* files.c: names and ends of the log's files. */
#include "gateway/recorder/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/recorder/record.h"

#define PREFIX "tidegate-"
#define SUFFIX ".jsonl"
#define STAMP  16 /* 20261130T133700Z */

/* Reads up to `size` bytes at `offset`. Bytes read or -errno. */
static ssize_t read_at(int fd, uint8_t *to, size_t size, uint64_t offset) {
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(fd, to + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static void stamped_name(const struct store *s, uint64_t sequence, const char *suffix,
                         char name[STORE_NAME_MAX]) {
    char stamp[STAMP + 1], text[TIME_TEXT_MAX];
    time_format(clock_realtime(s->clock), text);
    size_t n = 0;
    for (size_t i = 0; text[i] != '\0' && text[i] != '.' && n < STAMP - 1; i++)
        if (text[i] != '-' && text[i] != ':') stamp[n++] = text[i];
    stamp[n++] = 'Z';
    stamp[n] = '\0';
    snprintf(name, STORE_NAME_MAX, PREFIX "%s-%" PRIu64 "%s", stamp, sequence, suffix);
}

uint64_t file_name_sequence(const char *name) {
    static const char shape[] = PREFIX "00000000T000000Z-";
    uint64_t n = 0;
    for (size_t i = 0; shape[i] != '\0'; i++, name++) {
        bool digit = *name >= '0' && *name <= '9';
        if (shape[i] == '0' ? !digit : *name != shape[i]) return 0;
    }
    for (; *name >= '0' && *name <= '9'; name++) {
        if (n > (UINT64_MAX - 9) / 10) return 0;
        n = n * 10 + (uint64_t)(*name - '0');
    }
    return strcmp(name, SUFFIX) == 0 ? n : 0;
}

/* ---- the end of a file --------------------------------------------------------------------- */

/* Where the unfinished line at the end begins; `end` if there is none. An unfinished record is not
 * longer than RECORD_MAX, but a crash of the machine can leave any number of zero bytes. */
static int torn_start(int fd, uint64_t end, uint64_t *ret) {
    uint8_t block[4096];
    uint64_t at = end;
    while (at > 0) {
        size_t size = at < sizeof block ? (size_t)at : sizeof block;
        ssize_t n = read_at(fd, block, size, at - size);
        if (n < 0) return (int)n;
        if ((size_t)n != size) return -EIO;
        const uint8_t *newline = memrchr(block, '\n', size);
        if (newline != NULL) {
            *ret = at - size + (uint64_t)(newline - block) + 1;
            return 0;
        }
        at -= size;
    }
    *ret = 0;
    return 0;
}

/* Whether the piece is how a line of `next` begins: then it is ours, and comes again whole. */
static bool torn_is_next(int fd, uint64_t start, uint64_t size, const uint8_t *next, size_t left) {
    uint8_t block[RECORD_MAX];
    if (size > left || size > sizeof block) return false;
    if (read_at(fd, block, (size_t)size, start) != (ssize_t)size) return false;
    while (size <= left) {
        if (memcmp(block, next, (size_t)size) == 0) return true;
        const uint8_t *end = memchr(next, '\n', left);
        if (end == NULL) return false;
        left -= (size_t)(end + 1 - next);
        next = end + 1;
    }
    return false;
}

static int write_all(int fd, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? -errno : -EIO;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

static int copy_bytes(int from, uint64_t offset, uint64_t size, int to) {
    uint8_t block[4096];
    while (size > 0) {
        size_t want = size < sizeof block ? (size_t)size : sizeof block;
        ssize_t n = read_at(from, block, want, offset);
        int r = n <= 0 ? (n < 0 ? (int)n : -EIO) : write_all(to, block, (size_t)n);
        if (r < 0) return r;
        offset += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return fsync(to) < 0 ? -errno : 0;
}

/* Opens a name that nothing has yet: two in one second differ in a number before the suffix. */
static int torn_create(const struct store *s, uint64_t sequence, char name[STORE_NAME_MAX]) {
    int fd = -1;
    for (unsigned i = 0; i < 100; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, i == 0 ? ".torn" : ".%u.torn", i);
        stamped_name(s, sequence, suffix, name);
        fd = openat(s->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
        if (fd >= 0 || errno != EEXIST) break;
    }
    return fd < 0 ? -errno : fd;
}

static uint64_t last_sequence(int fd, uint64_t end);

int file_mend(struct store *s, int fd, const void *next, size_t size, uint64_t *end) {
    uint64_t start = *end;
    int r = torn_start(fd, *end, &start);
    if (r < 0 || start == *end) return r;
    uint64_t torn = *end - start;
    if (!torn_is_next(fd, start, torn, next, size)) {
        char name[STORE_NAME_MAX];
        int to = torn_create(s, last_sequence(fd, start) + 1, name);
        if (to < 0) return to;
        r = copy_bytes(fd, start, torn, to);
        close(to);
        if (r < 0) {
            unlinkat(s->directory, name, 0);
            return r;
        }
        log_warn("moved %" PRIu64 " bytes of an unfinished record from " STORE_FILE " to %s", torn,
                 name);
        s->torn = torn;
    }
    if (ftruncate(fd, (off_t)start) < 0) return -errno;
    *end = start;
    return 0;
}

/* ---- sequence numbers ---------------------------------------------------------------------- */

/* Of the last line that has one, looking back a bounded way. 0: none found. */
static uint64_t last_sequence(int fd, uint64_t end) {
    uint8_t block[2 * RECORD_MAX];
    size_t size = end < sizeof block ? (size_t)end : sizeof block;
    ssize_t n = read_at(fd, block, size, end - size);
    size_t left = n < 0 ? 0 : (size_t)n;
    while (left > 0) {
        size_t stop =
            block[left - 1] == '\n' ? left - 1 : left; /* the line is block[start..left) */
        const uint8_t *newline = stop == 0 ? NULL : memrchr(block, '\n', stop);
        size_t start = newline == NULL ? 0 : (size_t)(newline - block) + 1;
        uint64_t sequence = record_line_sequence(block + start, left - start);
        if (sequence != 0) return sequence;
        left = start;
    }
    return 0;
}

typedef void name_visit(void *ctx, const char *name, uint64_t sequence);

static int names_each(const struct store *s, name_visit *visit, void *ctx) {
    int fd = openat(s->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        int r = -errno;
        close(fd);
        return r;
    }
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        uint64_t sequence = file_name_sequence(e->d_name);
        if (sequence != 0) visit(ctx, e->d_name, sequence);
    }
    closedir(dir);
    return 0;
}

struct found {
    bool oldest; /* which one is looked for; else the newest */
    uint32_t count;
    uint64_t sequence;
    char name[STORE_NAME_MAX];
};

static void visit_found(void *ctx, const char *name, uint64_t sequence) {
    struct found *f = ctx;
    bool first = f->count++ == 0;
    if (!first && (f->oldest ? sequence >= f->sequence : sequence <= f->sequence)) return;
    f->sequence = sequence;
    snprintf(f->name, sizeof f->name, "%s", name);
}

int file_read_ends(struct store *s, int fd, uint64_t end) {
    uint8_t head[128];
    ssize_t n = read_at(fd, head, sizeof head, 0);
    if (n < 0) return (int)n;
    s->first = record_line_sequence(head, (size_t)n);
    s->last = last_sequence(fd, end);
    if (s->last != 0) return 0;
    struct found newest = {.oldest = false};
    int r = names_each(s, visit_found, &newest);
    if (r < 0 || newest.count == 0) return r;
    s->last = newest.sequence; /* at least that far, should its lines not say */
    int rotated = openat(s->directory, newest.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (rotated < 0) return -errno;
    struct stat st;
    if (fstat(rotated, &st) == 0 && S_ISREG(st.st_mode)) {
        uint64_t last = last_sequence(rotated, (uint64_t)st.st_size);
        if (last > s->last) s->last = last;
    }
    close(rotated);
    return 0;
}

/* ---- rotation ------------------------------------------------------------------------------ */

int file_rename(const struct store *s) {
    char name[STORE_NAME_MAX];
    /* A sequence never comes twice, so neither does the name; RENAME_NOREPLACE makes sure. */
    stamped_name(s, s->first != 0 ? s->first : 1, SUFFIX, name);
    if (renameat2(s->directory, STORE_FILE, s->directory, name, RENAME_NOREPLACE) == 0) return 0;
    return -errno;
}

void file_retire(const struct store *s) {
    while (s->keep != 0) {
        struct found oldest = {.oldest = true};
        int r = names_each(s, visit_found, &oldest);
        if (r == 0 && oldest.count <= s->keep) return;
        if (r == 0 && unlinkat(s->directory, oldest.name, 0) < 0) r = -errno;
        if (r < 0) {
            log_warn("cannot remove the oldest log file %s: %s", oldest.name, strerror(-r));
            return;
        }
    }
}
