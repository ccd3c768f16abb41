/* state.h: the memory a recorder shares with its successor; see struct recorder_state.
 *
 * `now` is a private copy. state_commit() makes it what the successor sees, all at once.
 */
#ifndef GATEWAY_RECORDER_STATE_H
#define GATEWAY_RECORDER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/base/buf.h"
#include "gateway/proto/handover.h"

struct state {
    struct recorder_state *shared;
    struct recorder_slot now;
    bool fresh;
};

/* Maps RECORDER_STATE, grows it when it is short, and takes over what is in it. 0 or -errno. */
int state_map(struct state *s, int fd);
void state_unmap(struct state *s);
void state_commit(struct state *s);

/* The waiting lines. */
const uint8_t *state_queue(const struct state *s, size_t *ret_size);
/* Room for one more line, at the end of the queue, `keep` bytes less than there is. */
struct buf state_room(const struct state *s, size_t keep);
/* `size` bytes were written into that room: they belong to the queue from now on. */
void state_push(struct state *s, size_t size);
/* `size` bytes at the front are in the file. Commits. */
void state_pop(struct state *s, size_t size);

#endif
