/* check_index.c: policy_open(), second half: the tables that decide() searches hold exactly what
 * they index, in order, so a search in them ends where a walk over everything would.
 */
#include "gateway/policy/image.h"

#include <string.h>

/* ---- directories ---------------------------------------------------------------------------- */

/* Leading 32 bits of the hash of entry i of a table. */
typedef uint32_t leading_fn(const struct policy *p, uint32_t i);

static bool directory_valid(const struct policy *p, enum image_section table,
                            enum image_section directory, leading_fn *leading) {
    const uint32_t *starts = image_section(p, directory);
    uint32_t count = image_count(p, table), at = 0;
    unsigned bits = image_directory_bits(count);
    uint64_t buckets = UINT64_C(1) << bits;
    if (image_count(p, directory) != buckets + 1) return false;
    for (uint64_t b = 0; b < buckets; b++) {
        if (starts[b] != at) return false;
        while (at < count && image_bucket(leading(p, at), bits) == b) at++;
    }
    return starts[buckets] ==
           count; /* which `at` is, since the table is in order (checked before) */
}

static const uint8_t *agent_key(const struct policy *p, uint32_t i) {
    return policy_agent(p, i)->key;
}
static const uint8_t *endpoint_key(const struct policy *p, uint32_t i) {
    return policy_endpoint(p, i)->key;
}
static uint32_t leading_agent(const struct policy *p, uint32_t i) {
    return image_key_leading(
        agent_key(p, ((const uint32_t *)image_section(p, IMAGE_AGENT_KEY))[i]));
}
static uint32_t leading_endpoint(const struct policy *p, uint32_t i) {
    const uint32_t *entries = image_section(p, IMAGE_ENDPOINT_KEY);
    return image_key_leading(endpoint_key(p, entries[i]));
}
static uint32_t leading_rule(const struct policy *p, uint32_t i) {
    return (uint32_t)(((const struct image_rule *)image_section(p, IMAGE_RULE))[i].hash >> 32);
}

/* As many entries as elements, each valid, keys strictly rising: a permutation, and no key twice.
 */
static bool keys_valid(const struct policy *p, enum image_section table, uint32_t count,
                       const uint8_t *(*key)(const struct policy *, uint32_t)) {
    const uint32_t *entries = image_section(p, table);
    if (image_count(p, table) != count) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (entries[i] >= count) return false;
        if (i > 0 && memcmp(key(p, entries[i - 1]), key(p, entries[i]), POLICY_KEY_SIZE) >= 0) {
            return false;
        }
    }
    return true;
}

/* ---- clients and tools ---------------------------------------------------------------------- */

static bool client_valid(const struct policy *p, const struct image_client *c, uint8_t family) {
    if (c->source >= image_count(p, IMAGE_SOURCE) || c->agent >= policy_agent_count(p))
        return false;
    const struct policy_agent *a = policy_agent(p, c->agent);
    if (c->source < a->source_first || c->source - a->source_first >= a->source_count) return false;
    const struct prefix *source = policy_source(p, c->source);
    struct image_client right = image_client_of(source);
    right.agent = c->agent;
    right.source = c->source;
    return source->addr.family == family && memcmp(c, &right, sizeof right) == 0;
}

/* Ordered by family and address, and disjoint: each ends before the next one starts. */
static bool clients_valid(const struct policy *p) {
    const struct image_client *clients = image_section(p, IMAGE_CLIENT);
    uint32_t count = image_count(p, IMAGE_CLIENT), client4 = image_header(p)->client4;
    if (count != image_count(p, IMAGE_SOURCE) || client4 > count) return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct image_client *c = &clients[i], *b = c - 1;
        if (!client_valid(p, c, i < client4 ? 4 : 6)) return false;
        if (i == 0 || i == client4) continue;
        if (b->last_high > c->high || (b->last_high == c->high && b->last_low >= c->low)) {
            return false;
        }
    }
    return true;
}

