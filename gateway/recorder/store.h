/* store.h: the log on disk. Only whole lines are kept: what an interrupted write leaves is cut off
 * or moved aside. Everything happens below one directory descriptor.
 *
 *   tidegate.jsonl                                 being written
 *   tidegate-20261130T133700Z-<sequence>.jsonl     rotated; sequence of its first record
 *   tidegate-20261130T133700Z-<sequence>.torn      an unfinished line found at a start
 */
#ifndef GATEWAY_RECORDER_STORE_H
#define GATEWAY_RECORDER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/base/clock.h"

#define STORE_FILE "tidegate.jsonl"
#define STORE_NAME_MAX 64
#define STORE_SEGMENT_DEFAULT (64u << 20)
/* Writing stops while less than this is free, so that what must still be written can be, and
 * starts again only when a little more is, lest it stops at once. */
#define STORE_RESERVE (1u << 20)
#define STORE_RESUME (STORE_RESERVE + (256u << 10))

struct store {
    int directory; /* O_PATH; the caller's */
    const struct clock *clock;
    uint64_t segment_bytes; /* rotation size */
    uint32_t keep;          /* rotated files kept; the oldest go. 0: all are kept */

    int fd;         /* -1: not open */
    uint64_t size;  /* of the file, all whole lines */
    uint64_t first; /* sequence of its first record; 0: empty or unreadable */
    uint64_t last;  /* of the last record found when it was opened, rotated files included */
    uint64_t unsynced; /* bytes */
    uint64_t torn;  /* bytes moved aside at the last store_open() */
};

void store_init(struct store *s, int directory, const struct clock *clock);
/* Opens or makes the file, and sees to an unfinished line at its end: when it is the beginning of
 * `next` (the lines about to be written) it is cut off, else moved aside. Fails like a write would
 * when there is too little space. 0 or -errno; `s` is then closed, but s->last is set if the file
 * could at least be read. */
int store_open(struct store *s, const void *next, size_t size);
/* Appends whole lines, rotating as needed. `ret_written` says how many bytes of whole lines are in
 * the file, also on failure. 0 or -errno (-ENOSPC also when the reserve is reached). */
int store_append(struct store *s, const void *lines, size_t size, size_t *ret_written);
/* Makes sure that what was appended is on disk. 0 or -errno. */
int store_sync(struct store *s);
/* Whether the directory still has our file under its name: 0, -ESTALE, or -errno. */
int store_check(const struct store *s);
/* Whether the directory itself was removed. */
bool store_directory_gone(const struct store *s);
void store_close(struct store *s);

#endif
