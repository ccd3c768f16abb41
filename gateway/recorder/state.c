/* state.c: two slots and a queue in shared memory. */
#include "gateway/recorder/state.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/base/log.h"

static bool slot_sane(const struct recorder_state *shared, const struct recorder_slot *s) {
    if (s->queue_first > s->queue_end || s->queue_end > RECORDER_QUEUE_MAX) return false;
    return s->queue_first == s->queue_end || shared->queue[s->queue_end - 1] == '\n';
}

int state_map(struct state *s, int fd) {
    struct stat st;
    if (fstat(fd, &st) < 0) return -errno;
    if (st.st_size < (off_t)sizeof *s->shared && ftruncate(fd, sizeof *s->shared) < 0)
        return -errno;
    void *map = mmap(NULL, sizeof *s->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) return -errno;
    s->shared = map;
    s->now = s->shared->slots[s->shared->current & 1];
    if (!slot_sane(s->shared, &s->now)) {
        log_error("the state left by the last recorder is damaged and is not used");
        memset(&s->now, 0, sizeof s->now);
    }
    static const struct recorder_slot zero;
    s->fresh = memcmp(&s->now, &zero, sizeof zero) == 0;
    return 0;
}

void state_unmap(struct state *s) {
    if (s->shared != NULL) munmap(s->shared, sizeof *s->shared);
    s->shared = NULL;
}

/* Only this process and, once it is gone, its successor look at this memory, so what must be kept
 * in order is the compiler alone: a process that dies leaves the stores it has made. */
void state_commit(struct state *s) {
    uint32_t next = !(s->shared->current & 1);
    s->shared->slots[next] = s->now;
    __atomic_store_n(&s->shared->current, next, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

const uint8_t *state_queue(const struct state *s, size_t *ret_size) {
    *ret_size = s->now.queue_end - s->now.queue_first;
    return s->shared->queue + s->now.queue_first;
}

struct buf state_room(const struct state *s, size_t keep) {
    size_t room = RECORDER_QUEUE_MAX - s->now.queue_end;
    return buf_over(s->shared->queue + s->now.queue_end, room > keep ? room - keep : 0);
}

void state_push(struct state *s, size_t size) {
    s->now.queue_end += size;
}

void state_pop(struct state *s, size_t size) {
    s->now.queue_first += size;
    if (s->now.queue_first == s->now.queue_end) s->now.queue_first = s->now.queue_end = 0;
    state_commit(s); /* before anything is put where the lines were */
}
