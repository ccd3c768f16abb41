/* ruleset_table.c: our table as the kernel has it: generation, shape, digest, counters.
 *
 * The digest runs over what the kernel says in answer to dumps, attribute bytes as they are, less
 * what changes by itself (counters, use counts, handles, element numbers). It is compared only with
 * one from the same kernel, taken right after our own load.
 */
#include "gateway/core/ruleset_table.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sodium.h>
#include <string.h>

#define QUERY_TRIES 8

struct visit {
    struct ruleset *ruleset;
    crypto_generichash_state hash;
    uint32_t map_size;
    bool found, foreign;
    uint32_t flags;
    struct ruleset_counter *counters;
};

/* ---- asking ------------------------------------------------------------------------------ */

static struct nlmsghdr *ask(void *space, uint16_t type, bool dump) {
    struct nlmsghdr *m = mnl_nlmsg_put_header(space);
    struct nfgenmsg *g = mnl_nlmsg_put_extra_header(m, sizeof *g);
    m->nlmsg_type = (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type);
    m->nlmsg_flags = dump ? NLM_F_DUMP : 0;
    *g = (struct nfgenmsg){.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};
    return m;
}

static int generation_take(void *ctx, const struct nlmsghdr *m) {
    const struct nlattr *a;
    mnl_attr_for_each(a, m, sizeof(struct nfgenmsg))
        if (mnl_attr_get_type(a) == NFTA_GEN_ID && mnl_attr_get_payload_len(a) == 4)
            *(uint32_t *)ctx = ntohl(mnl_attr_get_u32(a));
    return 0;
}

int ruleset_generation(struct ruleset *r, uint32_t *ret) {
    uint64_t space[16];
    uint32_t generation = 0;
    struct nlmsghdr *m = ask(space, NFT_MSG_GETGEN, false);
    ((struct nfgenmsg *)mnl_nlmsg_get_payload(m))->nfgen_family = AF_UNSPEC;
    int error = netlink_query(&r->netlink, m, generation_take, &generation);
    if (error < 0) return error;
    if (generation == 0) return -EPROTO; /* the kernel never uses 0 */
    *ret = generation;
    return 0;
}

/* Text of a string attribute, "" when absent. */
static const char *text_of(const struct nlmsghdr *m, uint16_t type) {
    const struct nlattr *a;
    mnl_attr_for_each(a, m, sizeof(struct nfgenmsg)) {
        uint16_t size = mnl_attr_get_payload_len(a);
        if (mnl_attr_get_type(a) == type && size > 0 && mnl_attr_get_str(a)[size - 1] == '\0')
            return mnl_attr_get_str(a);
    }
    return "";
}

/* The attribute for the table's name is number 1 in chains, rules, sets, elements and objects. */
static bool ours(const struct nlmsghdr *m) {
    const struct nfgenmsg *g = mnl_nlmsg_get_payload(m);
    return g->nfgen_family == NFPROTO_INET && strcmp(text_of(m, 1), RULESET_TABLE) == 0;
}

static uint32_t number_of(const struct nlmsghdr *m, uint16_t type) {
    const struct nlattr *a;
    mnl_attr_for_each(a, m, sizeof(struct nfgenmsg))
        if (mnl_attr_get_type(a) == type && mnl_attr_get_payload_len(a) == 4)
            return ntohl(mnl_attr_get_u32(a));
    return 0;
}

/* ---- shape ------------------------------------------------------------------------------- */

static const char *const chain_names[] = {
    "refuse", "deny-no-opening", "deny-encrypted-dns", "deny-spoofed", "deny-invalid-state",
    "deny-local-service", "deny-unsolicited", "prerouting", "antispoof", "to-resolver", "dstnat",
    "agent-errors", "forward", "from-agents", "input", "input-agents", "output", "postrouting"};

