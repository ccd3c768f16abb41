/* slots.h: numbers for things that are asked about elsewhere and come back later. A number names one
 * occupant only: when its slot is used again the number is another, so a late reply finds nothing.
 */
#ifndef RESOLVER_OPENING_SLOTS_H
#define RESOLVER_OPENING_SLOTS_H

#include <stdint.h>

struct slots {
    struct slot { void *item; uint64_t id; uint32_t next_free; } *slots;
    uint32_t size, used, free;
};

/* Room for `size` items at once; size is a power of two. `start` is where counting begins. Numbers that
 * leave the process need a random one: replies to what a killed predecessor asked are still read. 0 or
 * -ENOMEM. */
int slots_init(struct slots *s, uint32_t size, uint64_t start);
/* The item's number, never 0; 0 when all slots are taken. */
uint64_t slots_take(struct slots *s, void *item);
/* The item with this number, or NULL. */
void *slots_find(const struct slots *s, uint64_t id);
void slots_release(struct slots *s, uint64_t id);
void slots_destroy(struct slots *s);

#endif
