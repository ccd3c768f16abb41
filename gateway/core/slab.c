/* slab.c: items of one size under stable numbers. */
#include "gateway/core/slab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int slab_make(struct slab *s, size_t item, uint32_t max) {
    uint32_t chunks = max / SLAB_CHUNK + 1;
    uint8_t **table = calloc(chunks, sizeof *table);
    if (!table) return -ENOMEM;
    *s = (struct slab){.chunks = table, .item = item, .max = max};
    return 0;
}

void slab_release(struct slab *s) {
    for (uint32_t i = 0; i < s->chunk_count; i++) free(s->chunks[i]);
    free(s->chunks);
    *s = (struct slab){0};
}

int slab_reserve(struct slab *s, uint32_t count) {
    if (count > s->max - s->live) return -ENOSPC;
    /* Given-back numbers count too: high - live of them wait in the chain. */
    while ((uint64_t)s->chunk_count * SLAB_CHUNK - s->live < count) {
        uint8_t *chunk = calloc(SLAB_CHUNK, s->item);
        if (!chunk) return -ENOMEM;
        s->chunks[s->chunk_count++] = chunk;
    }
    return 0;
}

uint32_t slab_take(struct slab *s) {
    if (slab_reserve(s, 1) < 0) return 0;
    s->live++;
    if (!s->free) return ++s->high;
    uint32_t number = s->free;
    void *item = slab_at(s, number);
    memcpy(&s->free, item, sizeof s->free);
    memset(item, 0, sizeof s->free);
    return number;
}

void slab_give(struct slab *s, uint32_t number) {
    uint8_t *item = slab_at(s, number);
    memset(item, 0, s->item);
    memcpy(item, &s->free, sizeof s->free);
    s->free = number;
    s->live--;
}
