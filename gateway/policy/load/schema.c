/* schema.c: mappings against the keys that are known, and lists. */
#include "gateway/policy/load/value.h"

#include <limits.h>
#include <string.h>

static void tell_unknown(const struct reader *r, const struct node *key, const char *what,
                         const struct key *keys, size_t count) {
    unsigned best = UINT_MAX;
    const char *nearest = NULL;
    char list[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (word_nearer(key->text, keys[i].name, &best)) nearest = keys[i].name;
        int size =
            snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", keys[i].name);
        used += (size_t)size; /* keys are few and short */
    }
    if (nearest) {
        fault_add(r->f, node_place(r, key), "unknown key \"%s\" in %s; did you mean \"%s\"?",
                  shown(key->text).text, what, nearest);
    } else {
        fault_add(r->f, node_place(r, key), "unknown key \"%s\" in %s; it takes %s",
                  shown(key->text).text, what, list);
    }
}

/* Where the mapping has this key first. */
static uint32_t first_line(const struct node *map, const char *name) {
    const struct node *key = map->first;
    while (key->kind != NODE_TEXT || strcmp(key->text, name) != 0) key = key->next->next;
    return key->line;
}

static void take_key(const struct reader *r, const struct node *map, const struct node *key,
                     const char *what, const struct key *keys, size_t count,
                     const struct node **values) {
    if (key->kind == NODE_BROKEN) return;
    if (key->kind != NODE_TEXT) {
        fault_add(r->f, node_place(r, key), "a key of %s must be a plain word", what);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(key->text, keys[i].name) != 0) continue;
        if (values[i]) {
            fault_add(r->f, node_place(r, key),
                      "\"%s\" is given twice in %s (first at line %u); remove one", keys[i].name,
                      what, first_line(map, keys[i].name));
        } else {
            values[i] = key->next;
        }
        return;
    }
    tell_unknown(r, key, what, keys, count);
}

bool map_read(const struct reader *r, const struct node *n, const char *what,
              const struct key *keys, size_t count, const struct node **values) {
    for (size_t i = 0; i < count; i++) values[i] = NULL;
    if (n->kind == NODE_BROKEN) return false;
    if (n->kind == NODE_TEXT && n->text[0] == '\0') {
        fault_add(r->f, node_place(r, n),
                  "%s is empty; write lines of \"key: value\", or remove it", what);
        return false;
    }
    if (n->kind != NODE_MAP) {
        fault_add(r->f, node_place(r, n), "%s must be a mapping (lines of \"key: value\"), not %s",
                  what, n->kind == NODE_LIST ? "a list" : "a single value");
        return false;
    }
    for (const struct node *key = n->first; key; key = key->next->next) {
        take_key(r, n, key, what, keys, count, values);
    }
    for (size_t i = 0; i < count; i++) {
        if (keys[i].required && !values[i]) {
            fault_add(r->f, node_place(r, n), "%s lacks \"%s\"; add it", what, keys[i].name);
        }
    }
    return true;
}

const char *map_peek(const struct node *n, const char *name) {
    const struct node *key = n && n->kind == NODE_MAP ? n->first : NULL;
    while (key && key->next) {
        if (key->kind == NODE_TEXT && strcmp(key->text, name) == 0) {
            return key->next->kind == NODE_TEXT ? key->next->text : NULL;
        }
        key = key->next->next;
    }
    return NULL;
}

bool list_read(const struct reader *r, const struct node *n, const char *what,
               const struct node **ret) {
    if (n->kind == NODE_BROKEN) return false;
    if (n->kind == NODE_TEXT && n->text[0] == '\0') {
        fault_add(r->f, node_place(r, n), "%s is empty; write a list, or [] for none", what);
        return false;
    }
    if (n->kind != NODE_LIST) {
        if (n->kind == NODE_TEXT) {
            fault_add(r->f, node_place(r, n), "%s must be a list; write [%s]", what,
                      shown(n->text).text);
        } else {
            fault_add(r->f, node_place(r, n),
                      "%s must be a list (lines that start with \"- \"), not a mapping", what);
        }
        return false;
    }
    *ret = n->first;
    return true;
}
