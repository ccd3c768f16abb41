/* image.h: layout of the policy image; private to gateway/policy and its loader.
 *
 * Header, then sections one after the other, each at the next multiple of 8, gaps zero. The header
 * tells every section's offset although it follows from the counts, so that an accessor is one
 * addition; policy_open() checks that the two agree.
 *
 * What decide() needs is precomputed and sorted, never hashed with open addressing: a sorted table
 * plus a directory by the leading bits of the hash is found as fast, is the same bytes whoever
 * builds it, and can be checked completely in linear time.
 */
#ifndef GATEWAY_POLICY_IMAGE_H
#define GATEWAY_POLICY_IMAGE_H

#include "gateway/policy/policy.h"

#define IMAGE_MAGIC   "TGPOLICY" /* 8 bytes, without the NUL */
#define IMAGE_VERSION 1u

/* Section, element, and what it is. */
#define IMAGE_SECTIONS(X)                                                                          \
    X(TEXT, char)                       /* strings, each ends in NUL; offset 0 is "" */            \
    X(AGENT, struct policy_agent)       /* as written */                                           \
    X(SOURCE, struct prefix)            /* agent by agent */                                       \
    X(AGENT_TOOL, uint32_t)             /* tool, agent by agent, as written */                     \
    X(TOOL, struct policy_tool)         /* by file name */                                         \
    X(ENDPOINT, struct policy_endpoint) /* tool by tool, as written */                             \
    X(PATTERN, struct policy_pattern)                                                              \
    X(DENY, struct policy_deny)       /* as written */                                             \
    X(SUBNET, struct prefix)          /* agent interface by interface, then management */          \
    X(STATIC, struct policy_static)   /* by source, protocol, remote, ports */                     \
    X(CLIENT, struct image_client)    /* every source, by family and address */                    \
    X(SORTED_TOOL, struct image_tool) /* as AGENT_TOOL, but by tool within an agent */             \
    X(AGENT_KEY, uint32_t)            /* agents by key */                                          \
    X(AGENT_DIRECTORY, uint32_t)                                                                   \
    X(ENDPOINT_KEY, uint32_t) /* endpoints by key */                                               \
    X(ENDPOINT_DIRECTORY, uint32_t)                                                                \
    X(RULE, struct image_rule) /* by hash, kind, base */                                           \
    X(RULE_BASE, uint8_t)      /* rule by rule, the base in wire format */                         \
    X(RULE_DIRECTORY, uint32_t)                                                                    \
    X(POSTING, struct image_posting) /* rule by rule, by tool and endpoint */                      \
    X(DENY_POSTING, uint32_t)        /* deny entry, rule by rule, ascending */

enum image_section {
#define X(id, type) IMAGE_##id,
    IMAGE_SECTIONS(X)
#undef X
        IMAGE_SECTION_COUNT
};

/* One source prefix; its first and last address as numbers: IPv4 in `low`, IPv6 in both. */
struct image_client {
    uint64_t high, low, last_high, last_low;
    uint32_t agent, source;
};

struct image_tool {
    uint32_t tool;
    uint32_t position; /* in the agent's list as written */
};

/* All endpoints and deny entries with the same kind and base; there is at least one. The base is
 * repeated here, packed: patterns are large, and a decision would touch them for nothing else. What
 * decide() reads of a policy with 100,000 endpoints is some 8 MB. */
struct image_rule {
    uint64_t hash; /* image_hash_rule() */
    uint32_t base; /* in RULE_BASE */
    uint8_t base_size;
    uint8_t kind; /* enum pattern_kind */
    uint8_t zero[2];
    uint32_t posting_first, posting_count;
    uint32_t deny_first, deny_count;
};

struct image_posting {
    uint32_t tool, endpoint;
    uint32_t types; /* what the endpoint lists: image_types_of() */
};

struct image_span {
    uint32_t offset, count;
};

#define IMAGE_KINDS 4 /* of enum pattern_kind */

struct image_header {
    uint8_t digest[POLICY_DIGEST_SIZE];
    char magic[8];
    uint32_t version;
    uint32_t size;    /* of the image */
    uint32_t client4; /* IPv4 entries of CLIENT; they stand first */
    uint32_t zero;
    /* For each kind, bit n: some rule's base has n labels. Saves most look-ups. */
    uint64_t depths[IMAGE_KINDS][2];
    struct image_span spans[IMAGE_SECTION_COUNT];
    struct policy_gateway gateway;
    uint32_t zero2;
};

static inline const struct image_header *image_header(const struct policy *p) {
    return p->header;
}
static inline const void *image_section(const struct policy *p, enum image_section s) {
    return p->base + image_header(p)->spans[s].offset;
}
static inline uint32_t image_count(const struct policy *p, enum image_section s) {
    return image_header(p)->spans[s].count;
}

/* Size of one element. */
size_t image_element_size(enum image_section s);
/* Fills in the offsets for the counts given. Returns the image's size, or 0 when it would pass
 * POLICY_IMAGE_MAX. */
uint32_t image_layout(struct image_span spans[IMAGE_SECTION_COUNT]);

/* Directory of a table sorted by hash: entries with leading bits b stand at directory[b] up to
 * directory[b + 1]. Leading bits used for `count` entries; the directory has 2^bits + 1 elements.
 */
unsigned image_directory_bits(uint32_t count);
static inline uint32_t image_bucket(uint32_t leading, unsigned bits) {
    return (uint32_t)((uint64_t)leading >> (32 - bits));
}
/* First 4 octets of a key, big-endian: the order of memcmp(). */
uint32_t image_key_leading(const uint8_t key[POLICY_KEY_SIZE]);

/* Hashes of all suffixes of a name in one pass from its end: state[i] belongs to the suffix that
 * starts with label i, at wire offset start[i]. */
struct image_suffixes {
    unsigned labels;
    uint8_t start[NAME_LABELS_MAX + 1];
    uint64_t state[NAME_LABELS_MAX + 1];
};
void image_hash_suffixes(const struct name *n, struct image_suffixes *ret);
uint64_t image_hash_rule(uint64_t state, unsigned kind);
uint64_t image_hash_pattern(const struct policy_pattern *pattern);

/* What makes a rule. Order of those with the same hash; 0: the same rule. */
struct image_rule_id {
    unsigned kind, size;
    const uint8_t *base;
};
int image_rule_compare(struct image_rule_id a, struct image_rule_id b);
static inline struct image_rule_id image_rule_id_of(const struct policy_pattern *p) {
    return (struct image_rule_id){p->kind, p->base.length, p->base.wire};
}

/* The types an endpoint lists, as bits: nearly all questions are answered without a look at it. */
enum { IMAGE_TYPE_A = 1, IMAGE_TYPE_AAAA = 2, IMAGE_TYPE_OTHER = 4 };
uint32_t image_type_bit(uint16_t type);
uint32_t image_types_of(const struct policy_endpoint *e);

/* Whether a label matches a glob: '*' stands for any run of octets, the empty one too. */
bool image_glob_matches(const uint8_t *glob, size_t glob_size, const uint8_t *label, size_t size);

/* First and last address of a source; the rest is zero. */
struct image_client image_client_of(const struct prefix *source);

/* Whether interface and directory names are what the rest may rely on (they go into rulesets). */
bool image_interface_valid(const char *name);

/* check_index.c: the lookup tables agree with what they index. */
bool image_check_indexes(const struct policy *p);
bool image_check_statics(const struct policy *p);

#endif
