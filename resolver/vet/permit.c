/* permit.c: whether one client may have a vetted answer under one policy. */
#include "resolver/vet/vet.h"

#include <errno.h>
#include <stdlib.h>

struct permitted {
    struct vetted *vetted;
};

/* Some endpoint of the decision may lead there. Core opens that one's ports and no other's, so
 * tools that share a name do not lend each other their ranges. */
static bool addr_reached(const struct policy *policy, const struct decision *d,
                         const struct addr *addr) {
    for (uint32_t i = 0; i < d->count; i++)
        if (policy_endpoint_reaches(policy, d->endpoints[i], addr)) return true;
    return false;
}

static int addrs_check(const struct vetted *v, const struct policy *policy,
                       const struct decision *d) {
    const struct addr *addrs;
    unsigned count = vetted_addrs(v, &addrs);
    for (unsigned i = 0; i < count; i++)
        if (!addr_reached(policy, d, &addrs[i])) return -REASON_REBINDING;
    return count > policy_gateway(policy)->addresses_per_name ? -REASON_NAME_CAP : 0;
}

/* The hops, and what a client that asks for a CNAME or DNAME itself would learn. */
static int chain_check(const struct vetted *v, const struct policy *policy) {
    const struct wire_hop *chain;
    const struct wire_record *others;
    unsigned hops = vetted_chain(v, &chain), count = vetted_others(v, &others);
    for (unsigned i = 0; i < hops; i++)
        if (policy_denies(policy, chain[i].target) != POLICY_NONE) return -REASON_CHAIN_DENIED;
    for (unsigned i = 0; i < count; i++)
        if (others[i].target.length > 0 && policy_denies(policy, &others[i].target) != POLICY_NONE)
            return -REASON_CHAIN_DENIED;
    return 0;
}

int vet_permit(struct vetted *v, const struct policy *policy, const struct decision *d,
               struct permitted **ret) {
    if (d->reason != REASON_ALLOWED) return -(int)d->reason;
    int error = chain_check(v, policy);
    if (error == 0) error = addrs_check(v, policy, d);
    if (error < 0) return error;
    struct permitted *p = malloc(sizeof *p);
    if (!p) return -ENOMEM;
    p->vetted = vetted_ref(v);
    *ret = p;
    return 0;
}

struct permitted *permitted_free(struct permitted *p) {
    if (p) vetted_unref(p->vetted);
    free(p);
    return NULL;
}

const struct vetted *permitted_vetted(const struct permitted *p) {
    return p->vetted;
}
