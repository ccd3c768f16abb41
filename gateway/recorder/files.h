/* files.h: the parts of store.c that deal with names in the directory and with what is found in
 * files: torn ends, sequence numbers, rotated files.
 */
#ifndef GATEWAY_RECORDER_FILES_H
#define GATEWAY_RECORDER_FILES_H

#include "gateway/recorder/store.h"

/* Cuts off or moves aside what follows the last newline. Sets s->torn and `end`. 0 or -errno. */
int file_mend(struct store *s, int fd, const void *next, size_t size, uint64_t *end);
/* Sets s->first and s->last from the file, or s->last from the newest rotated one. 0 or -errno. */
int file_read_ends(struct store *s, int fd, uint64_t end);
/* Renames the file in use to its rotated name, overwriting nothing. 0 or -errno. */
int file_rename(const struct store *s);
/* Removes the oldest rotated files above s->keep. Logs what it cannot remove. */
void file_retire(const struct store *s);

/* "tidegate-20261130T133700Z-4711.jsonl" -> 4711; 0 if the name is none of ours. */
uint64_t file_name_sequence(const char *name);

#endif
