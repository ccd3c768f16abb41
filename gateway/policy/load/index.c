/* index.c: the tables decide() searches. Every order here is total, so the same policy gives the
 * same bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "gateway/policy/load/build.h"

/* ---- rules ----------------------------------------------------------------------------------- */

/* One pattern in use. Patterns of endpoints come first, then those of the deny list. */
struct use {
    const struct policy_pattern *pattern;
    uint64_t hash;
    uint32_t pattern_index, tool, target; /* target: endpoint, or deny entry */
    bool deny;
};

static int compare_rule(const struct use *x, const struct use *y) {
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return image_rule_compare(image_rule_id_of(x->pattern), image_rule_id_of(y->pattern));
}

static int compare_uses(const void *a, const void *b) {
    const struct use *x = a, *y = b;
    int c = compare_rule(x, y);
    if (c != 0) return c;
    return x->pattern_index < y->pattern_index ? -1 : 1;
}

static void uses_collect(struct build *b, struct use *uses) {
    struct model *m = b->m;
    uint32_t count = 0;
    for (uint32_t t = 0; t < m->tools.count; t++) {
        const struct model_tool *tool = list_at(&m->tools, t);
        for (uint32_t i = 0; i < tool->endpoint_count; i++) {
            const struct model_endpoint *e = list_at(&m->endpoints, tool->endpoint_first + i);
            if (e->pattern.base.length == 0) continue;
            uses[count] = (struct use){&e->pattern,      image_hash_pattern(&e->pattern), count,
                                       b->tool_index[t], tool->endpoint_first + i,        false};
            count++;
        }
    }
    for (uint32_t i = 0; i < m->denies.count; i++) {
        const struct model_deny *d = list_at(&m->denies, i);
        uses[count] = (struct use){&d->pattern, image_hash_pattern(&d->pattern), count, 0, i, true};
        count++;
    }
}

static bool use_add(struct build *b, const struct use *u, struct image_rule *rule) {
    if (u->deny) {
        uint32_t *deny = list_add(b->m, &b->deny_postings);
        if (!deny) return false;
        *deny = u->target;
        rule->deny_count++;
        return true;
    }
    const struct model_endpoint *e = list_at(&b->m->endpoints, u->target);
    struct image_posting *posting = list_add(b->m, &b->postings);
    if (!posting) return false;
    *posting = (struct image_posting){u->tool, u->target, image_types_of(&e->out)};
    rule->posting_count++;
    return true;
}

static struct image_rule *rule_add(struct build *b, const struct use *u) {
    const struct name *base = &u->pattern->base;
    uint32_t at = (uint32_t)b->bases.count;
    struct image_rule *rule = list_add(b->m, &b->rules);
    if (!rule || !list_append(b->m, &b->bases, base->wire, base->length)) return NULL;
    *rule = (struct image_rule){.hash = u->hash,
                                .base = at,
                                .base_size = base->length,
                                .kind = u->pattern->kind,
                                .posting_first = (uint32_t)b->postings.count,
                                .deny_first = (uint32_t)b->deny_postings.count};
    return rule;
}

static bool rules_make(struct build *b, struct use *uses, size_t count) {
    struct image_rule *rule = NULL;
    uses_collect(b, uses);
    qsort(uses, count, sizeof *uses, compare_uses);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_rule(&uses[i - 1], &uses[i]) != 0) rule = rule_add(b, &uses[i]);
        if (!rule || !use_add(b, &uses[i], rule)) return false;
    }
    return true;
}

bool index_rules(struct build *b) {
    size_t count = b->m->denies.count;
    for (size_t i = 0; i < b->m->endpoints.count; i++) {
        const struct model_endpoint *e = list_at(&b->m->endpoints, i);
        count += e->pattern.base.length > 0;
    }
    if (count == 0) return true;
    struct use *uses = malloc(count * sizeof *uses);
    if (!uses) b->m->faults.nomem = true;
    bool fine = uses && rules_make(b, uses, count);
    free(uses);
    return fine;
}

static void depths_fill(struct build *b) {
    const struct image_rule *rules = b->rules.items;
    const uint8_t *bases = b->bases.items;
    for (size_t i = 0; i < b->rules.count; i++) {
        unsigned labels = 0;
        for (const uint8_t *at = bases + rules[i].base; *at != 0; at += *at + 1u) labels++;
        b->header->depths[rules[i].kind][labels / 64] |= UINT64_C(1) << (labels % 64);
    }
}

/* ---- keys and directories -------------------------------------------------------------------- */

