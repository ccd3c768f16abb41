/* pattern.c: name patterns: matching, and the hash under which decide() finds them. */
#include "gateway/policy/image.h"

#include <string.h>

/* FNV-1a over octets (64 bit), then a finalizer, since the directory uses the leading bits. The
 * hash is not keyed: the same files must give the same image, and what is in the table comes from
 * the policy, not from clients. A client can only choose which bucket it looks into. */
#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

void image_hash_suffixes(const struct name *n, struct image_suffixes *ret) {
    unsigned labels = 0;
    for (unsigned at = 0; n->wire[at] != 0; at += n->wire[at] + 1u) {
        ret->start[labels++] = (uint8_t)at;
    }
    ret->labels = labels;
    ret->start[labels] = (uint8_t)(n->length - 1);
    uint64_t state = FNV_START;
    ret->state[labels] = state;
    for (unsigned i = labels; i-- > 0;) {
        for (unsigned at = ret->start[i]; at < ret->start[i + 1]; at++) {
            state = (state ^ n->wire[at]) * FNV_PRIME;
        }
        ret->state[i] = state;
    }
}

uint64_t image_hash_rule(uint64_t state, unsigned kind) {
    uint64_t h = state + kind * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ (h >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    h = (h ^ (h >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ (h >> 32);
}

uint64_t image_hash_pattern(const struct policy_pattern *pattern) {
    struct image_suffixes s;
    image_hash_suffixes(&pattern->base, &s);
    return image_hash_rule(s.state[0], pattern->kind);
}

int image_rule_compare(struct image_rule_id a, struct image_rule_id b) {
    if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
    if (a.size != b.size) return a.size < b.size ? -1 : 1;
    return memcmp(a.base, b.base, a.size);
}

uint32_t image_type_bit(uint16_t type) {
    if (type == TYPE_A) return IMAGE_TYPE_A;
    return type == TYPE_AAAA ? IMAGE_TYPE_AAAA : IMAGE_TYPE_OTHER;
}

uint32_t image_types_of(const struct policy_endpoint *e) {
    uint32_t types = 0;
    for (unsigned i = 0; i < e->type_count; i++) types |= image_type_bit(e->types[i]);
    return types;
}

/* Greedy with one resume point: when a literal fails, the last '*' takes one octet more. A '*'
 * further left never needs another try, so this is at most glob x label steps (63 x 63). */
bool image_glob_matches(const uint8_t *glob, size_t glob_size, const uint8_t *label, size_t size) {
    size_t g = 0, l = 0, star = SIZE_MAX, resume = 0;
    while (l < size) {
        if (g < glob_size && glob[g] == '*') {
            star = ++g;
            resume = l;
        } else if (g < glob_size && glob[g] == label[l]) {
            g++;
            l++;
        } else if (star != SIZE_MAX) {
            g = star;
            l = ++resume;
        } else {
            return false;
        }
    }
    while (g < glob_size && glob[g] == '*') g++;
    return g == glob_size;
}

bool policy_pattern_matches(const struct policy_pattern *pattern, const struct name *name) {
    if (pattern->kind == PATTERN_EXACT) return name_equal(&pattern->base, name);
    if (pattern->base.length >= name->length) return false;
    unsigned at = 0, below = 0;
    /* Walk by labels, so that "evilexample.com" is never taken for something below example.com. */
    while (at + pattern->base.length < name->length) {
        at += name->wire[at] + 1u;
        below++;
    }
    if (at + pattern->base.length != name->length) return false;
    if (memcmp(name->wire + at, pattern->base.wire, pattern->base.length) != 0) return false;
    if (pattern->kind == PATTERN_DEEP) return true;
    if (below != 1) return false;
    if (pattern->kind == PATTERN_ONE) return true;
    return image_glob_matches(pattern->glob, pattern->glob_length, name->wire + 1, name->wire[0]);
}
