/* manifest.c: policy/tools/NAME.yaml, a tool's endpoints. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/policy/load/model.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define WORD_MAX     64

enum { TOOL, VERSION, DIGEST, OWNER, PURPOSE, EXPIRES, ENDPOINTS, KEYS };

/* ---- names of tools -------------------------------------------------------------------------- */

static bool tool_register(struct model *m, struct model_tool *tool, uint32_t index) {
    bool new;
    struct words_slot *slot = words_add(&m->tool_versions, tool->full, index, &new);
    if (!slot) {
        m->faults.nomem = true;
        return false;
    }
    if (!new) {
        const struct model_tool *first = list_at(&m->tools, slot->value);
        fault_add(&m->faults, tool->at,
                  "%s is defined twice (first in %s:%u); change the version, or "
                  "remove one",
                  tool->full, shown(first->at.file->relative).text, first->at.line);
        return false;
    }
    slot = words_add(&m->tool_names, tool->name, index, &new);
    if (!slot)
        m->faults.nomem = true;
    else if (!new)
        ((struct model_tool *)list_at(&m->tools, slot->value))->several = true;
    return true;
}

static struct model_tool *tool_add(struct model *m, struct place at, const char *name,
                                   const char *version) {
    const char *full = model_join(m, name, "@", version);
    const char *kept_name = model_text(m, name), *kept_version = model_text(m, version);
    /* Before it is in the list: names there are compared with. */
    struct model_tool *tool = m->faults.nomem ? NULL : list_add(m, &m->tools);
    if (!tool) return NULL;
    *tool = (struct model_tool){.name = kept_name,
                                .version = kept_version,
                                .full = full,
                                .at = at,
                                .owner = "",
                                .purpose = "",
                                .endpoint_first = (uint32_t)m->endpoints.count};
    return tool_register(m, tool, (uint32_t)m->tools.count - 1) ? tool : NULL;
}

/* A manifest with a fault still defines its tool as far as can be seen, so that agents that name it
 * are not told of an unknown tool. */
static void manifest_broken(struct model *m, const struct reader *r, const struct node *root) {
    const char *name = map_peek(root, "tool"), *version = map_peek(root, "version");
    if (name && version)
        tool_add(m, (struct place){r->file, root->line, root->column}, name, version);
    else
        m->tools_incomplete = true;
}

/* ---- endpoints ------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b) {
    const struct model_endpoint *x = *(const struct model_endpoint *const *)a;
    const struct model_endpoint *y = *(const struct model_endpoint *const *)b;
    int c = memcmp(x->out.key, y->out.key, POLICY_KEY_SIZE);
    if (c != 0) return c;
    return x < y ? -1 : 1;
}

/* Gives the endpoints their keys. They hold everything an endpoint allows, so equal keys are one
 * endpoint written twice. */
static void keys_give(struct model *m, struct model_tool *tool) {
    size_t first = tool->endpoint_first, count = m->endpoints.count - first;
    const struct model_endpoint **sorted = malloc((count + 1) * sizeof *sorted);
    if (!sorted) {
        m->faults.nomem = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct model_endpoint *e = list_at(&m->endpoints, first + i);
        key_of_endpoint(tool, e);
        sorted[i] = e;
        tool->addresses |= e->pattern.base.length == 0;
    }
    qsort(sorted, count, sizeof *sorted, compare_keys);
    for (size_t i = 1; i < count; i++) {
        const struct model_endpoint *a = sorted[i - 1], *b = sorted[i];
        if (memcmp(a->out.key, b->out.key, POLICY_KEY_SIZE) != 0) continue;
        fault_add(&m->faults, b->at, "the same endpoint stands at line %u; remove one", a->at.line);
    }
    free(sorted);
}

static void tell_missing_data(struct model *m, const struct model_tool *tool) {
    for (size_t i = tool->endpoint_first; i < m->endpoints.count; i++) {
        const struct model_endpoint *e = list_at(&m->endpoints, i);
        if (e->data[0] != '\0') continue;
        fault_warn(&m->faults, e->at,
                   "an endpoint has no data class; add data: public, internal or "
                   "confidential, so that a reviewer sees what may leave");
        return; /* one for each manifest is enough */
    }
}