/* Within an agent, tools rise strictly and each names its position: a permutation of its list. */
static bool sorted_tools_valid(const struct policy *p) {
    const struct image_tool *sorted = image_section(p, IMAGE_SORTED_TOOL);
    if (image_count(p, IMAGE_SORTED_TOOL) != image_count(p, IMAGE_AGENT_TOOL)) return false;
    for (uint32_t i = 0; i < policy_agent_count(p); i++) {
        const struct policy_agent *a = policy_agent(p, i);
        for (uint32_t k = 0; k < a->tool_count; k++) {
            const struct image_tool *t = &sorted[a->tool_first + k];
            if (k > 0 && t->tool <= t[-1].tool) return false;
            if (t->position >= a->tool_count) return false;
            if (policy_agent_tool(p, a->tool_first + t->position) != t->tool) return false;
        }
    }
    return true;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static struct image_rule_id id_of(const struct policy *p, const struct image_rule *rule) {
    const uint8_t *bases = image_section(p, IMAGE_RULE_BASE);
    return (struct image_rule_id){rule->kind, rule->base_size, bases + rule->base};
}

static bool is_of_rule(const struct policy *p, uint32_t pattern, const struct image_rule *rule) {
    return image_rule_compare(image_rule_id_of(policy_pattern(p, pattern)), id_of(p, rule)) == 0;
}

static bool rule_order_valid(const struct policy *p, const struct image_rule *a,
                             const struct image_rule *b) {
    if (a->hash != b->hash) return a->hash < b->hash;
    return image_rule_compare(id_of(p, a), id_of(p, b)) < 0;
}

static bool postings_valid(const struct policy *p, const struct image_rule *rule) {
    const struct image_posting *postings = image_section(p, IMAGE_POSTING);
    for (uint32_t i = 0; i < rule->posting_count; i++) {
        const struct image_posting *at = &postings[rule->posting_first + i];
        if (at->endpoint >= policy_endpoint_count(p)) return false;
        /* Endpoints stand tool by tool, so rising endpoints are rising tools. */
        if (i > 0 && at->endpoint <= at[-1].endpoint) return false;
        const struct policy_endpoint *e = policy_endpoint(p, at->endpoint);
        if (e->tool != at->tool || e->pattern == POLICY_NONE) return false;
        if (at->types != image_types_of(e) || !is_of_rule(p, e->pattern, rule)) return false;
    }
    return true;
}

static bool deny_postings_valid(const struct policy *p, const struct image_rule *rule) {
    const uint32_t *postings = image_section(p, IMAGE_DENY_POSTING);
    for (uint32_t i = 0; i < rule->deny_count; i++) {
        const uint32_t *at = &postings[rule->deny_first + i];
        if (*at >= policy_deny_count(p)) return false;
        if (i > 0 && *at <= at[-1]) return false;
        if (!is_of_rule(p, policy_deny(p, *at)->pattern, rule)) return false;
    }
    return true;
}

/* Where a rule's parts start follows from the rules before it. */
struct totals {
    uint64_t base, posting, deny;
};

static bool totals_add(const struct policy *p, const struct image_rule *rule, struct totals *t) {
    if (rule->base != t->base || rule->posting_first != t->posting || rule->deny_first != t->deny) {
        return false;
    }
    t->base += rule->base_size;
    t->posting += rule->posting_count;
    t->deny += rule->deny_count;
    return t->base <= image_count(p, IMAGE_RULE_BASE) &&
           t->posting <= image_count(p, IMAGE_POSTING) &&
           t->deny <= image_count(p, IMAGE_DENY_POSTING);
}

static uint32_t name_endpoints(const struct policy *p) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < policy_endpoint_count(p); i++) {
        count += policy_endpoint(p, i)->pattern != POLICY_NONE;
    }
    return count;
}

/* A pattern of a rule that is not empty. */
static const struct policy_pattern *pattern_of(const struct policy *p,
                                               const struct image_rule *rule) {
    if (rule->posting_count == 0) {
        const uint32_t *denies = image_section(p, IMAGE_DENY_POSTING);
        return policy_pattern(p, policy_deny(p, denies[rule->deny_first])->pattern);
    }
    const struct image_posting *postings = image_section(p, IMAGE_POSTING);
    return policy_pattern(p, policy_endpoint(p, postings[rule->posting_first].endpoint)->pattern);
}

static bool rule_valid(const struct policy *p, const struct image_rule *rule) {
    if (rule->zero[0] != 0 || rule->zero[1] != 0) return false;
    if (rule->posting_count == 0 && rule->deny_count == 0) return false;
    return postings_valid(p, rule) && deny_postings_valid(p, rule) &&
           rule->hash == image_hash_pattern(pattern_of(p, rule));
}

/* Rules are distinct and an entry fits its rule only, so no entry stands in two; with as many
 * entries as there are, every one stands in one. */
static bool rules_valid(const struct policy *p) {
    const struct image_rule *rules = image_section(p, IMAGE_RULE);
    uint64_t depths[IMAGE_KINDS][2] = {{0}};
    struct totals t = {0};
    if (image_count(p, IMAGE_POSTING) != name_endpoints(p)) return false;
    if (image_count(p, IMAGE_DENY_POSTING) != policy_deny_count(p)) return false;
    for (uint32_t i = 0; i < image_count(p, IMAGE_RULE); i++) {
        const struct image_rule *rule = &rules[i];
        if (!totals_add(p, rule, &t) || !rule_valid(p, rule)) return false;
        if (i > 0 && !rule_order_valid(p, rule - 1, rule)) return false;
        const struct policy_pattern *pattern = pattern_of(p, rule);
        unsigned labels = name_labels(&pattern->base);
        depths[pattern->kind][labels / 64] |= UINT64_C(1) << (labels % 64);
    }
    return t.base == image_count(p, IMAGE_RULE_BASE) &&
           t.posting == image_count(p, IMAGE_POSTING) &&
           t.deny == image_count(p, IMAGE_DENY_POSTING) &&
           memcmp(depths, image_header(p)->depths, sizeof depths) == 0;
}

