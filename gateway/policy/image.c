/* image.c: where things are in the policy image. Everything here relies on policy_open(). */
#include "gateway/policy/image.h"

#include <endian.h>
#include <string.h>

#include "gateway/base/buf.h"

_Static_assert(sizeof(struct image_header) % 8 == 0, "sections start at a multiple of 8");
_Static_assert(sizeof(struct policy_pattern) == 328 && sizeof(struct policy_endpoint) == 224 &&
                   sizeof(struct policy_static) == 64 && sizeof(struct image_rule) == 32 &&
                   sizeof(struct image_client) == 40 && sizeof(struct image_posting) == 12,
               "every byte of an element is a field: padding would be unchecked bytes");

size_t image_element_size(enum image_section s) {
    static const size_t sizes[IMAGE_SECTION_COUNT] = {
#define X(id, type) [IMAGE_##id] = sizeof(type),
        IMAGE_SECTIONS(X)
#undef X
    };
    return sizes[s];
}

uint32_t image_layout(struct image_span spans[IMAGE_SECTION_COUNT]) {
    uint64_t at = sizeof(struct image_header);
    for (unsigned s = 0; s < IMAGE_SECTION_COUNT; s++) {
        spans[s].offset = (uint32_t)at;
        at += (uint64_t)spans[s].count * image_element_size(s);
        at = (at + 7) & ~UINT64_C(7);
        if (at > POLICY_IMAGE_MAX) return 0;
    }
    return (uint32_t)at;
}

unsigned image_directory_bits(uint32_t count) {
    if (count <= 1) return 0;
    unsigned bits = 32 - (unsigned)__builtin_clz(count - 1); /* of the power of two at or above */
    return bits < 32 ? bits : 31;
}

uint32_t image_key_leading(const uint8_t key[POLICY_KEY_SIZE]) {
    return (uint32_t)key[0] << 24 | (uint32_t)key[1] << 16 | (uint32_t)key[2] << 8 | key[3];
}

static uint64_t number_of(const uint8_t bytes[8]) {
    uint64_t n;
    memcpy(&n, bytes, sizeof n);
    return be64toh(n);
}

struct image_client image_client_of(const struct prefix *source) {
    struct addr last = source->addr;
    unsigned size = last.family == 4 ? 4 : 16;
    for (unsigned bit = source->bits; bit < 8 * size; bit++) {
        last.bytes[bit / 8] |= (uint8_t)(0x80u >> bit % 8);
    }
    const uint8_t *first = source->addr.bytes;
    if (size == 4) {
        return (struct image_client){.low = number_of(first) >> 32,
                                     .last_low = number_of(last.bytes) >> 32};
    }
    return (struct image_client){.high = number_of(first),
                                 .low = number_of(first + 8),
                                 .last_high = number_of(last.bytes),
                                 .last_low = number_of(last.bytes + 8)};
}

const uint8_t *policy_digest(const struct policy *p) {
    return image_header(p)->digest;
}

uint64_t policy_id(const struct policy *p) {
    uint64_t id;
    memcpy(&id, image_header(p)->digest, sizeof id);
    return id;
}

const char *policy_digest_text(const struct policy *p, char text[POLICY_DIGEST_TEXT_MAX]) {
    static const char digits[] = "0123456789abcdef";
    const uint8_t *digest = image_header(p)->digest;
    for (unsigned i = 0; i < POLICY_DIGEST_SIZE; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[2 * POLICY_DIGEST_SIZE] = '\0';
    return text;
}

const struct policy_gateway *policy_gateway(const struct policy *p) {
    return &image_header(p)->gateway;
}

const char *policy_text(const struct policy *p, uint32_t offset) {
    return (const char *)image_section(p, IMAGE_TEXT) + offset;
}

#define COUNT(function, id)                                                                        \
    uint32_t function(const struct policy *p) {                                                    \
        return image_count(p, IMAGE_##id);                                                         \
    }
#define ELEMENT(function, id, type)                                                                \
    const type *function(const struct policy *p, uint32_t index) {                                 \
        return (const type *)image_section(p, IMAGE_##id) + index;                                 \
    }

COUNT(policy_agent_count, AGENT)
COUNT(policy_tool_count, TOOL)
COUNT(policy_endpoint_count, ENDPOINT)
COUNT(policy_deny_count, DENY)
COUNT(policy_static_count, STATIC)
ELEMENT(policy_agent, AGENT, struct policy_agent)
ELEMENT(policy_source, SOURCE, struct prefix)
ELEMENT(policy_tool, TOOL, struct policy_tool)
ELEMENT(policy_endpoint, ENDPOINT, struct policy_endpoint)
ELEMENT(policy_deny, DENY, struct policy_deny)
ELEMENT(policy_pattern, PATTERN, struct policy_pattern)
ELEMENT(policy_subnet, SUBNET, struct prefix)
ELEMENT(policy_static, STATIC, struct policy_static)

uint32_t policy_agent_tool(const struct policy *p, uint32_t index) {
    return ((const uint32_t *)image_section(p, IMAGE_AGENT_TOOL))[index];
}

/* The entries of a key's bucket; the caller compares whole keys. */
static const uint32_t *bucket(const struct policy *p, enum image_section table,
                              enum image_section directory, const uint8_t *key,
                              const uint32_t **ret_end) {
    const uint32_t *entries = image_section(p, table), *starts = image_section(p, directory);
    unsigned bits = image_directory_bits(image_count(p, table));
    uint32_t b = image_bucket(image_key_leading(key), bits);
    *ret_end = entries + starts[b + 1];
    return entries + starts[b];
}

uint32_t policy_endpoint_by_key(const struct policy *p, const uint8_t key[POLICY_KEY_SIZE]) {
    const uint32_t *end;
    for (const uint32_t *e = bucket(p, IMAGE_ENDPOINT_KEY, IMAGE_ENDPOINT_DIRECTORY, key, &end);
         e < end; e++) {
        if (memcmp(policy_endpoint(p, *e)->key, key, POLICY_KEY_SIZE) == 0) return *e;
    }
    return POLICY_NONE;
}

uint32_t policy_agent_by_key(const struct policy *p, const uint8_t key[POLICY_KEY_SIZE]) {
    const uint32_t *end;
    for (const uint32_t *e = bucket(p, IMAGE_AGENT_KEY, IMAGE_AGENT_DIRECTORY, key, &end); e < end;
         e++) {
        if (memcmp(policy_agent(p, *e)->key, key, POLICY_KEY_SIZE) == 0) return *e;
    }
    return POLICY_NONE;
}

const char *policy_rule_text(const struct policy *p, const struct decision *d,
                             char text[POLICY_RULE_TEXT_MAX]) {
    struct buf b = buf_over(text, POLICY_RULE_TEXT_MAX - 1);
    if (d->deny != POLICY_NONE) {
        const struct policy_deny *deny = policy_deny(p, d->deny);
        buf_format(&b, "deny %s:%u", policy_text(p, deny->file), deny->line);
    } else if (d->endpoint != POLICY_NONE) {
        const struct policy_endpoint *e = policy_endpoint(p, d->endpoint);
        const struct policy_tool *tool = policy_tool(p, e->tool);
        buf_format(&b, "%s@%s %s:%u", policy_text(p, tool->name), policy_text(p, tool->version),
                   policy_text(p, tool->file), e->line);
    } else {
        buf_put_text(&b, "default");
    }
    text[b.used] = '\0';
    return text;
}
