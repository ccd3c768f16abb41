/* status.c: what control may know. */
#include <string.h>
#include <unistd.h>

#include "gateway/core/core.h"

#define LOOK_MAX 131072u /* places of the ledger looked at for one page */

void status_ask(struct core *c) {
    const struct msg_ask *ask = proto_body(&c->in);
    struct msg_status *m = proto_begin(&c->out, PROTO_STATUS, 0);
    m->id = ask->id;
    m->policy = c->image.id;
    m->started = c->started;
    m->ready = c->ready;
    m->log_ok = c->log_ok;
    m->log_error = c->log_error;
    m->ipv6_up = c->ipv6_up;
    m->map_size = c->config.map_size;
    for (unsigned i = 0; i < PROCESS_COUNT; i++) {
        m->process[i].pid = c->children[i].pid;
        m->process[i].restarts = c->children[i].restarts;
    }
    m->process[PROCESS_CORE].pid = (uint32_t)getpid();
    m->resolver = c->stats;
    c->counts.openings = ledger_openings(c->ledger, 0);
    c->counts.flows = flows_count(c->flows);
    c->counts.transactions = elements_transactions(c->elements);
#define X(field) m->field = c->counts.field;
    STATUS_TABLE(X)
#undef X
    core_send(c, &c->control);
}

/* ---- openings ------------------------------------------------------------------------------ */

static void tell_claim(const struct core *c, const struct ledger_claim *claim, usec_t now,
                       struct msg_opening *ret) {
    *ret = (struct msg_opening){.client = claim->key.client, .remote = claim->key.remote,
                                .port = claim->key.port, .protocol = claim->key.protocol,
                                .mark = claim->mark};
    ret->remaining = (uint32_t)((claim->deadline - now + USEC_PER_SEC - 1) / USEC_PER_SEC);
    name_ref_read(claim->name, &ret->name);
    if (!marks_read(c->marks, &c->image.policy, claim->mark, &ret->agent, &ret->endpoint))
        ret->agent = ret->endpoint = POLICY_NONE;
}

static bool wanted(const struct msg_ask *ask, const struct ledger_claim *claim) {
    return (ask->client.family == 0 || addr_equal(&ask->client, &claim->key.client)) &&
           (ask->remote.family == 0 || addr_equal(&ask->remote, &claim->key.remote));
}

/* Up to `limit` claims from *cursor on; *cursor is 0 at the end of the ledger. */
static unsigned list_claims(const struct core *c, const struct msg_ask *ask, uint64_t *cursor,
                            struct msg_opening *items, unsigned limit) {
    struct ledger_claim claim;
    uint32_t budget = LOOK_MAX;
    unsigned count = 0;
    usec_t now = core_now(c);
    while (count < limit && ledger_next(c->ledger, cursor, &budget, &claim))
        if (claim.deadline > now && wanted(ask, &claim))
            tell_claim(c, &claim, now, &items[count++]);
    return count;
}

void status_openings(struct core *c) {
    const struct msg_ask *ask = proto_body(&c->in);
    struct msg_opening items[PROTO_PAGE_MAX];
    uint64_t cursor = ask->cursor;
    unsigned count = list_claims(c, ask, &cursor, items, ask->limit);
    struct msg_openings *m = proto_begin(&c->out, PROTO_OPENINGS, count);
    m->id = ask->id;
    m->cursor = cursor;
    for (unsigned i = 0; i < count; i++)
        *(struct msg_opening *)proto_item(&c->out, i) = items[i];
    core_send(c, &c->control);
}
