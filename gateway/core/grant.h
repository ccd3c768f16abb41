/* grant.h: what policy gives a client to open, and whether what is open is still given. Pure. */
#ifndef GATEWAY_CORE_GRANT_H
#define GATEWAY_CORE_GRANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/core/ledger.h"
#include "gateway/core/marks.h"

#define GRANT_PORTS_MAX (POLICY_MATCH_MAX * POLICY_PORTS_MAX)

struct grant_port {
    uint32_t endpoint; /* the first of the decision that has it */
    uint16_t port;
    uint8_t protocol;
};
/* Protocols and ports under which the decision's endpoints reach the address, each once. 0: none of
 * them leads there. */
unsigned grant_ports(const struct policy *p, const struct decision *d, const struct addr *remote,
                     struct grant_port ret[GRANT_PORTS_MAX]);

/* Whether the policy still gives this: the mark's agent has the client's address, and its endpoint
 * among its tools, which has protocol, port and address, and the name, which no deny covers. `name`
 * NULL: not known, any that the endpoint may have. */
bool grant_stands(const struct policy *p, const struct marks *m, uint32_t mark,
                  const struct ledger_key *key, const struct name_ref *name);

#endif
