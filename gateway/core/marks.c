/* marks.c: numbers for agents and endpoints, and their file. */
#include "gateway/core/marks.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum state {
    FREE,
    KNOWN,
    FRESH, /* given out since the start, before the kernel was compared */
    GONE,  /* given up, but still in the file */
};
enum kind { SUBJECTS, ENDPOINTS, KINDS };

struct table {
    uint32_t max, used, last; /* numbers in use (FREE not counted); the one given out last */
    uint32_t mask;
    uint8_t (*keys)[POLICY_KEY_SIZE]; /* by number, 0 unused */
    uint8_t *states;                  /* enum state */
    uint32_t *next, *buckets;         /* hash chains of KNOWN and FRESH */
};

struct marks { struct table tables[KINDS]; };

/* ---- one table ----------------------------------------------------------------------------- */

static void table_release(struct table *t) {
    free(t->keys);
    free(t->states);
    free(t->next);
    free(t->buckets);
}

static bool table_make(struct table *t, uint32_t max) {
    uint32_t buckets = 1;
    while (buckets <= max) buckets *= 2;
    *t = (struct table){.max = max, .mask = buckets - 1};
    t->keys = calloc(max + 1, sizeof *t->keys);
    t->states = calloc(max + 1, sizeof *t->states);
    t->next = calloc(max + 1, sizeof *t->next);
    t->buckets = calloc(buckets, sizeof *t->buckets);
    return t->keys && t->states && t->next && t->buckets;
}

/* Keys are digests of what the operator wrote: they spread by themselves. */
static uint32_t *table_bucket(const struct table *t, const uint8_t *key) {
    uint32_t hash;
    memcpy(&hash, key, sizeof hash);
    return &t->buckets[hash & t->mask];
}

static uint32_t table_find(const struct table *t, const uint8_t *key) {
    uint32_t i = *table_bucket(t, key);
    while (i && memcmp(t->keys[i], key, POLICY_KEY_SIZE) != 0) i = t->next[i];
    return i;
}

static void table_set(struct table *t, uint32_t number, const uint8_t *key, enum state state) {
    uint32_t *bucket = table_bucket(t, key);
    memcpy(t->keys[number], key, POLICY_KEY_SIZE);
    t->states[number] = (uint8_t)state;
    t->next[number] = *bucket;
    *bucket = number;
    t->used++;
}

/* The next free number after the one given out last, so that a number rests long before it returns.
 * The caller knows that there is one. */
static void table_give(struct table *t, const uint8_t *key) {
    if (table_find(t, key)) return;
    do t->last = t->last >= t->max ? 1 : t->last + 1;
    while (t->states[t->last] != FREE);
    table_set(t, t->last, key, FRESH);
}

static void table_give_up(struct table *t, uint32_t number) {
    uint32_t *link = table_bucket(t, t->keys[number]);
    while (*link != number) link = &t->next[*link];
    *link = t->next[number];
    t->states[number] = GONE;
}

/* ---- life ---------------------------------------------------------------------------------- */

struct marks *marks_new(void) {
    struct marks *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    if (!table_make(&m->tables[SUBJECTS], MARKS_SUBJECT_MAX) ||
        !table_make(&m->tables[ENDPOINTS], MARKS_ENDPOINT_MAX))
        return marks_free(m);
    return m;
}

struct marks *marks_free(struct marks *m) {
    if (!m) return NULL;
    for (int k = 0; k < KINDS; k++) table_release(&m->tables[k]);
    free(m);
    return NULL;
}

/* ---- numbers ------------------------------------------------------------------------------- */

static uint32_t key_count(const struct policy *p, int kind) {
    return kind == SUBJECTS ? policy_agent_count(p) : policy_endpoint_count(p);
}
static const uint8_t *key_at(const struct policy *p, int kind, uint32_t i) {
    return kind == SUBJECTS ? policy_agent(p, i)->key : policy_endpoint(p, i)->key;
}
static uint32_t key_index(const struct policy *p, int kind, const uint8_t *key) {
    return kind == SUBJECTS ? policy_agent_by_key(p, key) : policy_endpoint_by_key(p, key);
}

