/* output.c: queue to file, failure and recovery. */
#include "gateway/recorder/output.h"

#include <errno.h>
#include <string.h>

#include "gateway/base/log.h"

/* The last part of the queue is for starts, stops, policies and losses: a flood of packets or flows
 * while the disk is full must not push them out. */
#define IMPORTANT_ROOM (2 * RECORD_MAX)

bool output_failing(const struct recorder *r) {
    return r->state.now.failed_since != 0;
}

bool output_refuses(const struct recorder *r) {
    const struct image *i = images_current(&r->images);
    return i == NULL || policy_gateway(&i->policy)->when_full == WHEN_FULL_REFUSE;
}

bool output_room(const struct recorder *r) {
    return state_room(&r->state, IMPORTANT_ROOM).size >= RECORD_MAX;
}

/* ---- the queue ----------------------------------------------------------------------------- */

bool output_put(struct recorder *r, bool important) {
    for (int attempt = 0;; attempt++) {
        struct buf room = state_room(&r->state, important ? 0 : IMPORTANT_ROOM);
        int n = record_write(&r->record, &room);
        if (n > 0) {
            state_push(&r->state, (size_t)n);
            r->state.now.sequence++;
            return true;
        }
        if (n != -ENOSPC) {
            log_error("a record of kind %s could not be made", kind_name(r->record.kind));
            return false;
        }
        if (attempt > 0 || output_failing(r)) return false;
        output_flush(r); /* makes room */
    }
}

bool output_put_own(struct recorder *r, struct own_record *o) {
    o->time = clock_realtime(r->clock);
    format_own(&r->record, &r->images, r->state.now.sequence + 1, o);
    if (!output_put(r, true)) return false;
    state_commit(&r->state);
    return true;
}

static void tell_loss(struct recorder *r, uint64_t *lost, uint32_t code, uint32_t process) {
    if (*lost == 0) return;
    const struct image *i = images_current(&r->images);
    struct msg_event e = {.time = clock_realtime(r->clock),
                          .policy = i != NULL ? i->id : 0,
                          .code = code,
                          .uid = UINT32_MAX,
                          .count = *lost,
                          .other = process};
    format_event(&r->record, &r->images, r->state.now.sequence + 1, &e);
    if (!output_put(r, true)) return;
    *lost = 0;
    state_commit(&r->state); /* the record and the end of what it tells, at once */
}

void output_tell_losses(struct recorder *r) {
    tell_loss(r, &r->state.now.lost_core, EVENT_LOST_RECORDS, PROCESS_CORE);
    tell_loss(r, &r->state.now.lost_resolver, EVENT_LOST_RECORDS, PROCESS_RESOLVER);
    tell_loss(r, &r->state.now.lost_denied, EVENT_LOST_DENIED, 0);
}

/* ---- the file ------------------------------------------------------------------------------ */

static uint64_t lines_in(const uint8_t *bytes, size_t size) {
    uint64_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += bytes[i] == '\n';
    return lines;
}

static int write_queue(struct recorder *r) {
    size_t size, written = 0;
    const uint8_t *lines = state_queue(&r->state, &size);
    if (size == 0) return 0;
    int e = store_append(&r->store, lines, size, &written);
    uint64_t count = lines_in(lines, written);
    r->state.now.written += count;
    r->unsynced += count;
    state_pop(&r->state, written);
    return e;
}

static void fail(struct recorder *r, int error) {
    bool first = !output_failing(r);
    uint64_t e = (uint64_t)-error;
    if (first) {
        r->state.now.failed_since = clock_realtime(r->clock);
        r->gap_unsynced = r->unsynced;
        r->gap_queued = false;
    }
    if (first || r->state.now.failed_error != e) {
        log_error("the log cannot be written: %s%s", strerror(-error),
                  store_directory_gone(&r->store)
                      ? "; its directory was removed: make it again and restart tidegated"
                      : "");
        r->tell = true;
    }
    r->state.now.failed_error = e;
    state_commit(&r->state);
    store_close(&r->store);
    r->next_retry = clock_now(r->clock) + RECORDER_RETRY;
    output_tell(r);
}