#define CONCAT_FLAGS (NFT_SET_INTERVAL | NFT_SET_CONCAT | NFT_SET_MAP)
#define DYNAMIC_FLAGS (NFT_SET_EVAL | NFT_SET_TIMEOUT)
static const struct set_shape {
    const char *name;
    uint32_t flags, key_size, data_size;
    uint32_t size; /* UINT32_MAX: the configured one */
} set_shapes[] = {
    {"open4", NFT_SET_MAP | NFT_SET_TIMEOUT, 16, 4, UINT32_MAX},
    {"open6", NFT_SET_MAP | NFT_SET_TIMEOUT, 40, 4, UINT32_MAX},
    {"static4", CONCAT_FLAGS, 16, 4, 0},
    {"static6", CONCAT_FLAGS, 40, 4, 0},
    {"denied4", DYNAMIC_FLAGS, 4, 0, 65535},
    {"denied6", DYNAMIC_FLAGS, 16, 0, 65535},
    {"pace4", DYNAMIC_FLAGS, 4, 0, 65535},
    {"pace6", DYNAMIC_FLAGS, 16, 0, 65535},
};

static uint32_t set_size(const struct nlmsghdr *m) {
    const struct nlattr *a, *inner;
    mnl_attr_for_each(a, m, sizeof(struct nfgenmsg)) {
        if (mnl_attr_get_type(a) != NFTA_SET_DESC) continue;
        mnl_attr_for_each_nested(inner, a)
            if (mnl_attr_get_type(inner) == NFTA_SET_DESC_SIZE &&
                mnl_attr_get_payload_len(inner) == 4)
                return ntohl(mnl_attr_get_u32(inner));
    }
    return 0;
}

static int shape_set(void *ctx, const struct nlmsghdr *m) {
    struct visit *v = ctx;
    uint32_t flags = number_of(m, NFTA_SET_FLAGS);
    const char *name = text_of(m, NFTA_SET_NAME);
    if (!ours(m) || (flags & NFT_SET_ANONYMOUS)) return 0;
    for (size_t i = 0; i < sizeof set_shapes / sizeof *set_shapes; i++) {
        const struct set_shape *s = &set_shapes[i];
        if (strcmp(name, s->name) != 0) continue;
        uint32_t size = s->size == UINT32_MAX ? v->map_size : s->size;
        if ((flags & ~(uint32_t)NFT_SET_EXPR) == s->flags &&
            number_of(m, NFTA_SET_KEY_LEN) == s->key_size &&
            number_of(m, NFTA_SET_DATA_LEN) == s->data_size && set_size(m) == size)
            return 0;
    }
    v->foreign = true;
    return 0;
}

static int shape_chain(void *ctx, const struct nlmsghdr *m) {
    struct visit *v = ctx;
    if (!ours(m)) return 0;
    for (size_t i = 0; i < sizeof chain_names / sizeof *chain_names; i++)
        if (strcmp(text_of(m, NFTA_CHAIN_NAME), chain_names[i]) == 0) return 0;
    v->foreign = true;
    return 0;
}

static uint32_t counter_reason(const struct nlmsghdr *m) {
    for (uint32_t r = REASON_NO_OPENING; r <= REASON_UNSOLICITED; r++)
        if (strcmp(text_of(m, NFTA_OBJ_NAME), reason_tag(r)) == 0) return r;
    return 0;
}

static int shape_object(void *ctx, const struct nlmsghdr *m) {
    struct visit *v = ctx;
    if (!ours(m)) return 0;
    const char *name = text_of(m, NFTA_OBJ_NAME);
    uint32_t type = number_of(m, NFTA_OBJ_TYPE);
    bool timeout = strcmp(name, "dns4") == 0 || strcmp(name, "dns6") == 0;
    if (type != (timeout ? NFT_OBJECT_CT_TIMEOUT : NFT_OBJECT_COUNTER) ||
        (!timeout && counter_reason(m) == 0))
        v->foreign = true;
    return 0;
}

/* Runs a dump, again while it is inconsistent (the visitors used here may see an object twice). */
static int dump(struct visit *v, uint16_t type, netlink_fn fn) {
    uint64_t space[16];
    int error = -EINTR;
    for (unsigned try = 0; try < QUERY_TRIES && error == -EINTR; try++)
        error = netlink_query(&v->ruleset->netlink, ask(space, type, true), fn, v);
    return error;
}