static void endpoints_read(struct model *m, const struct reader *r, const struct node *list,
                           struct model_tool *tool) {
    const struct node *n;
    if (!list_read(r, list, "endpoints", &n)) return;
    if (!n) fault_warn(r->f, node_place(r, list), "endpoints is empty; the tool can reach nothing");
    for (; n; n = n->next) endpoint_read(m, r, n);
    if (m->faults.nomem) return;
    keys_give(m, tool);
    tell_missing_data(m, tool);
    tool->endpoint_count = (uint32_t)m->endpoints.count - tool->endpoint_first;
}

/* ---- the manifest ---------------------------------------------------------------------------- */

static void digest_check(const struct reader *r, const struct node *n) {
    const char *text;
    if (!text_read(r, n, "digest", 256, &text)) return;
    bool known = strncmp(text, "sha256:", 7) == 0;
    if (known && strlen(text) == 71 && strspn(text + 7, "0123456789abcdef") == 64) return;
    fault_add(r->f, node_place(r, n),
              "digest \"%s\" is no SHA-256 digest; write sha256: and 64 "
              "lower-case hexadecimal digits, as sha256sum prints them",
              shown(text).text);
}

/* A manifest ends at the start (UTC) of the day it names. One that has ended is left out: its
 * endpoints are gone, everything else keeps working. */
static void expires_read(struct model *m, const struct reader *r, const struct node *n,
                         struct model_tool *tool) {
    int64_t day;
    if (!date_read(r, n, "expires", &day) || day > m->today) return;
    tool->expired = true;
    fault_warn(r->f, node_place(r, n),
               "%s expired on %s and is left out; have it reviewed and "
               "write a later date, or remove the file",
               tool->full, n->text);
}

static void details_read(struct model *m, const struct reader *r, const struct node *const *v,
                         struct model_tool *tool) {
    const char *text;
    if (v[DIGEST]) digest_check(r, v[DIGEST]);
    if (v[OWNER] && text_read(r, v[OWNER], "owner", 256, &text)) tool->owner = model_text(m, text);
    if (v[PURPOSE] && text_read(r, v[PURPOSE], "purpose", 1000, &text)) {
        tool->purpose = model_text(m, text);
    }
    if (!v[OWNER] || !v[PURPOSE]) {
        fault_warn(r->f, tool->at, "%s has no %s; add it, so that a reviewer knows %s", tool->full,
                   v[OWNER] ? "purpose" : "owner",
                   v[OWNER] ? "what the tool is for" : "whom to ask");
    }
    if (v[EXPIRES]) expires_read(m, r, v[EXPIRES], tool);
}

static void manifest_read(struct model *m, const struct reader *r, const struct node *root) {
    static const struct key keys[KEYS] = {
        [TOOL] = {"tool", true},           [VERSION] = {"version", true},
        [DIGEST] = {"digest", false},      [OWNER] = {"owner", false},
        [PURPOSE] = {"purpose", false},    [EXPIRES] = {"expires", false},
        [ENDPOINTS] = {"endpoints", true},
    };
    const struct node *v[KEYS];
    const char *name, *version;
    struct model_tool nameless = {.endpoint_first = (uint32_t)m->endpoints.count,
                                  .name = "?",
                                  .version = "?",
                                  .full = "the tool",
                                  .at = {r->file, 1, 1}};
    struct model_tool *tool = NULL;
    if (!map_read(r, root, "a manifest", keys, KEYS, v)) {
        m->tools_incomplete = true;
        return;
    }
    bool named = v[TOOL] && word_read(r, v[TOOL], "tool", "-_.", WORD_MAX, &name);
    named &= v[VERSION] && word_read(r, v[VERSION], "version", "-_.+~", WORD_MAX, &version);
    if (named)
        tool = tool_add(m, node_place(r, v[TOOL]), name, version);
    else
        m->tools_incomplete = true;
    if (!tool) tool = &nameless; /* there is a fault already: read on for others */
    details_read(m, r, v, tool);
    if (v[ENDPOINTS]) endpoints_read(m, r, v[ENDPOINTS], tool);
    if (tool->expired) {
        m->endpoints.count = tool->endpoint_first;
        tool->endpoint_count = 0;
    }
}

void manifest_load(struct model *m, const struct source_file *file) {
    document_load(m, file, manifest_read, manifest_broken);
}
