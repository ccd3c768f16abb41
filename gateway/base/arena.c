/* arena.c: chunks in a list, filled one after the other. */
#include "gateway/base/arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Under AddressSanitizer free room is poisoned, so a use after arena_reset() is found. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

#define CHUNK_MIN 4000 /* a chunk and malloc's own bytes stay within a page */
#define ALIGN alignof(max_align_t)

struct chunk {
    struct chunk *next; /* the one that was full before */
    size_t size, used;
    alignas(max_align_t) uint8_t data[];
};

struct arena {
    size_t limit, used;
    struct chunk *last; /* its list ends with the first chunk, which stays */
};

static struct chunk *chunk_new(struct chunk *next, size_t size) {
    struct chunk *c = malloc(sizeof *c + size);
    if (!c) return NULL;
    *c = (struct chunk){.next = next, .size = size};
    ASAN_POISON_MEMORY_REGION(c->data, size);
    return c;
}

static void chunk_free(struct chunk *c) {
    ASAN_UNPOISON_MEMORY_REGION(c->data, c->size);
    free(c);
}

struct arena *arena_new(size_t limit) {
    struct arena *a = malloc(sizeof *a);
    struct chunk *first = chunk_new(NULL, limit < CHUNK_MIN ? limit : CHUNK_MIN);
    if (!a || !first) {
        free(first);
        free(a);
        return NULL;
    }
    *a = (struct arena){.limit = limit, .last = first};
    return a;
}

void *arena_alloc(struct arena *a, size_t size) {
    size_t left = a->limit - a->used;
    if (size > left) return NULL;
    size_t step = (size + ALIGN - 1) / ALIGN * ALIGN; /* no wrap: size <= limit, see below */
    if (step < size || step > left) return NULL;

    struct chunk *c = a->last;
    if (step > c->size - c->used) {
        c = chunk_new(c, step > CHUNK_MIN ? step : CHUNK_MIN);
        if (!c) return NULL;
        a->last = c;
    }
    void *memory = c->data + c->used;
    ASAN_UNPOISON_MEMORY_REGION(memory, size);
    c->used += step;
    a->used += step;
    return memset(memory, 0, size);
}

void arena_reset(struct arena *a) {
    struct chunk *c = a->last;
    while (c->next) {
        struct chunk *next = c->next;
        chunk_free(c);
        c = next;
    }
    c->used = 0;
    ASAN_POISON_MEMORY_REGION(c->data, c->size);
    a->last = c;
    a->used = 0;
}

struct arena *arena_free(struct arena *a) {
    if (!a) return NULL;
    arena_reset(a);
    chunk_free(a->last);
    free(a);
    return NULL;
}