int ruleset_table_shape(struct ruleset *r, uint32_t map_size) {
    struct visit v = {.ruleset = r, .map_size = map_size};
    int error = dump(&v, NFT_MSG_GETSET, shape_set);
    if (error == 0) error = dump(&v, NFT_MSG_GETCHAIN, shape_chain);
    if (error == 0) error = dump(&v, NFT_MSG_GETOBJ, shape_object);
    if (error < 0) return error;
    return v.foreign ? 0 : 1;
}

/* ---- digest ------------------------------------------------------------------------------ */

static void hash_u32(struct visit *v, uint32_t value) {
    crypto_generichash_update(&v->hash, (const uint8_t *)&value, sizeof value);
}

/* The attributes of `types` (ending with 0) in the order of the message: number, size, bytes. */
static void hash_message(struct visit *v, const struct nlmsghdr *m, const uint16_t *types) {
    const struct nlattr *a;
    hash_u32(v, m->nlmsg_type);
    mnl_attr_for_each(a, m, sizeof(struct nfgenmsg)) {
        for (const uint16_t *t = types; *t; t++) {
            if (mnl_attr_get_type(a) != *t) continue;
            hash_u32(v, *t);
            hash_u32(v, mnl_attr_get_payload_len(a));
            crypto_generichash_update(&v->hash, mnl_attr_get_payload(a),
                                      mnl_attr_get_payload_len(a));
        }
    }
}

static int digest_table(void *ctx, const struct nlmsghdr *m) {
    struct visit *v = ctx;
    static const uint16_t types[] = {NFTA_TABLE_FLAGS, 0};
    if (!ours(m)) return 0;
    v->found = true;
    v->flags = number_of(m, NFTA_TABLE_FLAGS);
    hash_message(v, m, types);
    return 0;
}

static int digest_chain(void *ctx, const struct nlmsghdr *m) {
    static const uint16_t types[] = {NFTA_CHAIN_NAME, NFTA_CHAIN_HOOK, NFTA_CHAIN_POLICY,
                                     NFTA_CHAIN_TYPE, NFTA_CHAIN_FLAGS, 0};
    if (ours(m)) hash_message(ctx, m, types);
    return 0;
}

static int digest_rule(void *ctx, const struct nlmsghdr *m) {
    static const uint16_t types[] = {NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS, 0};
    if (ours(m)) hash_message(ctx, m, types);
    return 0;
}

static int digest_set(void *ctx, const struct nlmsghdr *m) {
    static const uint16_t types[] = {NFTA_SET_NAME,      NFTA_SET_FLAGS,   NFTA_SET_KEY_TYPE,
                                     NFTA_SET_KEY_LEN,   NFTA_SET_DATA_TYPE, NFTA_SET_DATA_LEN,
                                     NFTA_SET_TIMEOUT,   0};
    if (!ours(m)) return 0;
    hash_message(ctx, m, types);
    hash_u32(ctx, set_size(m));
    return 0;
}

static int digest_object(void *ctx, const struct nlmsghdr *m) {
    static const uint16_t counter[] = {NFTA_OBJ_NAME, NFTA_OBJ_TYPE, 0};
    static const uint16_t other[] = {NFTA_OBJ_NAME, NFTA_OBJ_TYPE, NFTA_OBJ_DATA, 0};
    bool counts = number_of(m, NFTA_OBJ_TYPE) == NFT_OBJECT_COUNTER;
    if (ours(m)) hash_message(ctx, m, counts ? counter : other);
    return 0;
}

static int digest_elements(void *ctx, const struct nlmsghdr *m) {
    struct visit *v = ctx;
    const struct nlattr *list, *a;
    if (!ours(m)) return 0;
    /* Element by element: how many the kernel packs in one message is not always the same. */
    mnl_attr_for_each(list, m, sizeof(struct nfgenmsg)) {
        if (mnl_attr_get_type(list) != NFTA_SET_ELEM_LIST_ELEMENTS) continue;
        mnl_attr_for_each_nested(a, list) {
            hash_u32(v, mnl_attr_get_payload_len(a));
            crypto_generichash_update(&v->hash, mnl_attr_get_payload(a),
                                      mnl_attr_get_payload_len(a));
        }
    }
    return 0;
}

