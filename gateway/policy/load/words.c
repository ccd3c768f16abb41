/* words.c: open addressing, at most half full. */
#include "gateway/policy/load/words.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const char *word) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *word != '\0'; word++) h = (h ^ (uint8_t)*word) * UINT64_C(0x100000001b3);
    return h ^ (h >> 32);
}

static struct words_slot *slot_of(const struct words *w, const char *word, uint64_t hash) {
    size_t i = hash & (w->size - 1);
    while (w->slots[i].word && (w->slots[i].hash != hash || strcmp(w->slots[i].word, word) != 0)) {
        i = (i + 1) & (w->size - 1);
    }
    return &w->slots[i];
}

static bool grow(struct words *w) {
    struct words bigger = {.size = w->size ? 2 * w->size : 64, .count = w->count};
    bigger.slots = calloc(bigger.size, sizeof *bigger.slots);
    if (!bigger.slots) return false;
    for (size_t i = 0; i < w->size; i++) {
        const struct words_slot *s = &w->slots[i];
        if (s->word) *slot_of(&bigger, s->word, s->hash) = *s;
    }
    free(w->slots);
    *w = bigger;
    return true;
}

struct words_slot *words_add(struct words *w, const char *word, uint32_t value, bool *ret_new) {
    if (2 * (w->count + 1) > w->size && !grow(w)) return NULL;
    uint64_t hash = hash_of(word);
    struct words_slot *s = slot_of(w, word, hash);
    *ret_new = s->word == NULL;
    if (*ret_new) {
        *s = (struct words_slot){word, hash, value};
        w->count++;
    }
    return s;
}

const struct words_slot *words_find(const struct words *w, const char *word) {
    if (w->size == 0) return NULL;
    const struct words_slot *s = slot_of(w, word, hash_of(word));
    return s->word ? s : NULL;
}

void words_free(struct words *w) {
    free(w->slots);
    *w = (struct words){0};
}
