/* explain.h: what an image decides, as JSON. Used by the control process on the image in force and
 * by the `tidegate` command on files, so both say the same. */
#ifndef GATEWAY_CONTROL_EXPLAIN_H
#define GATEWAY_CONTROL_EXPLAIN_H

#include <jansson.h>
#include <stdint.h>

#include "gateway/policy/policy.h"

/* The decision on (client, name, type), with a note on what it depends on besides. A new object, NULL
 * when out of memory. */
json_t *explain_decision(const struct policy *p, const struct addr *client,
                         const struct name *name, uint16_t type);

/* Who an opening belongs to: adds agent, tool, rule, data to `to`. Indexes out of range or
 * POLICY_NONE are shown as null: the policy that had them is gone. */
void explain_owner(const struct policy *p, json_t *to, uint32_t agent, uint32_t endpoint);

/* The address endpoints of the image as openings, which last as long as the policy: calls `each`
 * for every one that concerns client and remote (family 0: any). Stops when `each` returns
 * non-zero and returns that. `from` and up, so that a listing can go on later. */
typedef int explain_static_fn(void *ctx, uint32_t index, json_t *opening);
int explain_statics(const struct policy *p, const struct addr *client, const struct addr *remote,
                    uint32_t from, explain_static_fn *each, void *ctx);

/* What an address is to this policy: range, agent (if it is a client). */
json_t *explain_address(const struct policy *p, const struct addr *a);

const char *explain_protocol(uint8_t protocol);

#endif
