/* decide.c: policy_decide(): who asks, for what, and what the policy says. Pure.
 *
 * The cost does not grow with the policy. A name of n labels can match at most 3 + (n - 1) rules,
 * (kind, base) pairs: itself, `*.` and glob patterns over its parent, `**.` over every ancestor.
 * Each is one look-up, and most are skipped because no rule of that kind has that many labels. A
 * rule's endpoints are then intersected with the agent's tools: both are sorted by tool, so the
 * shorter list is walked and the longer one searched.
 */
#include "gateway/policy/image.h"

#include <string.h>

#define RULES_MAX (NAME_LABELS_MAX + 3)

struct found {
    unsigned count;
    const struct image_rule *rules[RULES_MAX];
};

static bool has_depth(const struct image_header *h, unsigned kind, unsigned labels) {
    return h->depths[kind][labels / 64] >> (labels % 64) & 1;
}

/* The rule of this kind whose base is the name's suffix from label `from` on. */
static void find_rule(const struct policy *p, const struct name *name,
                      const struct image_suffixes *s, unsigned kind, unsigned from,
                      struct found *found) {
    if (!has_depth(image_header(p), kind, s->labels - from)) return;
    const struct image_rule *rules = image_section(p, IMAGE_RULE);
    const uint32_t *directory = image_section(p, IMAGE_RULE_DIRECTORY);
    uint64_t hash = image_hash_rule(s->state[from], kind);
    uint32_t b =
        image_bucket((uint32_t)(hash >> 32), image_directory_bits(image_count(p, IMAGE_RULE)));
    const uint8_t *bases = image_section(p, IMAGE_RULE_BASE);
    size_t size = name->length - s->start[from];
    for (uint32_t i = directory[b]; i < directory[b + 1]; i++) {
        if (rules[i].hash != hash) continue;
        if (rules[i].kind == kind && rules[i].base_size == size &&
            memcmp(bases + rules[i].base, name->wire + s->start[from], size) == 0) {
            found->rules[found->count++] = &rules[i];
            return;
        }
    }
}

static void find_rules(const struct policy *p, const struct name *name, struct found *found) {
    struct image_suffixes s;
    image_hash_suffixes(name, &s);
    found->count = 0;
    if (s.labels == 0) return; /* the root */
    find_rule(p, name, &s, PATTERN_EXACT, 0, found);
    if (s.labels == 1) return; /* no pattern has the root as its base */
    find_rule(p, name, &s, PATTERN_ONE, 1, found);
    find_rule(p, name, &s, PATTERN_GLOB, 1, found);
    for (unsigned from = 1; from < s.labels; from++) {
        find_rule(p, name, &s, PATTERN_DEEP, from, found);
    }
}

/* Base and kind fit already; what is left is the glob. */
static bool pattern_fits(const struct policy *p, uint32_t pattern, const struct name *name) {
    const struct policy_pattern *q = policy_pattern(p, pattern);
    return image_glob_matches(q->glob, q->glob_length, name->wire + 1, name->wire[0]);
}

/* The first deny entry, in the order of the file. */
static uint32_t denied_by(const struct policy *p, const struct found *found,
                          const struct name *name) {
    const uint32_t *postings = image_section(p, IMAGE_DENY_POSTING);
    uint32_t first = POLICY_NONE;
    for (unsigned i = 0; i < found->count; i++) {
        const struct image_rule *rule = found->rules[i];
        if (rule->deny_count == 0) continue;
        bool glob = rule->kind == PATTERN_GLOB;
        for (uint32_t k = 0; k < rule->deny_count; k++) {
            uint32_t deny = postings[rule->deny_first + k];
            if (deny >= first) break;
            if (glob && !pattern_fits(p, policy_deny(p, deny)->pattern, name)) continue;
            first = deny;
            break;
        }
    }
    return first;
}

uint32_t policy_denies(const struct policy *p, const struct name *name) {
    if (image_count(p, IMAGE_DENY) == 0) return POLICY_NONE;
    struct found found;
    find_rules(p, name, &found);
    return denied_by(p, &found, name);
}

/* Matching endpoints in the documented order: a key is (position of the tool, endpoint). */
struct matches {
    uint64_t first; /* of all that match the name; UINT64_MAX: none */
    unsigned count; /* of those that list the type as well, the first POLICY_MATCH_MAX */
    uint64_t keys[POLICY_MATCH_MAX];
};

static bool lists_type(const struct policy_endpoint *e, uint16_t type) {
    for (unsigned i = 0; i < e->type_count; i++) {
        if (e->types[i] == type) return true;
    }
    return false;
}

