/* build.c: the model -> one block of bytes.
 *
 * First everything whose size is not known yet is made aside (texts, rules, static elements), then
 * the block is laid out and filled, then it gets its digest. Texts are given offsets while the
 * elements are filled, so that is done twice: once to collect them, once for real.
 */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/policy/load/build.h"

/* The offset of a text, made on first use. */
static uint32_t text_offset(struct build *b, const char *text) {
    bool new;
    size_t size = strlen(text) + 1;
    struct words_slot *slot = words_add(&b->offsets, text, (uint32_t)b->text.count, &new);
    if (!slot) {
        b->m->faults.nomem = true;
        return 0;
    }
    if (!new) return slot->value;
    return list_append(b->m, &b->text, text, size) ? slot->value : 0;
}

/* ---- elements from the model ------------------------------------------------------------------
 */

static struct policy_tool tool_of(struct build *b, const struct model_tool *t) {
    return (struct policy_tool){
        .name = text_offset(b, t->name),
        .version = text_offset(b, t->version),
        .owner = text_offset(b, t->owner),
        .purpose = text_offset(b, t->purpose),
        .file = text_offset(b, t->at.file->relative),
        .line = t->at.line,
        .endpoint_first = t->endpoint_first,
        .endpoint_count = t->endpoint_count,
    };
}

static struct policy_agent agent_of(struct build *b, const struct model_agent *a) {
    struct policy_agent out = {
        .name = text_offset(b, a->name),
        .source_first = a->source_first,
        .source_count = a->source_count,
        .tool_first = a->tool_first,
        .tool_count = a->tool_count,
        .mode = a->mode,
        .file = text_offset(b, a->at.file->relative),
        .line = a->at.line,
    };
    key_of_agent(a->name, out.key);
    return out;
}

static struct policy_pattern pattern_of(struct build *b, const struct policy_pattern *p,
                                        const char *text) {
    struct policy_pattern out = *p;
    out.text = text_offset(b, text);
    return out;
}

/* Where elements go; all NULL while only texts are collected. */
struct places {
    struct policy_tool *tools;
    struct policy_endpoint *endpoints;
    struct policy_pattern *patterns;
    struct policy_agent *agents;
    struct policy_deny *denies;
};

static void endpoint_give(struct build *b, const struct places *to, const struct model_tool *tool,
                          uint32_t index, uint32_t *patterns) {
    const struct model_endpoint *e = list_at(&b->m->endpoints, index);
    struct policy_endpoint out = e->out;
    out.tool = b->tool_index[tool - (const struct model_tool *)b->m->tools.items];
    out.line = e->at.line;
    out.data = text_offset(b, e->data);
    out.pattern = POLICY_NONE;
    if (e->pattern.base.length > 0) {
        struct policy_pattern pattern = pattern_of(b, &e->pattern, e->pattern_text);
        out.pattern = (*patterns)++;
        if (to->patterns) to->patterns[out.pattern] = pattern;
    }
    if (to->endpoints) to->endpoints[index] = out;
}

static uint32_t elements_give(struct build *b, const struct places *to) {
    struct model *m = b->m;
    uint32_t patterns = 0;
    for (uint32_t i = 0; i < m->tools.count; i++) {
        const struct model_tool *t = list_at(&m->tools, i);
        if (t->expired) continue;
        struct policy_tool tool = tool_of(b, t);
        if (to->tools) to->tools[b->tool_index[i]] = tool;
        for (uint32_t k = 0; k < t->endpoint_count; k++) {
            endpoint_give(b, to, t, t->endpoint_first + k, &patterns);
        }
    }
    for (uint32_t i = 0; i < m->denies.count; i++) {
        const struct model_deny *d = list_at(&m->denies, i);
        struct policy_pattern pattern = pattern_of(b, &d->pattern, d->text);
        struct policy_deny deny = {patterns, text_offset(b, d->at.file->relative), d->at.line};
        if (to->patterns) to->patterns[patterns] = pattern;
        if (to->denies) to->denies[i] = deny;
        patterns++;
    }
    for (uint32_t i = 0; i < m->agents.count; i++) {
        struct policy_agent agent = agent_of(b, list_at(&m->agents, i));
        if (to->agents) to->agents[i] = agent;
    }
    return patterns;
}

/* ---- the block ---------------------------------------------------------------------------------
 */

static void copy_list(struct build *b, enum image_section s, const struct list *l) {
    if (l->count > 0) memcpy(build_section(b, s), l->items, l->count * l->item_size);
}

static void copy_prefixes(struct build *b, enum image_section s, const struct list *sources) {
    struct prefix *out = build_section(b, s);
    for (size_t i = 0; i < sources->count; i++) {
        out[i] = ((const struct model_source *)list_at(sources, i))->prefix;
    }
}

