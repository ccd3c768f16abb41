/* agents.c: policy/agents.yaml: who the agents are, what they use, what nobody may ask for. */
#include <limits.h>
#include <string.h>

#include "gateway/policy/load/model.h"

#define COUNT(array)    (sizeof(array) / sizeof *(array))
#define SUGGESTIONS_MAX 100 /* each looks at every tool */

struct naming {
    struct words names; /* agents so far */
    uint32_t *used_by;  /* for each tool, the agent that last listed it, plus one */
    unsigned suggestions;
};

/* ---- tools of an agent ----------------------------------------------------------------------- */

static void tell_unknown_tool(struct model *m, const struct reader *r, const struct node *n,
                              struct naming *naming) {
    const char *nearest = NULL;
    unsigned best = UINT_MAX;
    if (m->tools_incomplete) return;
    bool versioned = strchr(n->text, '@') != NULL;
    if (naming->suggestions++ < SUGGESTIONS_MAX) {
        for (size_t i = 0; i < m->tools.count; i++) {
            const struct model_tool *tool = list_at(&m->tools, i);
            const char *candidate = versioned ? tool->full : tool->name;
            if (word_nearer(n->text, candidate, &best)) nearest = candidate;
        }
    }
    if (nearest) {
        fault_add(r->f, node_place(r, n), "unknown tool \"%s\"; did you mean \"%s\"?",
                  shown(n->text).text, shown(nearest).text);
    } else {
        fault_add(r->f, node_place(r, n),
                  "unknown tool \"%s\"; add its manifest to tools/, or remove it here",
                  shown(n->text).text);
    }
}

/* A name without version that several versions have. */
static bool tell_ambiguous(struct model *m, const struct reader *r, const struct node *n,
                           uint32_t first) {
    const struct model_tool *a = list_at(&m->tools, first);
    /* Manifests of one tool are few and mostly neighbours, but nothing says so. */
    for (size_t i = first + 1; i < m->tools.count; i++) {
        const struct model_tool *b = list_at(&m->tools, i);
        if (strcmp(a->name, b->name) != 0) continue;
        fault_add(r->f, node_place(r, n), "tool \"%s\" has several versions; write %s or %s",
                  shown(n->text).text, shown(a->full).text, shown(b->full).text);
        return true;
    }
    return false;
}

static bool tool_find(struct model *m, const struct reader *r, const struct node *n,
                      struct naming *naming, uint32_t *ret) {
    const char *text;
    if (!text_read(r, n, "tool", 129, &text)) return false;
    const struct words_slot *slot =
        words_find(strchr(text, '@') ? &m->tool_versions : &m->tool_names, text);
    if (!slot) {
        tell_unknown_tool(m, r, n, naming);
        return false;
    }
    *ret = slot->value;
    const struct model_tool *tool = list_at(&m->tools, slot->value);
    return strchr(text, '@') || !tool->several || !tell_ambiguous(m, r, n, slot->value);
}

static void agent_tools_read(struct model *m, const struct reader *r, const struct node *list,
                             struct naming *naming, struct model_agent *agent) {
    const struct node *n;
    uint32_t mark = (uint32_t)m->agents.count, index;
    if (!list_read(r, list, "tools", &n)) return;
    for (; n; n = n->next) {
        if (!tool_find(m, r, n, naming, &index)) continue;
        const struct model_tool *tool = list_at(&m->tools, index);
        if (naming->used_by[index] == mark) {
            fault_add(r->f, node_place(r, n), "tool \"%s\" is listed twice; remove one",
                      shown(tool->full).text);
            continue;
        }
        naming->used_by[index] = mark;
        if (tool->expired) continue;
        uint32_t *entry = list_add(m, &m->agent_tools);
        if (!entry) return;
        *entry = index;
        agent->tool_count++;
    }
}

/* ---- sources --------------------------------------------------------------------------------- */

static bool in_agent_subnet(const struct model *m, const struct prefix *p) {
    for (size_t i = 0; i < m->subnets.count; i++) {
        const struct model_source *s = list_at(&m->subnets, i);
        if (s->owner != POLICY_INTERFACES_MAX && prefix_covers(&s->prefix, p)) return true;
    }
    return false;
}

