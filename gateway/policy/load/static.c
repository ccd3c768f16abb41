/* static.c: address endpoints -> elements of the kernel's interval maps.
 *
 * The kernel wants them disjoint in (source, remote, protocol, port). For each agent and protocol
 * the prefixes are walked in the order of their addresses, wide before narrow, with the ones that
 * cover the current one on a stack. A port that a wide prefix has already is left out of a narrow
 * one below it (and of a later endpoint with the same prefix): the packet is allowed either way,
 * and attributed to the first.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/policy/load/model.h"

#define ELEMENTS_MAX (POLICY_IMAGE_MAX / sizeof(struct policy_static))

/* An address endpoint of the agent at hand. */
struct candidate {
    const struct policy_endpoint *endpoint;
    uint32_t index, position; /* position: of its tool in the agent's list */
};

struct element {
    const struct policy_endpoint *endpoint;
    uint32_t index;
    uint16_t first, last;
};

struct walk {
    struct model *m;
    struct list candidates; /* struct candidate */
    struct list elements;   /* struct element */
    struct level {
        const struct prefix *prefix;
        size_t first; /* element */
    } stack[129];
    unsigned depth;
    uint8_t taken[65536]; /* ports that prefixes on the stack have */
};

static int compare_candidates(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    int c = (int)x->endpoint->protocol - y->endpoint->protocol;
    if (c == 0) c = memcmp(&x->endpoint->address, &y->endpoint->address, sizeof(struct prefix));
    if (c != 0) return c;
    if (x->position != y->position) return x->position < y->position ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void stack_pop(struct walk *w, size_t elements_end) {
    const struct level *top = &w->stack[--w->depth];
    for (size_t i = top->first; i < elements_end; i++) {
        const struct element *e = list_at(&w->elements, i);
        for (uint32_t port = e->first; port <= e->last; port++) w->taken[port] = 0;
    }
}

/* Ports that are new become elements, neighbours joined. */
static void ports_emit(struct walk *w, const struct candidate *c) {
    struct element *open = NULL;
    for (unsigned i = 0; i < c->endpoint->port_count; i++) {
        uint16_t port = c->endpoint->ports[i];
        if (w->taken[port]) continue;
        w->taken[port] = 1;
        if (open && open->last + 1 == port) {
            open->last = port;
            continue;
        }
        open = list_add(w->m, &w->elements);
        if (!open) return;
        *open = (struct element){c->endpoint, c->index, port, port};
    }
}

static void candidates_walk(struct walk *w) {
    struct candidate *all = w->candidates.items;
    size_t count = w->candidates.count;
    if (count > 1) qsort(all, count, sizeof *all, compare_candidates);
    w->elements.count = 0;
    size_t level_end = 0; /* elements so far of the level on top */
    for (size_t i = 0; i < count; i++) {
        const struct prefix *prefix = &all[i].endpoint->address;
        bool other = i > 0 && all[i].endpoint->protocol != all[i - 1].endpoint->protocol;
        level_end = w->elements.count;
        while (w->depth > 0 && (other || !prefix_covers(w->stack[w->depth - 1].prefix, prefix))) {
            stack_pop(w, level_end);
            level_end = w->stack[w->depth].first;
        }
        if (w->depth == 0 || w->stack[w->depth - 1].prefix->bits != prefix->bits) {
            w->stack[w->depth++] = (struct level){prefix, w->elements.count};
        }
        ports_emit(w, &all[i]);
    }
    level_end = w->elements.count;
    while (w->depth > 0) {
        stack_pop(w, level_end);
        level_end = w->stack[w->depth].first;
    }
}

static void candidates_collect(struct walk *w, const struct model_agent *agent) {
    struct model *m = w->m;
    w->candidates.count = 0;
    for (uint32_t k = 0; k < agent->tool_count; k++) {
        uint32_t index = *(uint32_t *)list_at(&m->agent_tools, agent->tool_first + k);
        const struct model_tool *tool = list_at(&m->tools, index);
        if (!tool->addresses) continue;
        for (uint32_t i = 0; i < tool->endpoint_count; i++) {
            const struct model_endpoint *e = list_at(&m->endpoints, tool->endpoint_first + i);
            if (e->pattern.base.length > 0) continue;
            struct candidate *c = list_add(m, &w->candidates);
            if (!c) return;
            *c = (struct candidate){&e->out, tool->endpoint_first + i, k};
        }
    }
}

static bool elements_give(struct walk *w, uint32_t owner, struct list *ret) {
    struct model *m = w->m;
    const struct model_agent *agent = list_at(&m->agents, owner);
    for (uint32_t s = 0; s < agent->source_count; s++) {
        const struct model_source *source = list_at(&m->sources, agent->source_first + s);
        for (size_t i = 0; i < w->elements.count; i++) {
            const struct element *e = list_at(&w->elements, i);
            if (e->endpoint->address.addr.family != source->prefix.addr.family) continue;
            if (ret->count == ELEMENTS_MAX) {
                fault_add(&m->faults, agent->at,
                          "the address endpoints of all agents make more than "
                          "%zu kernel elements; use wider prefixes or port ranges",
                          ELEMENTS_MAX);
                return false;
            }
            struct policy_static *out = list_add(m, ret);
            if (!out) return false;
            *out = (struct policy_static){.agent = owner,
                                          .endpoint = e->index,
                                          .source = source->prefix,
                                          .remote = e->endpoint->address,
                                          .protocol = e->endpoint->protocol,
                                          .port_first = e->first,
                                          .port_last = e->last};
        }
    }
    return true;
}

static int compare_statics(const void *a, const void *b) {
    const struct policy_static *x = a, *y = b;
    int c = memcmp(&x->source, &y->source, sizeof x->source);
    if (c == 0) c = (int)x->protocol - y->protocol;
    if (c == 0) c = memcmp(&x->remote, &y->remote, sizeof x->remote);
    return c != 0 ? c : (int)x->port_first - y->port_first;
}

bool statics_make(struct model *m, struct list *ret) {
    struct walk *w = calloc(1, sizeof *w);
    if (!w) {
        m->faults.nomem = true;
        return false;
    }
    w->m = m;
    w->candidates.item_size = sizeof(struct candidate);
    w->elements.item_size = sizeof(struct element);
    bool fine = true;
    for (uint32_t i = 0; fine && i < m->agents.count; i++) {
        candidates_collect(w, list_at(&m->agents, i));
        if (w->candidates.count == 0) continue;
        candidates_walk(w);
        fine = elements_give(w, i, ret);
    }
    free(w->candidates.items);
    free(w->elements.items);
    free(w);
    if (ret->count > 1) qsort(ret->items, ret->count, ret->item_size, compare_statics);
    return fine && !m->faults.nomem;
}