int marks_assign(struct marks *m, const struct policy *p, const char **ret_what) {
    static const char *const what[KINDS] = {"agents", "endpoints"};
    for (int k = 0; k < KINDS; k++) {
        const struct table *t = &m->tables[k];
        uint32_t wanted = 0;
        for (uint32_t i = 0; i < key_count(p, k); i++) wanted += !table_find(t, key_at(p, k, i));
        if (wanted > t->max - t->used) {
            *ret_what = what[k];
            return -ENOSPC;
        }
    }
    for (int k = 0; k < KINDS; k++)
        for (uint32_t i = 0; i < key_count(p, k); i++) table_give(&m->tables[k], key_at(p, k, i));
    return 0;
}

void marks_settle(struct marks *m) {
    for (int k = 0; k < KINDS; k++) {
        struct table *t = &m->tables[k];
        for (uint32_t i = 1; i <= t->max; i++)
            if (t->states[i] == FRESH) t->states[i] = KNOWN;
    }
}

unsigned marks_retain(struct marks *m, const struct policy *p) {
    unsigned given_up = 0;
    for (int k = 0; k < KINDS; k++) {
        struct table *t = &m->tables[k];
        for (uint32_t i = 1; i <= t->max; i++) {
            if (t->states[i] != KNOWN && t->states[i] != FRESH) continue;
            if (key_index(p, k, t->keys[i]) != POLICY_NONE) continue;
            table_give_up(t, i);
            given_up++;
        }
    }
    return given_up;
}

uint32_t marks_of(const struct marks *m, const struct policy *p, uint32_t agent,
                  uint32_t endpoint) {
    uint32_t a = table_find(&m->tables[SUBJECTS], policy_agent(p, agent)->key);
    uint32_t e = table_find(&m->tables[ENDPOINTS], policy_endpoint(p, endpoint)->key);
    return a && e ? a << MARKS_ENDPOINT_BITS | e : 0;
}

static uint32_t index_of(const struct marks *m, const struct policy *p, int kind,
                         uint32_t number) {
    return key_index(p, kind, m->tables[kind].keys[number]);
}

bool marks_read(const struct marks *m, const struct policy *p, uint32_t mark, uint32_t *ret_agent,
                uint32_t *ret_endpoint) {
    uint32_t a = mark >> MARKS_ENDPOINT_BITS, e = mark & MARKS_ENDPOINT_MAX;
    if (a > MARKS_SUBJECT_MAX || m->tables[SUBJECTS].states[a] != KNOWN ||
        m->tables[ENDPOINTS].states[e] != KNOWN)
        return false;
    *ret_agent = index_of(m, p, SUBJECTS, a);
    *ret_endpoint = index_of(m, p, ENDPOINTS, e);
    return true;
}

/* ---- the file: head, records, BLAKE2b over both -------------------------------------------- */

#define MAGIC "TGMARKS"
#define VERSION 1u

struct file_head {
    char magic[8];
    uint32_t version, zero;
    uint32_t counts[KINDS]; /* records of each kind, in this order */
};
struct file_record {
    uint32_t number;
    uint8_t key[POLICY_KEY_SIZE];
};
#define SUM_SIZE 32

static void file_sum(const void *bytes, size_t size, uint8_t sum[SUM_SIZE]) {
    crypto_generichash(sum, SUM_SIZE, bytes, size, NULL, 0);
}

static int write_all(int fd, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

/* The directory itself is held as O_PATH, which cannot be synced. */
static int sync_directory(int directory) {
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int r = fsync(fd) < 0 ? -errno : 0;
    close(fd);
    return r;
}

static int write_file(int directory, const uint8_t *bytes, size_t size) {
    static const char temporary[] = MARKS_FILE ".new";
    int fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                    0600);
    if (fd < 0) return -errno;
    int r = write_all(fd, bytes, size);
    if (r == 0 && fsync(fd) < 0) r = -errno;
    close(fd);
    if (r == 0 && renameat(directory, temporary, directory, MARKS_FILE) < 0) r = -errno;
    if (r < 0) {
        unlinkat(directory, temporary, 0);
        return r;
    }
    return sync_directory(directory);
}

static bool in_file(const struct table *t, uint32_t i) {
    return t->states[i] == KNOWN || t->states[i] == FRESH;
}

