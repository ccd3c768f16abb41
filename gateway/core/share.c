/* share.c: no agent may have more flows than are left for all others.
 *
 * The connection tracker is one table for everybody, and an established flow stays in it for days:
 * an agent that fills it stops the others and the resolver. nft's `ct count` walks a list of all
 * flows of a source for a new one, so the counting is done here: what is over is ended as soon as
 * the kernel tells of it. Alone an agent gets half of the table, and N greedy agents leave one part
 * in N + 1 free.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/core/core.h"
#include "gateway/core/sysctl.h"

#define ROUNDS_MAX 16u /* agents that are brought back to their shares after one loss of events */

static bool exceeded(const struct core *c, uint32_t mark) {
    uint32_t standing = flows_standing(c->flows);
    uint32_t left = standing < c->flow_room ? c->flow_room - standing : 0;
    return flows_of_agent(c->flows, mark) > left;
}

void share_judge(struct core *c, const struct conntrack_flow *told) {
    if (!exceeded(c, told->mark)) return;
    struct flow flow = flow_of(told);
    flows_revoke(c->flows, &flow);
    int r = conntrack_delete(c->conntrack, told);
    if (r < 0) log_error("a flow beyond its agent's share could not be ended: %s", strerror(-r));
    c->counts.flows_cut++;
}

static bool flow_is_over(void *ctx, const struct conntrack_flow *told) {
    struct core *c = ctx;
    if (!exceeded(c, told->mark)) return false;
    struct flow flow = flow_of(told);
    flows_revoke(c->flows, &flow);
    c->counts.flows_cut++;
    return true;
}

void share_restore(struct core *c) {
    int r = 1;
    for (unsigned i = 0; i < ROUNDS_MAX && r > 0; i++) {
        uint32_t mark = flows_most(c->flows);
        if (!exceeded(c, mark)) return;
        r = conntrack_delete_where(c->conntrack, mark, ~MARKS_ENDPOINT_MAX, flow_is_over, c);
    }
    if (r < 0) log_error("flows beyond their agent's share could not be ended: %s", strerror(-r));
}

void share_second(struct core *c) {
    char text[SYSCTL_VALUE_MAX] = "";
    c->flow_room = c->config.flows_max;
    if (sysctl_get("netfilter/nf_conntrack_max", text) == 0) {
        unsigned long max = strtoul(text, NULL, 10); /* 0: no bound */
        if (max > 0 && max < c->flow_room) c->flow_room = (uint32_t)max;
    }
    if (c->counts.flows_cut != c->flows_cut_told)
        log_warn("%llu flows were ended: their agent had more than were left for all others",
                 (unsigned long long)(c->counts.flows_cut - c->flows_cut_told));
    c->flows_cut_told = c->counts.flows_cut;
}
