/* sync.c: the kernel's maps follow the ledger. Each key is a request of its own, so one that fails
 * touches no other; the group commits by itself when it is full. */
#include <errno.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/core/core.h"

struct element_key sync_element_key(const struct ledger_key *key) {
    return (struct element_key){.client = key->client, .remote = key->remote, .port = key->port,
                                .protocol = key->protocol};
}

struct ledger_key sync_ledger_key(const struct element_key *key) {
    return (struct ledger_key){.client = key->client, .remote = key->remote, .port = key->port,
                               .protocol = key->protocol};
}

void sync_begin(struct core *c, bool empty) {
    elements_begin(c->elements);
    c->sync.empty = empty;
    c->sync.requests = 0;
    c->sync.failed = 0;
}

static void commit(struct core *c) {
    unsigned requests = c->sync.requests;
    c->sync.requests = 0;
    if (requests == 0) return;
    int r = elements_commit(c->elements);
    if (r < 0) {
        c->counts.transactions_failed++;
        c->sync.failed += requests;
        log_error("the kernel did not take %u changes of openings: %s", requests, strerror(-r));
        return;
    }
    for (unsigned i = 0; i < requests; i++)
        if (elements_result(c->elements, i) < 0) c->sync.failed++;
}

/* What the kernel should hold for the key now. */
static struct element_change change_of(struct core *c, const struct ledger_key *key,
                                       struct name *name) {
    struct element_change change = {.op = ELEMENT_DELETE, .key = sync_element_key(key)};
    struct ledger_claim claim;
    usec_t now = core_now(c);
    if (!ledger_shown(c->ledger, key, NULL, &claim) || claim.deadline <= now) return change;
    name_ref_read(claim.name, name);
    change.op = c->sync.empty ? ELEMENT_ADD : ELEMENT_REFRESH;
    change.mark = claim.mark;
    change.timeout_ms = (claim.deadline - now + USEC_PER_MSEC - 1) / USEC_PER_MSEC;
    change.name = name;
    return change;
}

static int put(struct core *c, const struct element_change *change) {
    int r = elements_request(c->elements);
    if (r < 0) return r;
    r = elements_put(c->elements, change);
    if (r < 0) elements_cancel(c->elements);
    return r;
}

void sync_key(struct core *c, const struct ledger_key *key, uint32_t was) {
    struct name name;
    struct element_change change = change_of(c, key, &name);
    change.was = was;
    int r = put(c, &change);
    if (r == -ENOSPC) {
        commit(c);
        elements_begin(c->elements);
        r = put(c, &change);
    }
    if (r < 0) c->sync.failed++;
    else c->sync.requests++;
}

uint32_t sync_end(struct core *c) {
    commit(c);
    /* What could not be set one by one is set by making the table anew. */
    if (c->sync.failed > 0) c->rebuild = true;
    return c->sync.failed;
}
