/* words.h: a hash table from words to numbers. The words belong to the caller. */
#ifndef GATEWAY_POLICY_LOAD_WORDS_H
#define GATEWAY_POLICY_LOAD_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct words_slot {
    const char *word; /* NULL: free */
    uint64_t hash;
    uint32_t value;
};

struct words {
    struct words_slot *slots;
    size_t size, count; /* size: 0 or a power of two */
};

/* The slot of the word; made with `value` if there was none. *ret_new says which. NULL: memory. */
struct words_slot *words_add(struct words *w, const char *word, uint32_t value, bool *ret_new);
/* NULL: not there. */
const struct words_slot *words_find(const struct words *w, const char *word);
void words_free(struct words *w);

#endif
