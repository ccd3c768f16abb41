/* model.c: memory of the model. */
#include "gateway/policy/load/model.h"

#include <stdlib.h>
#include <string.h>

#define MODEL_BYTES_MAX (1u << 30)

void model_start(struct model *m, const struct clock *clock) {
    m->subnets.item_size = m->sources.item_size = sizeof(struct model_source);
    m->tools.item_size = sizeof(struct model_tool);
    m->endpoints.item_size = sizeof(struct model_endpoint);
    m->agents.item_size = sizeof(struct model_agent);
    m->agent_tools.item_size = sizeof(uint32_t);
    m->denies.item_size = sizeof(struct model_deny);
    m->today = (int64_t)(clock_realtime(clock ? clock : &clock_system) / USEC_PER_SEC / 86400);
    m->arena = arena_new(MODEL_BYTES_MAX);
    if (!m->arena) m->faults.nomem = true;
}

void model_end(struct model *m) {
    faults_free(&m->faults);
    free(m->subnets.items);
    free(m->tools.items);
    free(m->endpoints.items);
    free(m->agents.items);
    free(m->sources.items);
    free(m->agent_tools.items);
    free(m->denies.items);
    words_free(&m->tool_versions);
    words_free(&m->tool_names);
    psl_free(m->psl);
    arena_free(m->arena);
}

static bool list_room(struct model *m, struct list *l, size_t more) {
    size_t capacity = l->capacity ? l->capacity : 16;
    while (capacity < l->count + more) capacity *= 2;
    if (capacity == l->capacity) return true;
    void *items = realloc(l->items, capacity * l->item_size);
    if (!items) {
        m->faults.nomem = true;
        return false;
    }
    l->items = items;
    l->capacity = capacity;
    return true;
}

void *list_add(struct model *m, struct list *l) {
    if (!list_room(m, l, 1)) return NULL;
    return memset(list_at(l, l->count++), 0, l->item_size);
}

bool list_append(struct model *m, struct list *l, const void *items, size_t count) {
    if (!list_room(m, l, count)) return false;
    memcpy(list_at(l, l->count), items, count * l->item_size);
    l->count += count;
    return true;
}

void *model_alloc(struct model *m, size_t size) {
    void *memory = arena_alloc(m->arena, size);
    if (!memory) m->faults.nomem = true;
    return memory;
}

const char *model_text(struct model *m, const char *text) {
    return model_join(m, text, "", "");
}

const char *model_join(struct model *m, const char *a, const char *b, const char *c) {
    size_t na = strlen(a), nb = strlen(b), nc = strlen(c);
    char *text = model_alloc(m, na + nb + nc + 1);
    if (!text) return NULL;
    memcpy(text, a, na);
    memcpy(text + na, b, nb);
    memcpy(text + na + nb, c, nc);
    return text;
}

struct source_file *model_file(struct model *m, const char *path, const char *relative) {
    struct source_file *file = model_alloc(m, sizeof *file);
    if (!file) return NULL;
    file->path = model_text(m, path);
    file->relative = model_text(m, relative);
    file->order = m->files++;
    return file->path && file->relative ? file : NULL;
}

void document_load(struct model *m, const struct source_file *file, document_fn *whole,
                   document_fn *broken) {
    struct reader r = {&m->faults, file};
    struct tree *tree = NULL;
    char *bytes = NULL;
    size_t size;
    if (file_read(&m->faults, file, &bytes, &size) == 0 &&
        tree_parse(&m->faults, file, bytes, size, &tree) == 0) {
        const struct node *root = tree_root(tree);
        if (root) {
            whole(m, &r, root);
        } else {
            fault_add(&m->faults, (struct place){file, 1, 1},
                      "is empty; see tidegate.yaml(5) for what belongs here");
            if (broken) broken(m, &r, NULL);
        }
    } else if (broken) {
        broken(m, &r, tree ? tree_root(tree) : NULL);
    }
    tree_free(tree);
    free(bytes);
}
