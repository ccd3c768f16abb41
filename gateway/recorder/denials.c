/* denials.c: a ring of entries in order of their age, which is the order they fall due in, found by
 * an open-addressing index over the same ring.
 */
#include "gateway/recorder/denials.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/reason.h"

/* Exact entries, folded ones, and one catch-all for each reason fit at once: a new one of any sort
 * is refused by its own limit before the ring is full. */
#define RING     2048u
#define SLOTS    4096u /* power of two, at most half full */
#define NOBODY   UINT32_MAX
#define KEY_SIZE offsetof(struct denial, count)

struct denials {
    uint64_t seed; /* so that nobody outside can choose colliding keys */
    uint32_t head, used;
    uint32_t exact, folded; /* entries in the ring of each sort */
    struct denial ring[RING];
    uint32_t slots[SLOTS]; /* index into ring, or NOBODY */
};

_Static_assert(DENIALS_EXACT + DENIALS_FOLDED + (REASON_END - REASON_BASE) < RING,
               "ring too small");

struct denials *denials_new(void) {
    struct denials *d = calloc(1, sizeof *d);
    if (d == NULL) return NULL;
    random_bytes(&d->seed, sizeof d->seed);
    for (unsigned i = 0; i < SLOTS; i++) d->slots[i] = NOBODY;
    return d;
}

struct denials *denials_free(struct denials *d) {
    free(d);
    return NULL;
}

/* FNV-1a with a seed and a final mix; keys are short and the table is small. */
static uint32_t key_hash(const struct denials *d, const struct denial *key) {
    const uint8_t *bytes = (const uint8_t *)key;
    uint64_t h = d->seed ^ UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < KEY_SIZE; i++) h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    h ^= h >> 32;
    return (uint32_t)(h * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (SLOTS - 1);
}

/* The slot that holds the key, or the free one where it belongs. */
static uint32_t slot_of(const struct denials *d, const struct denial *key) {
    uint32_t s = key_hash(d, key);
    while (d->slots[s] != NOBODY && memcmp(&d->ring[d->slots[s]], key, KEY_SIZE) != 0)
        s = (s + 1) & (SLOTS - 1);
    return s;
}

static struct denial *entry_of(struct denials *d, const struct denial *key, bool room, usec_t now) {
    uint32_t s = slot_of(d, key);
    if (d->slots[s] != NOBODY) return &d->ring[d->slots[s]];
    if (!room) return NULL;
    uint32_t i = (d->head + d->used++) % RING;
    d->slots[s] = i;
    d->ring[i] = *key;
    d->ring[i].due = now + DENIALS_WINDOW;
    return &d->ring[i];
}

/* Finds or makes the entry of a key; when it makes one, counts it in `sort`. */
static struct denial *entry_take(struct denials *d, const struct denial *key, uint32_t *sort,
                                 uint32_t limit, usec_t now) {
    uint32_t before = d->used;
    struct denial *e = entry_of(d, key, *sort < limit, now);
    if (d->used != before) (*sort)++;
    return e;
}

void denials_add(struct denials *d, const struct packet *p, uint32_t reason,
                 const char interface[16], usec_t realtime, usec_t now) {
    struct denial key;
    memset(&key, 0, sizeof key); /* padding too: keys are compared as bytes */
    key.source = p->source;
    key.remote = p->remote;
    key.reason = reason;
    memcpy(key.interface, interface, strnlen(interface, sizeof key.interface));
    key.port = p->port;
    key.protocol = p->protocol;
    key.icmp_type = p->icmp_type;
    key.icmp_code = p->icmp_code;
    key.note = (uint8_t)p->note;
    key.has_protocol = p->has_protocol;
    key.has_ports = p->has_ports;
    key.has_icmp = p->has_icmp;
    struct denial *e = entry_take(d, &key, &d->exact, DENIALS_EXACT, now);
    if (e == NULL) {
        struct denial folded;
        memset(&folded, 0, sizeof folded);
        folded.source = key.source;
        folded.reason = reason;
        memcpy(folded.interface, key.interface, sizeof folded.interface);
        folded.folded = 1;
        e = entry_take(d, &folded, &d->folded, DENIALS_FOLDED, now);
        if (e == NULL) { /* at most one of these for each reason */
            memset(&folded, 0, sizeof folded);
            folded.reason = reason;
            folded.folded = 2;
            e = entry_of(d, &folded, true, now);
        }
    }
    if (e->count++ == 0) {
        e->first = realtime;
        e->source_port = p->source_port;
    }
    e->last = realtime;
}

const struct denial *denials_due(const struct denials *d, usec_t now) {
    if (d->used == 0 || d->ring[d->head].due > now) return NULL;
    return &d->ring[d->head];
}

/* Removes a slot and closes the gap in its run, so that later ones are still found. */
static void slot_remove(struct denials *d, uint32_t s) {
    uint32_t gap = s;
    d->slots[gap] = NOBODY;
    for (uint32_t i = (s + 1) & (SLOTS - 1); d->slots[i] != NOBODY; i = (i + 1) & (SLOTS - 1)) {
        uint32_t home = key_hash(d, &d->ring[d->slots[i]]);
        if (((i - home) & (SLOTS - 1)) < ((i - gap) & (SLOTS - 1))) continue;
        d->slots[gap] = d->slots[i];
        d->slots[i] = NOBODY;
        gap = i;
    }
}

void denials_drop(struct denials *d) {
    const struct denial *e = &d->ring[d->head];
    if (e->folded == 0)
        d->exact--;
    else if (e->folded == 1)
        d->folded--;
    slot_remove(d, slot_of(d, e));
    d->head = (d->head + 1) % RING;
    d->used--;
}

usec_t denials_next(const struct denials *d) {
    return d->used == 0 ? UINT64_MAX : d->ring[d->head].due;
}
