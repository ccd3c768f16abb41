/* grant.c: from the policy to elements, and back. */
#include "gateway/core/grant.h"

#include <string.h>

/* ---- ports --------------------------------------------------------------------------------- */

static bool listed(const struct grant_port *ports, unsigned count, uint8_t protocol,
                   uint16_t port) {
    for (unsigned i = 0; i < count; i++)
        if (ports[i].port == port && ports[i].protocol == protocol) return true;
    return false;
}

unsigned grant_ports(const struct policy *p, const struct decision *d, const struct addr *remote,
                     struct grant_port ret[GRANT_PORTS_MAX]) {
    unsigned count = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        const struct policy_endpoint *e = policy_endpoint(p, d->endpoints[i]);
        if (!policy_endpoint_reaches(p, d->endpoints[i], remote)) continue;
        for (unsigned k = 0; k < e->port_count; k++) {
            if (listed(ret, count, e->protocol, e->ports[k])) continue;
            ret[count++] = (struct grant_port){.endpoint = d->endpoints[i], .port = e->ports[k],
                                               .protocol = e->protocol};
        }
    }
    return count;
}

/* ---- what is open -------------------------------------------------------------------------- */

static bool has_port(const struct policy_endpoint *e, uint8_t protocol, uint16_t port) {
    for (unsigned i = 0; i < e->port_count; i++)
        if (e->ports[i] == port) return e->protocol == protocol;
    return false;
}

static bool has_type(const struct policy_endpoint *e, uint16_t type) {
    for (unsigned i = 0; i < e->type_count; i++)
        if (e->types[i] == type) return true;
    return false;
}

static bool name_stands(const struct policy *p, const struct policy_endpoint *e,
                        const struct ledger_key *key, const struct name_ref *ref) {
    struct name name;
    struct decision d;
    uint16_t type = key->remote.family == 4 ? TYPE_A : TYPE_AAAA;
    if (e->pattern == POLICY_NONE) return !ref; /* an address endpoint has no names */
    const struct policy_pattern *pattern = policy_pattern(p, e->pattern);
    /* Of a flow that outlived its opening and then a restart the name is lost, unless the endpoint
     * has only one. */
    if (ref) name_ref_read(ref, &name);
    else if (pattern->kind == PATTERN_EXACT) name = pattern->base;
    else return true;
    policy_decide(p, &key->client, &name, type, &d);
    return d.reason == REASON_ALLOWED && has_type(e, type) &&
           policy_pattern_matches(pattern, &name);
}

bool grant_stands(const struct policy *p, const struct marks *m, uint32_t mark,
                  const struct ledger_key *key, const struct name_ref *name) {
    uint32_t agent, endpoint;
    if (!marks_read(m, p, mark, &agent, &endpoint)) return false;
    if (agent == POLICY_NONE || endpoint == POLICY_NONE) return false;
    if (policy_agent_of(p, &key->client) != agent || !policy_agent_has(p, agent, endpoint))
        return false;
    const struct policy_endpoint *e = policy_endpoint(p, endpoint);
    return has_port(e, key->protocol, key->port) &&
           policy_endpoint_reaches(p, endpoint, &key->remote) && name_stands(p, e, key, name);
}
