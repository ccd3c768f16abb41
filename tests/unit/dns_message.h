/* dns_message.h: writes DNS messages octet by octet, right or wrong as a test wants them, and hands
 * them over in a block of exactly their size, so that the sanitizer sees any read past the end.
 */
#ifndef TESTS_UNIT_DNS_MESSAGE_H
#define TESTS_UNIT_DNS_MESSAGE_H

#include <check.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/name.h"

struct message {
    uint8_t bytes[70000];
    size_t size;
};

static inline void put8(struct message *m, unsigned v) { m->bytes[m->size++] = (uint8_t)v; }

static inline void put16(struct message *m, unsigned v) {
    put8(m, v >> 8 & 0xff);
    put8(m, v & 0xff);
}

static inline void put32(struct message *m, uint32_t v) {
    put16(m, v >> 16);
    put16(m, v & 0xffff);
}

static inline void put(struct message *m, const void *data, size_t size) {
    memcpy(m->bytes + m->size, data, size);
    m->size += size;
}

static inline void put_header(struct message *m, unsigned id, unsigned flags, unsigned questions,
                              unsigned answers, unsigned authority, unsigned additional) {
    m->size = 0;
    put16(m, id);
    put16(m, flags);
    put16(m, questions);
    put16(m, answers);
    put16(m, authority);
    put16(m, additional);
}

/* Labels as written, dots between them, case kept; "." is the root. */
static inline void put_name(struct message *m, const char *text) {
    while (*text && *text != '.') {
        size_t label = strcspn(text, ".");
        put8(m, (unsigned)label);
        put(m, text, label);
        text += label + (text[label] == '.');
    }
    put8(m, 0);
}

static inline void put_pointer(struct message *m, size_t to) { put16(m, 0xc000u | (unsigned)to); }

static inline void put_question(struct message *m, const char *name, unsigned type,
                                unsigned class) {
    put_name(m, name);
    put16(m, type);
    put16(m, class);
}

/* Type to TTL, and room for RDLENGTH: returns where that is, for rdata_end(). */
static inline size_t rdata_begin(struct message *m, unsigned type, unsigned class, uint32_t ttl) {
    put16(m, type);
    put16(m, class);
    put32(m, ttl);
    put16(m, 0);
    return m->size;
}

static inline void rdata_end(struct message *m, size_t begin) {
    m->bytes[begin - 2] = (uint8_t)((m->size - begin) >> 8);
    m->bytes[begin - 1] = (uint8_t)(m->size - begin);
}

static inline void put_record(struct message *m, const char *owner, unsigned type, unsigned class,
                              uint32_t ttl, const void *rdata, size_t size) {
    put_name(m, owner);
    size_t at = rdata_begin(m, type, class, ttl);
    put(m, rdata, size);
    rdata_end(m, at);
}

static inline void put_named(struct message *m, const char *owner, unsigned type, uint32_t ttl,
                             const char *target) {
    put_name(m, owner);
    size_t at = rdata_begin(m, type, 1, ttl);
    put_name(m, target);
    rdata_end(m, at);
}

static inline void put_opt(struct message *m, unsigned size, uint32_t flags, const void *options,
                           size_t options_size) {
    put_record(m, ".", 41, size, flags, options, options_size);
}

static inline void put_soa(struct message *m, const char *zone, uint32_t ttl, uint32_t minimum) {
    put_name(m, zone);
    size_t at = rdata_begin(m, 6, 1, ttl);
    put_name(m, "NS.Example.net");
    put_name(m, "Hostmaster.Example.net");
    for (uint32_t number = 1; number <= 4; number++)
        put32(m, number);
    put32(m, minimum);
    rdata_end(m, at);
}

/* A copy of exactly this size; free() it. */
static inline uint8_t *exact(const uint8_t *bytes, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    ck_assert_ptr_nonnull(copy);
    if (size == 0) { /* nothing of it may be read: hand out its end */
        free(copy);
        return NULL;
    }
    memcpy(copy, bytes, size);
    return copy;
}

static inline struct name name_of(const char *text) {
    struct name n;
    ck_assert_msg(name_from_text(text, &n) == 0, "bad name in test: %s", text);
    return n;
}

#endif
