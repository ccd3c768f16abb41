/* repair.c: somebody else changed rulesets of this network namespace.
 *
 * Each transaction makes the kernel's generation one more, ours included, and ours are counted: a
 * generation that differs from the count tells of another hand. Most such changes concern tables of
 * others; then only the elements of our maps need a look. Otherwise all is made anew, in one
 * transaction, and filled from the ledger.
 */
#include <errno.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/core/barrier.h"
#include "gateway/core/core.h"
#include "gateway/core/sysctl.h"

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

/* What is in force is not what we loaded, and ours cannot be loaded. Without a table the barrier
 * holds; a changed one may let anything pass, so nothing is forwarded at all. */
static void close_down(struct core *c) {
    c->rebuild = true;
    c->repair_next = core_now(c) + USEC_PER_SEC;
    if (c->repair_failed) return;
    c->repair_failed = true;
    log_error("the ruleset is not in force; forwarding is switched off");
    int r = sysctl_forwarding(false);
    if (r < 0) log_error("forwarding could not be switched off: %s", strerror(-r));
}

static void open_up(struct core *c) {
    c->rebuild = false;
    if (!c->repair_failed) return;
    c->repair_failed = false;
    int r = sysctl_forwarding(true);
    if (r < 0) log_error("forwarding could not be switched on: %s", strerror(-r));
}

static void rebuild(struct core *c) {
    if (c->repair_failed && core_now(c) < c->repair_next) return;
    int r = reload_ruleset(c, &c->image, true, true);
    if (r < 0) {
        close_down(c);
        return;
    }
    open_up(c);
    if ((r = barrier_install(&c->image.policy)) < 0)
        log_error("the barrier could not be set: %s", strerror(-r));
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