/* What a predecessor wrote but had no time to take from the queue is in the file already. */
static void drop_written(struct recorder *r) {
    size_t size;
    const uint8_t *lines = state_queue(&r->state, &size);
    size_t drop = 0;
    uint64_t count = 0;
    while (drop < size) {
        const uint8_t *end = memchr(lines + drop, '\n', size - drop);
        if (end == NULL || record_line_sequence(lines + drop, size - drop) > r->store.last) break;
        drop = (size_t)(end - lines) + 1;
        count++;
    }
    r->state.now.written += count;
    state_pop(&r->state, drop);
}

/* Opens the file, and makes sure that numbers go on where it ends. */
static int open_log(struct recorder *r) {
    size_t size;
    const uint8_t *next = state_queue(&r->state, &size);
    int e = store_open(&r->store, next, size);
    /* Also of a file that can only be read the end is known. If nothing of an old log could be read
     * at a fresh start, what is queued until it can has numbers that were used before. */
    if (r->taken_over && e == 0 && r->store.last <= r->state.now.sequence) drop_written(r);
    if (r->store.last > r->state.now.sequence) r->state.now.sequence = r->store.last;
    if (e == 0) r->taken_over = false;
    if (e == 0 && r->store.torn > 0) {
        struct own_record o = {
            .event = OWN_TORN_TAIL, .count = r->store.torn, .process = PROCESS_COUNT};
        output_put_own(r, &o);
    }
    return e;
}

static void put_gap(struct recorder *r) {
    usec_t now = clock_realtime(r->clock), since = r->state.now.failed_since;
    struct own_record o = {.event = OWN_LOG_GAP,
                           .count = r->gap_unsynced,
                           .error = (int)r->state.now.failed_error,
                           .process = PROCESS_COUNT,
                           .duration = now > since ? now - since : 1};
    if (!r->gap_queued) r->gap_queued = output_put_own(r, &o);
}

void output_retry(struct recorder *r) {
    int e = open_log(r);
    if (e == 0) e = write_queue(r);
    if (e == 0) {
        put_gap(r);
        output_tell_losses(r);
        e = write_queue(r);
    }
    if (e == 0) e = store_sync(&r->store);
    if (e < 0) {
        fail(r, e);
        return;
    }
    log_note("the log is written again");
    r->unsynced = 0;
    r->state.now.failed_since = r->state.now.failed_error = 0;
    state_commit(&r->state);
    r->tell = true;
    output_tell(r);
}

void output_start(struct recorder *r) {
    r->taken_over = !r->state.fresh;
    if (output_failing(r)) { /* as it was for the predecessor */
        output_retry(r);
        return;
    }
    int e = open_log(r);
    if (e == 0) e = write_queue(r);
    if (e < 0) fail(r, e);
}

void output_flush(struct recorder *r) {
    if (output_failing(r)) return;
    int e = write_queue(r);
    if (e < 0) fail(r, e);
}

void output_sync(struct recorder *r) {
    if (output_failing(r)) return;
    int e = store_check(&r->store);
    if (e == -ESTALE) {
        log_warn("the log file was moved or removed; a new one is begun");
        store_sync(&r->store); /* it may still be wanted where it is now */
        e = open_log(r);
        struct own_record o = {.event = OWN_LOG_REPLACED, .process = PROCESS_COUNT};
        if (e == 0) output_put_own(r, &o);
        if (e == 0) e = write_queue(r);
    }
    if (e == 0) e = store_sync(&r->store);
    if (e < 0)
        fail(r, e);
    else
        r->unsynced = 0;
}

void output_tell(struct recorder *r) {
    if (!r->tell) return;
    struct proto_message *m = &r->answer;
    struct msg_log_state *s = proto_begin(m, PROTO_LOG_STATE, 0);
    s->ok = !output_failing(r) || !output_refuses(r);
    s->error = s->ok ? 0 : (uint32_t)r->state.now.failed_error;
    s->written = r->state.now.written;
    s->lost = r->state.now.lost;
    m->fd_count = 0;
    int e = channel_send(&r->channels[SENDER_CORE], m);
    if (e < 0 && e != -EAGAIN) log_warn("cannot tell core about the log: %s", strerror(-e));
    if (e == 0) {
        r->tell = false;
        r->next_tell = clock_now(r->clock) + RECORDER_TELL;
    }
}
