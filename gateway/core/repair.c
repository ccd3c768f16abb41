/* repair.c: somebody else changed rulesets of this network namespace.
 *
 * Each transaction makes the kernel's generation one more, ours included, and ours are counted: a
 * generation that differs from the count tells of another hand. Most such changes concern tables of
 * others; then only the elements of our maps need a look. Otherwise all is made anew, in one
 * transaction, and filled from the ledger.
 */
#include <errno.h>

#include "gateway/base/log.h"
#include "gateway/core/barrier.h"
#include "gateway/core/core.h"

void repair_accept(struct core *c, uint32_t generation) {
    c->ruleset.generation = generation;
    c->transactions = elements_transactions(c->elements);
}

/* Puts all openings of the ledger into the empty maps. */
static uint64_t refill(struct core *c) {
    struct ledger_claim claim;
    uint64_t cursor = 0, set = 0;
    uint32_t budget = UINT32_MAX;
    usec_t now = core_now(c);
    sync_begin(c, true);
    while (ledger_next(c->ledger, &cursor, &budget, &claim)) {
        struct ledger_claim first;
        if (claim.deadline <= now) continue;
        /* An opening with several claims comes once: with the one that is shown. */
        ledger_shown(c->ledger, &claim.key, NULL, &first);
        if (first.name != claim.name) continue;
        sync_key(c, &claim.key, 0);
        set++;
    }
    uint32_t failed = sync_end(c);
    if (failed > 0) log_error("%u openings could not be set again", failed);
    return set - failed;
}

static void rebuild(struct core *c) {
    int r = reload_ruleset(c, &c->image, true, true);
    if (r < 0) {
        if (!c->repair_failed) log_error("the ruleset is not in force; forwarding is closed");
        c->repair_failed = true;
        c->rebuild = true;
        return;
    }
    c->rebuild = false;
    c->repair_failed = false;
    if ((r = barrier_install(&c->image.policy)) < 0)
        log_error("the barrier could not be set: errno %d", -r);
    uint64_t set = refill(c);
    c->counts.repairs++;
    core_new_epoch(c);
    log_warn("the ruleset was made anew, with %llu openings", (unsigned long long)set);
    record_event(c, EVENT_REPAIRED, set, 0, UINT32_MAX);
}

void repair_check(struct core *c) {
    uint32_t generation;
    if (!c->rebuild) {
        if (ruleset_generation(&c->ruleset, &generation) < 0) return; /* with the next tick */
        uint32_t ours = c->ruleset.generation + elements_transactions(c->elements) -
                        c->transactions;
        if (generation == ours) return;
        int r = ruleset_verify(&c->ruleset);
        if (r < 0) return;
        if (r == 1) {
            /* Read before the check, so that a change since then is seen by the next one. */
            repair_accept(c, generation);
            c->compare = true;
            return;
        }
    }
    rebuild(c);
}
