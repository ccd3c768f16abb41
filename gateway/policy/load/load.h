/* load.h: YAML -> policy image. Runs in the unprivileged loader and in the `tidegate` command.
 * Never in core.
 */
#ifndef GATEWAY_POLICY_LOAD_LOAD_H
#define GATEWAY_POLICY_LOAD_LOAD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "gateway/base/clock.h"

struct load_result {
    void *image; /* malloc()ed; NULL when there were faults */
    size_t size;
    unsigned faults, warnings;
};

/* What to load: exactly one of these is set, as the operator gave it. */
struct load_source {
    const char *config;    /* path of gateway.yaml; its `policy:` names the folder */
    const char *directory; /* a policy folder alone: gateway settings take their defaults, so that
                              a policy repository can be checked without an appliance */
    const char *public_suffix_list; /* path; NULL: the installed one, else conf/ beside the build tree */
    const struct clock *clock; /* says whether a manifest has expired; NULL: clock_system */
};

/* Reads everything, reports every fault to `report` in one go, one line each:
 *   file:line:column: what is wrong, what to do instead
 * Returns 0, or -EINVAL when there were faults (also for files that cannot be read). */
int load_policy(const struct load_source *source, FILE *report, struct load_result *ret);
void load_result_free(struct load_result *r);

#endif
