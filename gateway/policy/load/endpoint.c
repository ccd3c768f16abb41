/* endpoint.c: one line of a manifest. */
#include <string.h>

#include "gateway/policy/load/model.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { NAME, ADDRESS, PROTOCOL, PORT, TYPES, DATA, RANGES, KEYS };

static bool ranges_read(const struct reader *r, const struct node *list, uint32_t *ret) {
    static const char *const choices[] = {"private", "documentation"};
    static const enum addr_range ranges[] = {RANGE_PRIVATE, RANGE_DOCUMENTATION};
    const struct node *n;
    bool fine = true;
    if (!list_read(r, list, "ranges", &n)) return false;
    for (; n; n = n->next) {
        uint32_t i;
        if (choice_read(r, n, "range", choices, COUNT(choices), &i))
            *ret |= UINT32_C(1) << ranges[i];
        else
            fine = false;
    }
    return fine;
}

/* An address endpoint leads nowhere that a name may not lead: public addresses and the ranges it
 * names, never into our own subnets. */
static bool address_allowed(const struct model *m, const struct reader *r, const struct node *n,
                            const struct policy_endpoint *e) {
    char text[128], prefix[PREFIX_TEXT_MAX];
    uint32_t special = prefix_ranges(&e->address) & ~(UINT32_C(1) << RANGE_PUBLIC | e->ranges);
    uint32_t never = special & ~POLICY_RANGES_OPTIONAL;
    prefix_format(&e->address, prefix);
    if (never) {
        fault_add(r->f, node_place(r, n),
                  "address %s holds %s addresses, which no endpoint may "
                  "reach; write a prefix without them",
                  prefix, ranges_text(never, text));
        return false;
    }
    if (special) {
        fault_add(r->f, node_place(r, n),
                  "address %s holds %s addresses, which are not public; write "
                  "another, or add ranges: [%s] if that is meant",
                  prefix, ranges_text(special, text), text);
        return false;
    }
    for (size_t i = 0; i < m->subnets.count; i++) {
        const struct model_source *s = list_at(&m->subnets, i);
        if (!prefix_covers(&s->prefix, &e->address) && !prefix_covers(&e->address, &s->prefix)) {
            continue;
        }
        fault_add(r->f, node_place(r, n),
                  "address %s overlaps %s subnet %s; agents reach nothing there", prefix,
                  s->owner == POLICY_INTERFACES_MAX ? "the management" : "the agent",
                  prefix_format(&s->prefix, text));
        return false;
    }
    return true;
}

static bool address_read(struct model *m, const struct reader *r, const struct node *const *v,
                         struct model_endpoint *e) {
    bool fine = prefix_read(r, v[ADDRESS], "address", &e->out.address) &&
                address_allowed(m, r, v[ADDRESS], &e->out);
    if (v[TYPES]) {
        fault_add(r->f, node_place(r, v[TYPES]),
                  "types is for names, an address has no records; remove it");
        fine = false;
    }
    return fine;
}

static bool target_read(struct model *m, const struct reader *r, const struct node *n,
                        const struct node *const *v, struct model_endpoint *e) {
    if (v[NAME] && v[ADDRESS]) {
        fault_add(r->f, node_place(r, v[ADDRESS]),
                  "an endpoint has a name or an address, not both; write two endpoints");
        return false;
    }
    if (v[ADDRESS]) return address_read(m, r, v, e);
    if (!v[NAME]) {
        fault_add(r->f, node_place(r, n), "an endpoint lacks \"name\" (or \"address\"); add one");
        return false;
    }
    bool fine = pattern_read(m, r, v[NAME], false, &e->pattern);
    if (fine) e->pattern_text = model_text(m, v[NAME]->text);
    return types_read(r, v[TYPES], &e->out) && fine;
}

void endpoint_read(struct model *m, const struct reader *r, const struct node *n) {
    static const struct key keys[KEYS] = {
        [NAME] = {"name", false},        [ADDRESS] = {"address", false},
        [PROTOCOL] = {"protocol", true}, [PORT] = {"port", false},
        [TYPES] = {"types", false},      [DATA] = {"data", false},
        [RANGES] = {"ranges", false},
    };
    const struct node *v[KEYS];
    if (!map_read(r, n, "an endpoint", keys, KEYS, v)) return;
    struct model_endpoint e = {.at = node_place(r, n), .data = ""};
    bool fine = v[PROTOCOL] && protocol_read(r, v[PROTOCOL], v[PORT], &e.out);
    if (v[RANGES]) fine &= ranges_read(r, v[RANGES], &e.out.ranges);
    fine &= target_read(m, r, n, v, &e);
    if (v[DATA]) {
        const char *data;
        if (word_read(r, v[DATA], "data", "-_", 32, &data))
            e.data = model_text(m, data);
        else
            fine = false;
    }
    if (!fine || m->faults.nomem) return;
    if (m->endpoints.count == MODEL_ENDPOINTS_MAX) {
        fault_add(r->f, e.at, "more than %u endpoints in all; remove some", MODEL_ENDPOINTS_MAX);
        return;
    }
    struct model_endpoint *added = list_add(m, &m->endpoints);
    if (added) *added = e;
}
