/* log_files.h: lines of the log across its files, backwards for the last ones and forwards to
 * follow. File names and rotation are as gateway/recorder/store.h has them.
 */
#ifndef TOOLS_TIDEGATE_LOG_FILES_H
#define TOOLS_TIDEGATE_LOG_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LOG_CURRENT "tidegate.jsonl"

/* Called for a line without its newline; `file` is where it stands. True: it counts. */
typedef bool log_line_fn(void *ctx, const char *file, const char *line, size_t size);

struct log_files {
    int directory;
    int fd; /* of the file being followed; -1: there is none now */
    dev_t device;
    ino_t inode;
    uint64_t first; /* number in the name of the last file that was read, or will be in it */
    off_t at;       /* end of the last whole line that was read */
};

/* 0 or -errno. A directory without a log is no error. */
int log_files_open(struct log_files *f, const char *directory);
void log_files_close(struct log_files *f);
/* Offers lines from the last one backwards, until `count` of them counted. Lines written after
 * log_files_open() are left for log_files_follow(). 0 or -errno; -ENOENT: there is no log. */
int log_files_last(struct log_files *f, size_t count, log_line_fn *each, void *ctx);
/* Offers the lines that came since, in order, over rotations too. 0 or -errno. */
int log_files_follow(struct log_files *f, log_line_fn *each, void *ctx);

#endif