bool image_check_indexes(const struct policy *p) {
    return keys_valid(p, IMAGE_AGENT_KEY, policy_agent_count(p), agent_key) &&
           directory_valid(p, IMAGE_AGENT_KEY, IMAGE_AGENT_DIRECTORY, leading_agent) &&
           keys_valid(p, IMAGE_ENDPOINT_KEY, policy_endpoint_count(p), endpoint_key) &&
           directory_valid(p, IMAGE_ENDPOINT_KEY, IMAGE_ENDPOINT_DIRECTORY, leading_endpoint) &&
           clients_valid(p) && sorted_tools_valid(p) && rules_valid(p) &&
           directory_valid(p, IMAGE_RULE, IMAGE_RULE_DIRECTORY, leading_rule);
}

/* ---- static elements ------------------------------------------------------------------------- */

static bool is_source_of(const struct policy *p, const struct policy_agent *a,
                         const struct prefix *source) {
    uint32_t found = policy_agent_of(p, &source->addr);
    if (found == POLICY_NONE || policy_agent(p, found) != a) return false;
    for (uint32_t i = 0; i < a->source_count; i++) {
        if (memcmp(policy_source(p, a->source_first + i), source, sizeof *source) == 0) return true;
    }
    return false;
}

/* Every port from first to last is one of the endpoint's. */
static bool ports_within(const struct policy_endpoint *e, uint16_t first, uint16_t last) {
    unsigned i = 0;
    while (i < e->port_count && e->ports[i] != first) i++;
    return last >= first && i + (last - first) < e->port_count &&
           e->ports[i + (last - first)] == last;
}

static bool static_valid(const struct policy *p, const struct policy_static *s) {
    if (s->agent >= policy_agent_count(p) || s->endpoint >= policy_endpoint_count(p)) return false;
    if (s->zero != 0 || s->zero2 != 0) return false;
    const struct policy_endpoint *e = policy_endpoint(p, s->endpoint);
    return e->pattern == POLICY_NONE && policy_agent_has(p, s->agent, s->endpoint) &&
           s->protocol == e->protocol && memcmp(&s->remote, &e->address, sizeof s->remote) == 0 &&
           s->source.addr.family == s->remote.addr.family &&
           is_source_of(p, policy_agent(p, s->agent), &s->source) &&
           ports_within(e, s->port_first, s->port_last);
}

/* Order of the section; also what the kernel's intervals would be sorted by. */
static int static_compare(const struct policy_static *a, const struct policy_static *b) {
    int c = memcmp(&a->source, &b->source, sizeof a->source);
    if (c == 0) c = (int)a->protocol - b->protocol;
    if (c == 0) c = memcmp(&a->remote, &b->remote, sizeof a->remote);
    return c != 0 ? c : (int)a->port_first - b->port_first;
}

/* Prefixes in this order form a tree walked from the root: what covers the current one is on the
 * stack, one level for each length, and each level is a run of rising port ranges. */
struct cover {
    uint32_t first, end; /* elements */
};

static bool ports_overlap(const struct policy_static *all, const struct cover *level,
                          const struct policy_static *s) {
    uint32_t from = level->first, end = level->end;
    while (from < end) { /* ends at the first range that does not end below s */
        uint32_t middle = from + (end - from) / 2;
        if (all[middle].port_last < s->port_first)
            from = middle + 1;
        else
            end = middle;
    }
    return from < level->end && all[from].port_first <= s->port_last;
}

bool image_check_statics(const struct policy *p) {
    const struct policy_static *all = image_section(p, IMAGE_STATIC);
    struct cover stack[129];
    unsigned depth = 0;
    for (uint32_t i = 0; i < policy_static_count(p); i++) {
        const struct policy_static *s = &all[i];
        if (!static_valid(p, s)) return false;
        if (i > 0 && static_compare(s - 1, s) >= 0) return false;
        while (depth > 0) {
            const struct policy_static *top = &all[stack[depth - 1].first];
            if (top->protocol == s->protocol && prefix_covers(&top->remote, &s->remote) &&
                memcmp(&top->source, &s->source, sizeof s->source) == 0) {
                break;
            }
            depth--;
        }
        for (unsigned d = 0; d < depth; d++) {
            if (ports_overlap(all, &stack[d], s)) return false;
        }
        if (depth > 0 && all[stack[depth - 1].first].remote.bits == s->remote.bits) {
            stack[depth - 1].end = i + 1;
        } else {
            stack[depth++] = (struct cover){i, i + 1};
        }
    }
    return true;
}
