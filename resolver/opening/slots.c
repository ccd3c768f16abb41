/* slots.c: an array with a free list; the number's low part is the index, its high part counts. */
#include "resolver/opening/slots.h"

#include <errno.h>
#include <stdlib.h>

int slots_init(struct slots *s, uint32_t size, uint64_t start) {
    struct slot *slots = calloc(size, sizeof *slots);
    if (!slots)
        return -ENOMEM;
    start = start >> 1 & ~(uint64_t)(size - 1); /* room to count for ever without a wrap to 0 */
    for (uint32_t i = 0; i < size; i++) {
        slots[i].id = start + i; /* `size` is added at the first take, so that no number is 0 */
        slots[i].next_free = i + 1;
    }
    *s = (struct slots){.slots = slots, .size = size};
    return 0;
}

uint64_t slots_take(struct slots *s, void *item) {
    if (s->free == s->size)
        return 0;
    struct slot *slot = &s->slots[s->free];
    s->free = slot->next_free;
    slot->item = item;
    slot->id += s->size;
    s->used++;
    return slot->id;
}

static struct slot *slot_of(const struct slots *s, uint64_t id) {
    struct slot *slot = &s->slots[id & (s->size - 1)];
    return slot->item && slot->id == id ? slot : NULL;
}

void *slots_find(const struct slots *s, uint64_t id) {
    struct slot *slot = slot_of(s, id);
    return slot ? slot->item : NULL;
}

void slots_release(struct slots *s, uint64_t id) {
    struct slot *slot = slot_of(s, id);
    if (!slot)
        return;
    slot->item = NULL;
    slot->next_free = s->free;
    s->free = (uint32_t)(slot - s->slots);
    s->used--;
}

void slots_destroy(struct slots *s) {
    free(s->slots);
    *s = (struct slots){0};
}
