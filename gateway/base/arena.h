/* arena.h: memory for what lives as long as one query. Freed as a whole, bounded at making. */
#ifndef GATEWAY_BASE_ARENA_H
#define GATEWAY_BASE_ARENA_H

#include <stddef.h>

struct arena;

/* An arena that hands out at most `limit` bytes in all. NULL when out of memory. */
struct arena *arena_new(size_t limit);
/* Zeroed memory, aligned for any type; NULL past the limit or out of memory. */
void *arena_alloc(struct arena *a, size_t size);
/* Forgets all allocations, keeps the first chunk for reuse. */
void arena_reset(struct arena *a);
/* Takes NULL; returns NULL. */
struct arena *arena_free(struct arena *a);

#endif
