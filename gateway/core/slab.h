/* slab.h: items of one size, told apart by small numbers that stay put while the item lives.
 *
 * Numbers instead of pointers: half the size in the tables that must hold a million items, and a
 * page of a listing can continue at a number although items came and went meanwhile. Memory grows
 * by chunks, so nothing is ever moved and no request pays for a large copy.
 */
#ifndef GATEWAY_CORE_SLAB_H
#define GATEWAY_CORE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#define SLAB_CHUNK 4096u /* items */

struct slab {
    uint8_t **chunks;
    size_t item;        /* bytes */
    uint32_t max;       /* items there may ever be */
    uint32_t high;      /* numbers 1..high have been handed out at least once */
    uint32_t chunk_count;
    uint32_t free;      /* first of the chain of given-back numbers, 0: none */
    uint32_t live;
};

/* `item` is at least 4 bytes. 0 or -ENOMEM. */
int slab_make(struct slab *s, size_t item, uint32_t max);
void slab_release(struct slab *s);
/* Makes sure that the next `count` slab_take() succeed. 0, -ENOSPC (over max) or -ENOMEM. */
int slab_reserve(struct slab *s, uint32_t count);
/* The number (from 1) of a zeroed item; 0 when full or out of memory. */
uint32_t slab_take(struct slab *s);
/* Gives the item back. Its bytes from the fifth on are zero until it is taken again. */
void slab_give(struct slab *s, uint32_t number);

static inline void *slab_at(const struct slab *s, uint32_t number) {
    uint32_t i = number - 1;
    return s->chunks[i / SLAB_CHUNK] + (size_t)(i % SLAB_CHUNK) * s->item;
}

#endif