int marks_save(struct marks *m, int directory) {
    size_t records = (size_t)m->tables[SUBJECTS].used + m->tables[ENDPOINTS].used;
    size_t size = sizeof(struct file_head);
    uint8_t *bytes = malloc(size + records * sizeof(struct file_record) + SUM_SIZE);
    if (!bytes) return -ENOMEM;
    struct file_head head = {.magic = MAGIC, .version = VERSION};
    for (int k = 0; k < KINDS; k++) {
        const struct table *t = &m->tables[k];
        for (uint32_t i = 1; i <= t->max; i++) {
            if (!in_file(t, i)) continue;
            struct file_record record = {.number = i};
            memcpy(record.key, t->keys[i], POLICY_KEY_SIZE);
            memcpy(bytes + size, &record, sizeof record);
            size += sizeof record;
            head.counts[k]++;
        }
    }
    memcpy(bytes, &head, sizeof head);
    file_sum(bytes, size, bytes + size);
    int r = write_file(directory, bytes, size + SUM_SIZE);
    free(bytes);
    if (r < 0) return r;
    for (int k = 0; k < KINDS; k++) {
        struct table *t = &m->tables[k];
        for (uint32_t i = 1; i <= t->max; i++) {
            if (t->states[i] != GONE) continue;
            t->states[i] = FREE;
            t->used--;
        }
    }
    return 0;
}

/* Whether the bytes are a whole file of ours. */
static bool file_valid(const uint8_t *bytes, size_t size) {
    struct file_head head;
    uint8_t sum[SUM_SIZE];
    if (size < sizeof head + SUM_SIZE) return false;
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.magic, MAGIC, sizeof MAGIC) != 0 || head.version != VERSION) return false;
    if (head.counts[SUBJECTS] > MARKS_SUBJECT_MAX || head.counts[ENDPOINTS] > MARKS_ENDPOINT_MAX)
        return false;
    size_t records = (size_t)head.counts[SUBJECTS] + head.counts[ENDPOINTS];
    if (size != sizeof head + records * sizeof(struct file_record) + SUM_SIZE) return false;
    file_sum(bytes, size - SUM_SIZE, sum);
    return memcmp(sum, bytes + size - SUM_SIZE, SUM_SIZE) == 0;
}

static void take_records(struct marks *m, const uint8_t *bytes) {
    struct file_head head;
    memcpy(&head, bytes, sizeof head);
    bytes += sizeof head;
    for (int k = 0; k < KINDS; k++) {
        struct table *t = &m->tables[k];
        for (uint32_t i = 0; i < head.counts[k]; i++, bytes += sizeof(struct file_record)) {
            struct file_record r;
            memcpy(&r, bytes, sizeof r);
            /* The sum holds, so we wrote this; a number out of range would still be a bad index. */
            if (r.number == 0 || r.number > t->max || t->states[r.number] != FREE) continue;
            table_set(t, r.number, r.key, KNOWN);
            t->last = r.number;
        }
    }
}

static int read_all(int fd, uint8_t *bytes, size_t size) {
    while (size > 0) {
        ssize_t n = read(fd, bytes, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        if (n == 0) return -EBADMSG;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

int marks_load(struct marks *m, int directory) {
    const size_t records = MARKS_SUBJECT_MAX + MARKS_ENDPOINT_MAX;
    const size_t most =
        sizeof(struct file_head) + records * sizeof(struct file_record) + SUM_SIZE;
    int fd = openat(directory, MARKS_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return -errno;
    struct stat st;
    uint8_t *bytes = NULL;
    int r = 0;
    if (fstat(fd, &st) < 0) r = -errno;
    else if (!S_ISREG(st.st_mode) || st.st_size < 1 || (size_t)st.st_size > most) r = -EBADMSG;
    else if (!(bytes = malloc((size_t)st.st_size))) r = -ENOMEM;
    else r = read_all(fd, bytes, (size_t)st.st_size);
    close(fd);
    if (r == 0 && !file_valid(bytes, (size_t)st.st_size)) r = -EBADMSG;
    if (r == 0) take_records(m, bytes);
    free(bytes);
    return r;
}