static void match_add(const struct policy *p, uint32_t position, const struct image_posting *found,
                      uint16_t type, struct matches *m) {
    uint32_t bit = image_type_bit(type);
    uint64_t key = (uint64_t)position << 32 | found->endpoint;
    if (key < m->first) m->first = key;
    if (!(found->types & bit)) return;
    if (bit == IMAGE_TYPE_OTHER && !lists_type(policy_endpoint(p, found->endpoint), type)) return;
    unsigned at = m->count;
    if (at == POLICY_MATCH_MAX) {
        if (key > m->keys[--at]) return;
    } else {
        m->count++;
    }
    for (; at > 0 && m->keys[at - 1] > key; at--) m->keys[at] = m->keys[at - 1];
    m->keys[at] = key;
}

struct asked {
    const struct policy *p;
    const struct name *name;
    uint16_t type;
};

/* Adds the endpoints of `tool` among the postings from `at` on. */
static void match_tool(const struct asked *q, const struct image_posting *at,
                       const struct image_posting *end, const struct image_tool *tool, bool glob,
                       struct matches *m) {
    for (; at < end && at->tool == tool->tool; at++) {
        if (glob && !pattern_fits(q->p, policy_endpoint(q->p, at->endpoint)->pattern, q->name)) {
            continue;
        }
        match_add(q->p, tool->position, at, q->type, m);
    }
}

/* The first posting of the range whose tool is not below `tool`. */
static const struct image_posting *posting_search(const struct image_posting *from,
                                                  const struct image_posting *end, uint32_t tool) {
    while (from < end) {
        const struct image_posting *middle = from + (end - from) / 2;
        if (middle->tool < tool)
            from = middle + 1;
        else
            end = middle;
    }
    return from;
}

static const struct image_tool *tool_search(const struct image_tool *from,
                                            const struct image_tool *end, uint32_t tool) {
    while (from < end) {
        const struct image_tool *middle = from + (end - from) / 2;
        if (middle->tool < tool)
            from = middle + 1;
        else
            end = middle;
    }
    return from;
}

static void match_rule(const struct asked *q, const struct image_rule *rule,
                       const struct policy_agent *agent, struct matches *m) {
    const struct image_posting *at =
        (const struct image_posting *)image_section(q->p, IMAGE_POSTING) + rule->posting_first;
    const struct image_posting *end = at + rule->posting_count;
    const struct image_tool *tool =
        (const struct image_tool *)image_section(q->p, IMAGE_SORTED_TOOL) + agent->tool_first;
    const struct image_tool *tool_end = tool + agent->tool_count;
    bool glob = rule->kind == PATTERN_GLOB;
    if (rule->posting_count > agent->tool_count) {
        for (; tool < tool_end; tool++) {
            at = posting_search(at, end, tool->tool);
            match_tool(q, at, end, tool, glob, m);
        }
        return;
    }
    while (at < end) {
        uint32_t wanted = at->tool;
        tool = tool_search(tool, tool_end, wanted);
        if (tool < tool_end && tool->tool == wanted) match_tool(q, at, end, tool, glob, m);
        while (at < end && at->tool == wanted) at++;
    }
}

static bool at_or_below(uint64_t high, uint64_t low, uint64_t other_high, uint64_t other_low) {
    return high < other_high || (high == other_high && low <= other_low);
}

uint32_t policy_agent_of(const struct policy *p, const struct addr *client) {
    const struct image_client *clients = image_section(p, IMAGE_CLIENT);
    struct image_client key = image_client_of(&(struct prefix){*client, 128, {0}});
    uint32_t from = client->family == 4 ? 0 : image_header(p)->client4, first = from;
    uint32_t end = client->family == 4 ? image_header(p)->client4 : image_count(p, IMAGE_CLIENT);
    while (from < end) { /* ends one after the last source that starts at or below the address */
        uint32_t middle = from + (end - from) / 2;
        const struct image_client *c = &clients[middle];
        if (at_or_below(c->high, c->low, key.high, key.low))
            from = middle + 1;
        else
            end = middle;
    }
    if (from == first) return POLICY_NONE;
    /* Sources are disjoint, so only this one can hold the address. */
    const struct image_client *c = &clients[from - 1];
    return at_or_below(key.high, key.low, c->last_high, c->last_low) ? c->agent : POLICY_NONE;
}