static bool block_make(struct build *b, uint32_t tools, uint32_t patterns) {
    struct model *m = b->m;
    struct image_span spans[IMAGE_SECTION_COUNT] = {
        [IMAGE_TEXT].count = (uint32_t)b->text.count,
        [IMAGE_AGENT].count = (uint32_t)m->agents.count,
        [IMAGE_SOURCE].count = (uint32_t)m->sources.count,
        [IMAGE_AGENT_TOOL].count = (uint32_t)m->agent_tools.count,
        [IMAGE_TOOL].count = tools,
        [IMAGE_ENDPOINT].count = (uint32_t)m->endpoints.count,
        [IMAGE_PATTERN].count = patterns,
        [IMAGE_DENY].count = (uint32_t)m->denies.count,
        [IMAGE_SUBNET].count = (uint32_t)m->subnets.count,
        [IMAGE_STATIC].count = (uint32_t)b->statics.count,
        [IMAGE_CLIENT].count = (uint32_t)m->sources.count,
        [IMAGE_SORTED_TOOL].count = (uint32_t)m->agent_tools.count,
        [IMAGE_AGENT_KEY].count = (uint32_t)m->agents.count,
        [IMAGE_ENDPOINT_KEY].count = (uint32_t)m->endpoints.count,
        [IMAGE_RULE].count = (uint32_t)b->rules.count,
        [IMAGE_RULE_BASE].count = (uint32_t)b->bases.count,
        [IMAGE_POSTING].count = (uint32_t)b->postings.count,
        [IMAGE_DENY_POSTING].count = (uint32_t)b->deny_postings.count,
    };
    static const struct {
        enum image_section table, directory;
    } directories[] = {{IMAGE_AGENT_KEY, IMAGE_AGENT_DIRECTORY},
                       {IMAGE_ENDPOINT_KEY, IMAGE_ENDPOINT_DIRECTORY},
                       {IMAGE_RULE, IMAGE_RULE_DIRECTORY}};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        unsigned bits = image_directory_bits(spans[directories[i].table].count);
        spans[directories[i].directory].count = (UINT32_C(1) << bits) + 1;
    }
    uint32_t size = image_layout(spans);
    if (size == 0) {
        fault_add(&m->faults, m->policy_at,
                  "the policy makes an image of more than %u MiB; make it "
                  "smaller",
                  POLICY_IMAGE_MAX >> 20);
        return false;
    }
    b->image = calloc(1, size);
    if (!b->image) {
        m->faults.nomem = true;
        return false;
    }
    b->header = (struct image_header *)b->image;
    memcpy(b->header->magic, IMAGE_MAGIC, sizeof b->header->magic);
    b->header->version = IMAGE_VERSION;
    b->header->size = size;
    memcpy(b->header->spans, spans, sizeof spans);
    b->header->gateway = m->gateway;
    b->view = (struct policy){.base = b->image, .size = size, .header = b->image};
    return true;
}

static bool block_fill(struct build *b) {
    struct places to = {
        .tools = build_section(b, IMAGE_TOOL),
        .endpoints = build_section(b, IMAGE_ENDPOINT),
        .patterns = build_section(b, IMAGE_PATTERN),
        .agents = build_section(b, IMAGE_AGENT),
        .denies = build_section(b, IMAGE_DENY),
    };
    elements_give(b, &to);
    copy_list(b, IMAGE_TEXT, &b->text);
    copy_list(b, IMAGE_STATIC, &b->statics);
    copy_list(b, IMAGE_RULE, &b->rules);
    copy_list(b, IMAGE_RULE_BASE, &b->bases);
    copy_list(b, IMAGE_POSTING, &b->postings);
    copy_list(b, IMAGE_DENY_POSTING, &b->deny_postings);
    copy_prefixes(b, IMAGE_SOURCE, &b->m->sources);
    copy_prefixes(b, IMAGE_SUBNET, &b->m->subnets);
    uint32_t *tools = build_section(b, IMAGE_AGENT_TOOL);
    for (size_t i = 0; i < b->m->agent_tools.count; i++) {
        tools[i] = b->tool_index[*(uint32_t *)list_at(&b->m->agent_tools, i)];
    }
    if (!index_fill(b)) return false;
    crypto_generichash(b->header->digest, POLICY_DIGEST_SIZE, b->image + POLICY_DIGEST_SIZE,
                       b->header->size - POLICY_DIGEST_SIZE, NULL, 0);
    return true;
}

/* Tools in the image are numbered without the expired ones. */
static uint32_t tools_number(struct build *b) {
    uint32_t count = 0;
    for (size_t i = 0; i < b->m->tools.count; i++) {
        const struct model_tool *t = list_at(&b->m->tools, i);
        b->tool_index[i] = t->expired ? POLICY_NONE : count++;
    }
    return count;
}

static bool build_run(struct build *b) {
    static const struct places nowhere;
    b->tool_index = calloc(b->m->tools.count + 1, sizeof *b->tool_index);
    if (!b->tool_index) {
        b->m->faults.nomem = true;
        return false;
    }
    uint32_t tools = tools_number(b);
    text_offset(b, "");
    uint32_t patterns = elements_give(b, &nowhere);
    return !b->m->faults.nomem && statics_make(b->m, &b->statics) && index_rules(b) &&
           block_make(b, tools, patterns) && block_fill(b);
}

bool image_build(struct model *m, void **ret, size_t *ret_size) {
    struct build b = {
        .m = m,
        .text.item_size = 1,
        .statics.item_size = sizeof(struct policy_static),
        .rules.item_size = sizeof(struct image_rule),
        .bases.item_size = 1,
        .postings.item_size = sizeof(struct image_posting),
        .deny_postings.item_size = sizeof(uint32_t),
    };
    bool fine = build_run(&b);
    if (fine) {
        *ret = b.image;
        *ret_size = b.header->size;
    } else {
        free(b.image);
    }
    free(b.text.items);
    free(b.statics.items);
    free(b.rules.items);
    free(b.bases.items);
    free(b.postings.items);
    free(b.deny_postings.items);
    free(b.tool_index);
    words_free(&b.offsets);
    return fine;
}