static void sources_read(struct model *m, const struct reader *r, const struct node *list,
                         struct model_agent *agent) {
    const struct node *n;
    uint32_t owner = (uint32_t)m->agents.count - 1;
    if (!list_read(r, list, "sources", &n)) return;
    if (!n) fault_add(r->f, node_place(r, list), "sources is empty; write the agent's addresses");
    for (; n; n = n->next) {
        struct prefix prefix;
        if (!prefix_read(r, n, "source", &prefix)) continue;
        if (m->appliance && !in_agent_subnet(m, &prefix)) {
            fault_add(r->f, node_place(r, n),
                      "source %s is in none of the agent subnets; correct it, "
                      "or add its subnet to gateway.yaml",
                      shown(n->text).text);
            continue;
        }
        struct model_source *s = list_add(m, &m->sources);
        if (!s) return;
        *s = (struct model_source){prefix, node_place(r, n), owner};
        agent->source_count++;
    }
}

static const char *agent_name(const struct model *m, uint32_t owner) {
    return ((const struct model_agent *)list_at(&m->agents, owner))->name;
}

/* ---- agents ---------------------------------------------------------------------------------- */

/* Observe and shadow have their place in the image; this version enforces only. */
static void mode_read(const struct reader *r, const struct node *n) {
    const char *text;
    if (!text_read(r, n, "mode", 256, &text) || strcmp(text, "enforce") == 0) return;
    if (strcmp(text, "observe") == 0 || strcmp(text, "shadow") == 0) {
        fault_add(r->f, node_place(r, n),
                  "mode %s is not supported in this version; write enforce, or leave it out", text);
    } else {
        fault_add(r->f, node_place(r, n), "mode is \"%s\"; write enforce, or leave it out",
                  shown(text).text);
    }
}

static void name_read(struct model *m, const struct reader *r, const struct node *n,
                      struct naming *naming, struct model_agent *agent) {
    const char *name;
    bool new;
    if (!word_read(r, n, "agent", "-_.", 64, &name)) return;
    agent->name = model_text(m, name);
    if (!agent->name) return;
    const struct words_slot *slot = words_add(&naming->names, agent->name, n->line, &new);
    if (!slot)
        m->faults.nomem = true;
    else if (!new) {
        fault_add(r->f, node_place(r, n),
                  "agent \"%s\" is defined twice (first at line %u); write "
                  "all its sources and tools in one entry",
                  name, slot->value);
    }
}

static void agent_read(struct model *m, const struct reader *r, const struct node *n,
                       struct naming *naming) {
    static const struct key keys[] = {
        {"agent", true}, {"sources", true}, {"tools", true}, {"mode", false}};
    const struct node *v[COUNT(keys)];
    if (!map_read(r, n, "an agent", keys, COUNT(keys), v)) return;
    if (m->agents.count == MODEL_AGENTS_MAX) {
        fault_add(r->f, node_place(r, n), "more than %u agents; remove some", MODEL_AGENTS_MAX);
        return;
    }
    struct model_agent *agent = list_add(m, &m->agents);
    if (!agent) return;
    *agent = (struct model_agent){.name = "?",
                                  .at = node_place(r, n),
                                  .mode = MODE_ENFORCE,
                                  .source_first = (uint32_t)m->sources.count,
                                  .tool_first = (uint32_t)m->agent_tools.count};
    if (v[0]) name_read(m, r, v[0], naming, agent);
    if (v[1]) sources_read(m, r, v[1], agent);
    if (v[2]) agent_tools_read(m, r, v[2], naming, agent);
    if (v[3]) mode_read(r, v[3]);
}

static void denies_read(struct model *m, const struct reader *r, const struct node *list) {
    const struct node *n;
    if (!list_read(r, list, "deny", &n)) return;
    for (; n; n = n->next) {
        struct policy_pattern pattern;
        if (!pattern_read(m, r, n, true, &pattern)) continue;
        const char *text = model_text(m, n->text);
        struct model_deny *deny = list_add(m, &m->denies);
        if (!deny) return;
        *deny = (struct model_deny){pattern, text, node_place(r, n)};
    }
}

static void agents_read(struct model *m, const struct reader *r, const struct node *root) {
    static const struct key keys[] = {{"agents", true}, {"deny", false}};
    const struct node *v[COUNT(keys)], *n;
    struct naming naming = {.used_by = model_alloc(m, (m->tools.count + 1) * sizeof(uint32_t))};
    if (!naming.used_by || !map_read(r, root, "agents.yaml", keys, COUNT(keys), v)) return;
    if (v[0] && list_read(r, v[0], "agents", &n)) {
        if (!n) fault_warn(r->f, node_place(r, v[0]), "agents is empty; every client is refused");
        for (; n; n = n->next) agent_read(m, r, n, &naming);
    }
    words_free(&naming.names);
    overlaps_tell(m, &m->sources, "source", agent_name);
    if (v[1]) denies_read(m, r, v[1]);
}

void agents_load(struct model *m, const struct source_file *file) {
    document_load(m, file, agents_read, NULL);
}
