/* names.c: interned names, reference-counted. */
#include "gateway/core/names.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS (1u << 16) /* first size; doubled when there are more names than buckets */

struct name_ref {
    struct name_ref *next;
    uint64_t hash;
    uint32_t refs;
    uint8_t length;
    uint8_t wire[];
};

struct names {
    struct name_ref **buckets;
    uint32_t bucket_count, count;
    size_t bytes;
    uint8_t key[HASH_KEY_SIZE];
};

static uint64_t hash_of(const struct names *n, const struct name *name) {
    uint8_t out[crypto_shorthash_BYTES];
    uint64_t hash;
    crypto_shorthash(out, name->wire, name->length, n->key);
    memcpy(&hash, out, sizeof hash);
    return hash;
}

struct names *names_new(const uint8_t key[HASH_KEY_SIZE]) {
    struct names *n = calloc(1, sizeof *n);
    if (!n) return NULL;
    n->buckets = calloc(BUCKETS, sizeof(struct name_ref *));
    if (!n->buckets) {
        free(n);
        return NULL;
    }
    n->bucket_count = BUCKETS;
    memcpy(n->key, key, HASH_KEY_SIZE);
    return n;
}

struct names *names_free(struct names *n) {
    if (!n) return NULL;
    for (uint32_t i = 0; i < n->bucket_count; i++) {
        for (struct name_ref *r = n->buckets[i], *next; r; r = next) {
            next = r->next;
            free(r);
        }
    }
    free(n->buckets);
    free(n);
    return NULL;
}

static struct name_ref *find(const struct names *n, const struct name *name, uint64_t hash) {
    struct name_ref *r = n->buckets[hash & (n->bucket_count - 1)];
    while (r && (r->length != name->length || memcmp(r->wire, name->wire, name->length) != 0))
        r = r->next;
    return r;
}

struct name_ref *names_find(const struct names *n, const struct name *name) {
    return find(n, name, hash_of(n, name));
}

/* Chains that are longer than intended still work, so failing to grow is no failure. */
static void grow(struct names *n) {
    uint32_t count = n->bucket_count * 2;
    struct name_ref **buckets = calloc(count, sizeof(struct name_ref *));
    if (!buckets) return;
    for (uint32_t i = 0; i < n->bucket_count; i++) {
        for (struct name_ref *r = n->buckets[i], *next; r; r = next) {
            next = r->next;
            r->next = buckets[r->hash & (count - 1)];
            buckets[r->hash & (count - 1)] = r;
        }
    }
    free(n->buckets);
    n->buckets = buckets;
    n->bucket_count = count;
}

struct name_ref *names_get(struct names *n, const struct name *name) {
    uint64_t hash = hash_of(n, name);
    struct name_ref *r = find(n, name, hash);
    if (r) return name_ref_keep(r);
    r = malloc(sizeof *r + name->length);
    if (!r) return NULL;
    if (n->count >= n->bucket_count) grow(n);
    struct name_ref **bucket = &n->buckets[hash & (n->bucket_count - 1)];
    *r = (struct name_ref){.next = *bucket, .hash = hash, .refs = 1, .length = name->length};
    memcpy(r->wire, name->wire, name->length);
    *bucket = r;
    n->count++;
    n->bytes += sizeof *r + name->length;
    return r;
}

struct name_ref *name_ref_keep(struct name_ref *r) {
    if (r) r->refs++;
    return r;
}

struct name_ref *names_drop(struct names *n, struct name_ref *r) {
    if (!r || --r->refs) return NULL;
    struct name_ref **link = &n->buckets[r->hash & (n->bucket_count - 1)];
    while (*link != r) link = &(*link)->next;
    *link = r->next;
    n->count--;
    n->bytes -= sizeof *r + r->length;
    free(r);
    return NULL;
}

void name_ref_read(const struct name_ref *r, struct name *ret) {
    memset(ret, 0, sizeof *ret);
    if (!r) return;
    ret->length = r->length;
    memcpy(ret->wire, r->wire, r->length);
}

uint64_t name_ref_hash(const struct name_ref *r) { return r->hash; }
uint32_t names_count(const struct names *n) { return n->count; }
size_t names_bytes(const struct names *n) {
    return n->bytes + n->bucket_count * sizeof(struct name_ref *);
}