unsigned policy_clients(const struct policy *p, uint32_t agent, const struct addr *client,
                        uint8_t family, struct addr ret[POLICY_CLIENTS_MAX]) {
    if (client->family == family) {
        ret[0] = *client;
        return 1;
    }
    const struct policy_agent *a = policy_agent(p, agent);
    unsigned count = 0;
    for (uint32_t i = 0; i < a->source_count; i++) {
        const struct prefix *source = policy_source(p, a->source_first + i);
        if (source->addr.family != family) continue;
        unsigned free_bits = (family == 4 ? 32u : 128u) - source->bits;
        if (free_bits > 4 || count + (1u << free_bits) > POLICY_CLIENTS_MAX) return 0;
        for (unsigned n = 0; n < 1u << free_bits; n++, count++) {
            ret[count] = source->addr;
            ret[count].bytes[family == 4 ? 3 : 15] |= (uint8_t)n; /* at most 4 bits, 0 so far */
        }
    }
    return count;
}

/* Names by which clients ask whether they may go around the resolver: Firefox for DNS over HTTPS,
 * and iCloud Private Relay. Wire format. */
static bool is_canary(const struct name *name) {
    static const struct {
        uint8_t length;
        char wire[32];
    } canaries[] = {
        {25, "\x13use-application-dns\x03net"},
        {17, "\x04mask\x06icloud\x03"
             "com"},
        {20, "\x07mask-h2\x06icloud\x03"
             "com"},
    };
    for (size_t i = 0; i < sizeof canaries / sizeof *canaries; i++) {
        if (name->length == canaries[i].length &&
            memcmp(name->wire, canaries[i].wire, name->length) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_reverse(const struct name *name) {
    static const struct name reverse[] = {
        {.length = 14,
         .wire = "\x07in-addr\x04"
                 "arpa"},
        {.length = 10,
         .wire = "\x03ip6\x04"
                 "arpa"},
    };
    return name_within(name, &reverse[0]) || name_within(name, &reverse[1]);
}

static enum reason reason_for(uint16_t type, const struct matches *m) {
    if (m->first == UINT64_MAX) return REASON_NOT_LISTED;
    if (type == TYPE_ANY) return REASON_TYPE_ANY;
    if (type == TYPE_HTTPS || type == TYPE_SVCB) return REASON_TYPE_BYPASS;
    return m->count > 0 ? REASON_ALLOWED : REASON_TYPE_NOT_LISTED;
}

void policy_decide(const struct policy *p, const struct addr *client, const struct name *name,
                   uint16_t type, struct decision *ret) {
    ret->agent = policy_agent_of(p, client);
    ret->deny = ret->endpoint = POLICY_NONE;
    ret->count = 0;
    if (ret->agent == POLICY_NONE) {
        ret->reason = REASON_UNKNOWN_CLIENT;
        return;
    }
    if (policy_gateway(p)->canaries && is_canary(name)) {
        ret->reason = REASON_CANARY;
        return;
    }
    struct found found;
    find_rules(p, name, &found);
    ret->deny = denied_by(p, &found, name);
    if (ret->deny != POLICY_NONE) {
        ret->reason = REASON_DENY_LIST;
        return;
    }
    if (type == TYPE_PTR && is_reverse(name)) {
        ret->reason = REASON_PTR_UNKNOWN;
        return;
    }
    struct asked q = {.p = p, .name = name, .type = type};
    struct matches m; /* not zeroed: only what count covers is looked at */
    m.first = UINT64_MAX;
    m.count = 0;
    for (unsigned i = 0; i < found.count; i++) {
        match_rule(&q, found.rules[i], policy_agent(p, ret->agent), &m);
    }
    ret->reason = reason_for(type, &m);
    if (m.first != UINT64_MAX) ret->endpoint = (uint32_t)m.first;
    ret->count = m.count;
    for (unsigned i = 0; i < m.count; i++) ret->endpoints[i] = (uint32_t)m.keys[i];
}

bool policy_agent_has(const struct policy *p, uint32_t agent, uint32_t endpoint) {
    const struct policy_agent *a = policy_agent(p, agent);
    const struct image_tool *from =
        (const struct image_tool *)image_section(p, IMAGE_SORTED_TOOL) + a->tool_first;
    const struct image_tool *end = from + a->tool_count;
    uint32_t tool = policy_endpoint(p, endpoint)->tool;
    from = tool_search(from, end, tool);
    return from < end && from->tool == tool;
}

bool policy_endpoint_reaches(const struct policy *p, uint32_t endpoint, const struct addr *remote) {
    const struct policy_endpoint *e = policy_endpoint(p, endpoint);
    enum addr_range range = addr_range(remote);
    if (range != RANGE_PUBLIC && !(e->ranges & UINT32_C(1) << range)) return false;
    if (e->address.addr.family != 0 && !prefix_contains(&e->address, remote)) return false;
    for (uint32_t i = 0; i < image_count(p, IMAGE_SUBNET); i++) {
        if (prefix_contains(policy_subnet(p, i), remote)) return false;
    }
    return true;
}