static int digest_static(struct visit *v, const char *map) {
    uint64_t space[16];
    struct nlmsghdr *m = ask(space, NFT_MSG_GETSETELEM, true);
    mnl_attr_put_strz(m, NFTA_SET_ELEM_LIST_TABLE, RULESET_TABLE);
    mnl_attr_put_strz(m, NFTA_SET_ELEM_LIST_SET, map);
    crypto_generichash_update(&v->hash, (const uint8_t *)map, strlen(map));
    return netlink_query(&v->ruleset->netlink, m, digest_elements, v);
}

static int digest_once(struct visit *v) {
    static const struct { uint16_t type; netlink_fn fn; } dumps[] = {
        {NFT_MSG_GETTABLE, digest_table}, {NFT_MSG_GETCHAIN, digest_chain},
        {NFT_MSG_GETRULE, digest_rule},   {NFT_MSG_GETSET, digest_set},
        {NFT_MSG_GETOBJ, digest_object},
    };
    uint64_t space[16];
    int error = 0;

    crypto_generichash_init(&v->hash, NULL, 0, 32);
    v->found = false;
    for (size_t i = 0; i < sizeof dumps / sizeof *dumps && error == 0; i++)
        error = netlink_query(&v->ruleset->netlink, ask(space, dumps[i].type, true), dumps[i].fn,
                              v);
    if (error == 0 && !v->found) return -ENOENT;
    if (error == 0) error = digest_static(v, "static4");
    if (error == 0) error = digest_static(v, "static6");
    return error;
}

int ruleset_digest(struct ruleset *r, uint8_t ret[32]) {
    struct visit v = {.ruleset = r};
    int error = -EINTR;
    for (unsigned try = 0; try < QUERY_TRIES && error == -EINTR; try++) error = digest_once(&v);
    if (error < 0) return error;
    crypto_generichash_final(&v.hash, ret, 32);
    return 0;
}

int ruleset_table_dormant(struct ruleset *r) {
    struct visit v = {.ruleset = r};
    crypto_generichash_init(&v.hash, NULL, 0, 32);
    int error = dump(&v, NFT_MSG_GETTABLE, digest_table);
    if (error < 0) return error;
    return v.flags != 0 ? 1 : 0;
}

/* ---- counters ---------------------------------------------------------------------------- */

static void counter_read(const struct nlattr *data, struct ruleset_counter *ret) {
    const struct nlattr *a;
    mnl_attr_for_each_nested(a, data) {
        if (mnl_attr_get_payload_len(a) != 8) continue;
        if (mnl_attr_get_type(a) == NFTA_COUNTER_PACKETS)
            ret->packets = be64toh(mnl_attr_get_u64(a));
        if (mnl_attr_get_type(a) == NFTA_COUNTER_BYTES)
            ret->bytes = be64toh(mnl_attr_get_u64(a));
    }
}

static int counter_take(void *ctx, const struct nlmsghdr *m) {
    struct visit *v = ctx;
    const struct nlattr *a;
    uint32_t reason = ours(m) ? counter_reason(m) : 0;
    if (reason == 0) return 0;
    v->found = true;
    mnl_attr_for_each(a, m, sizeof(struct nfgenmsg))
        if (mnl_attr_get_type(a) == NFTA_OBJ_DATA)
            counter_read(a, &v->counters[reason - REASON_NO_OPENING]);
    return 0;
}

int ruleset_counters(struct ruleset *r, struct ruleset_counter ret[RULESET_COUNTERS]) {
    struct ruleset_counter counters[RULESET_COUNTERS] = {0};
    struct visit v = {.ruleset = r, .counters = counters};
    _Static_assert(REASON_UNSOLICITED - REASON_NO_OPENING + 1 == RULESET_COUNTERS, "reasons");
    for (uint32_t i = 0; i < RULESET_COUNTERS; i++) counters[i].reason = REASON_NO_OPENING + i;
    int error = dump(&v, NFT_MSG_GETOBJ, counter_take);
    if (error < 0) return error;
    if (!v.found) return -ENOENT;
    memcpy(ret, counters, sizeof counters);
    return 0;
}
