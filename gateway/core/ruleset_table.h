/* ruleset_table.h: what ruleset.c asks about the table as it is in the kernel. */
#ifndef GATEWAY_CORE_RULESET_TABLE_H
#define GATEWAY_CORE_RULESET_TABLE_H

#include "gateway/core/ruleset.h"

/* Whether the table, if there is one, has no chain, set or counter other than ours and its sets are
 * defined as ours are. 1 so, 0 not, -errno. */
int ruleset_table_shape(struct ruleset *r, uint32_t map_size);
/* 1 when the table has flags (dormant, owned), 0 none, -errno. */
int ruleset_table_dormant(struct ruleset *r);

#endif