struct keyed {
    uint8_t key[POLICY_KEY_SIZE];
    uint32_t index;
};

static int compare_keyed(const void *a, const void *b) {
    return memcmp(a, b, POLICY_KEY_SIZE);
}

static void directory_add(uint32_t *starts, uint32_t leading, unsigned bits) {
    starts[image_bucket(leading, bits) + 1]++;
}

/* Counts in starts[b + 1] -> where each bucket starts. */
static void directory_close(uint32_t *starts, unsigned bits) {
    for (uint64_t i = 1; i <= UINT64_C(1) << bits; i++) starts[i] += starts[i - 1];
}

static bool keys_fill(struct build *b, enum image_section table, enum image_section directory,
                      uint32_t count, const uint8_t *first, size_t step) {
    unsigned bits = image_directory_bits(count);
    uint32_t *entries = build_section(b, table), *starts = build_section(b, directory);
    struct keyed *keys = malloc((count + 1) * sizeof *keys);
    if (!keys) {
        b->m->faults.nomem = true;
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        memcpy(keys[i].key, first + i * step, POLICY_KEY_SIZE);
        keys[i].index = i;
    }
    qsort(keys, count, sizeof *keys, compare_keyed);
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = keys[i].index;
        directory_add(starts, image_key_leading(keys[i].key), bits);
    }
    directory_close(starts, bits);
    free(keys);
    return true;
}

static void rules_directory_fill(struct build *b) {
    const struct image_rule *rules = b->rules.items;
    unsigned bits = image_directory_bits((uint32_t)b->rules.count);
    uint32_t *starts = build_section(b, IMAGE_RULE_DIRECTORY);
    for (size_t i = 0; i < b->rules.count; i++) {
        directory_add(starts, (uint32_t)(rules[i].hash >> 32), bits);
    }
    directory_close(starts, bits);
}

/* ---- clients and tools ----------------------------------------------------------------------- */

static int compare_clients(const void *a, const void *b) {
    const struct image_client *x = a, *y = b;
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    return x->low < y->low ? -1 : x->low > y->low;
}

static void clients_fill(struct build *b) {
    struct image_client *clients = build_section(b, IMAGE_CLIENT);
    uint32_t at = 0;
    for (uint8_t family = 4; family <= 6; family += 2) {
        uint32_t first = at;
        for (uint32_t i = 0; i < b->m->sources.count; i++) {
            const struct model_source *s = list_at(&b->m->sources, i);
            if (s->prefix.addr.family != family) continue;
            clients[at] = image_client_of(&s->prefix);
            clients[at].agent = s->owner;
            clients[at++].source = i;
        }
        qsort(clients + first, at - first, sizeof *clients, compare_clients);
        if (family == 4) b->header->client4 = at;
    }
}

static int compare_tools(const void *a, const void *b) {
    const struct image_tool *x = a, *y = b;
    return x->tool < y->tool ? -1 : x->tool > y->tool;
}

static void sorted_tools_fill(struct build *b) {
    struct image_tool *sorted = build_section(b, IMAGE_SORTED_TOOL);
    for (uint32_t i = 0; i < policy_agent_count(&b->view); i++) {
        const struct policy_agent *a = policy_agent(&b->view, i);
        struct image_tool *own = sorted + a->tool_first;
        for (uint32_t k = 0; k < a->tool_count; k++) {
            own[k] = (struct image_tool){policy_agent_tool(&b->view, a->tool_first + k), k};
        }
        qsort(own, a->tool_count, sizeof *own, compare_tools);
    }
}

bool index_fill(struct build *b) {
    depths_fill(b);
    rules_directory_fill(b);
    clients_fill(b);
    sorted_tools_fill(b);
    const struct policy_agent *agents = build_section(b, IMAGE_AGENT);
    const struct policy_endpoint *endpoints = build_section(b, IMAGE_ENDPOINT);
    return keys_fill(b, IMAGE_AGENT_KEY, IMAGE_AGENT_DIRECTORY, policy_agent_count(&b->view),
                     (const uint8_t *)agents, sizeof *agents) &&
           keys_fill(b, IMAGE_ENDPOINT_KEY, IMAGE_ENDPOINT_DIRECTORY,
                     policy_endpoint_count(&b->view), (const uint8_t *)endpoints,
                     sizeof *endpoints);
}

_Static_assert(offsetof(struct policy_agent, key) == 0 &&
                   offsetof(struct policy_endpoint, key) == 0,
               "keys_fill() takes the address of an element for that of its key");
