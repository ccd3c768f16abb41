/* recorder.h: the only writer of the audit log, without its event loop.
 *
 *   message > record > queue (shared memory) > file
 *
 * recorder_receive() reads messages and puts their records into the queue; recorder_flush() writes
 * the queue to the file in one go; recorder_tick() does what is due by time. While the log cannot
 * be written the queue fills; what then no longer fits is counted, and the count is in the log
 * when it works again. With `when_full: refuse` the resolver's messages are left in its channel
 * instead: it finds the channel full and refuses its clients.
 */
#ifndef GATEWAY_RECORDER_RECORDER_H
#define GATEWAY_RECORDER_RECORDER_H

#include <stdbool.h>

#include "gateway/base/clock.h"
#include "gateway/proto/proto.h"
#include "gateway/recorder/denials.h"
#include "gateway/recorder/format.h"
#include "gateway/recorder/images.h"
#include "gateway/recorder/record.h"
#include "gateway/recorder/state.h"
#include "gateway/recorder/store.h"

enum sender { SENDER_CORE, SENDER_RESOLVER, SENDER_COUNT };

#define RECORDER_RETRY (500 * USEC_PER_MSEC) /* while the log cannot be written */
#define RECORDER_SYNC USEC_PER_SEC
#define RECORDER_TELL (2 * USEC_PER_SEC) /* LOG_STATE when nothing changed */

struct recorder_setup {
    const struct clock *clock;
    int channels[SENDER_COUNT];
    int image, directory, state; /* the image is taken, the others are the caller's */
    const char *host;            /* see struct images; NULL: none */
};

struct recorder {
    const struct clock *clock;
    struct channel channels[SENDER_COUNT];
    uint64_t bad[SENDER_COUNT]; /* impossible messages not yet told by a record */
    struct state state;
    struct images images;
    struct denials *denials;
    struct store store;
    bool tell;            /* LOG_STATE is to be sent as soon as the channel takes it */
    bool gap_queued;      /* the record of the end of this outage is in the queue */
    uint64_t gap_unsynced; /* records written but not known to be on disk when it began */
    uint64_t unsynced;     /* the same, now */
    usec_t next_retry, next_sync, next_tell; /* monotonic */
    bool taken_over; /* the queue of a predecessor may hold what is in the file already */
    struct record record;
    struct proto_message messages[SENDER_COUNT], answer;
};

/* Takes over from a predecessor and sends the first LOG_STATE. A log that cannot be written is no
 * error here. 0 or -errno (no memory, no usable image or state). */
int recorder_start(struct recorder *r, const struct recorder_setup *setup);
/* Reads what waits on a channel, up to a bound. More than 0 when there may be more, 0 when it is
 * empty; -errno when the channel is broken. */
int recorder_receive(struct recorder *r, enum sender from);
/* Whether the channel should be read now. */
bool recorder_wants(const struct recorder *r, enum sender from);
void recorder_flush(struct recorder *r);
void recorder_tick(struct recorder *r);
/* Microseconds until recorder_tick() has something to do. */
usec_t recorder_wait(const struct recorder *r);
/* Reads and writes all that is left, and makes sure that it is on disk. */
void recorder_stop(struct recorder *r);
/* Frees everything; what is in the shared state stays for a successor. */
void recorder_free(struct recorder *r);

#endif
