/* reconcile.c: what the kernel holds against what the ledger says.
 *
 * At start the ledger is empty and the kernel is believed, as far as the policy covers what it
 * holds. Later the ledger is believed, since every change of ours was acknowledged: what differs
 * was done by another hand, or while replies were lost.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/core/core.h"
#include "gateway/core/selftest.h"

#define ROUNDS_MAX 512u
#define TRIES 10          /* dumps while somebody keeps changing the map */
#define SLACK (2 * USEC_PER_SEC) /* kernel and ledger may differ by that much */
#define EVERY (60 * USEC_PER_SEC)
#define EVERY_OPENINGS 65536u
#define SOON_OPENINGS 4096u

/* A dump takes the kernel time by the square of the size (elements.h): 16,384 elements 40 ms, 131,072
 * 2 s. Where maps are larger, elements are asked for one by one at run time; and a start removes them
 * all, rather than leave everybody without names for minutes. */
#define DUMP_MAX 16384u
#define ADOPT_MAX 131072u
#define STEP 2048u /* elements asked for in one tick */

struct comparing {
    struct core *core;
    bool adopt;
    usec_t now;
    uint32_t seen, adopted, strays_found;
    struct core_key *strays; /* CORE_KEYS_MAX, removed in one round */
    uint32_t stray_count;
};

/* ---- elements ------------------------------------------------------------------------------ */

static bool adopt(struct core *c, const struct element *e, usec_t now) {
    struct ledger_key key = sync_ledger_key(&e->key);
    if (e->remaining_ms == 0 || e->name.length == 0) return false;
    if (key.port == 0 || !addr_valid(&key.client) || !addr_valid(&key.remote)) return false;
    struct name_ref *name = names_get(c->names, &e->name);
    if (!name) return false;
    bool stands = grant_stands(&c->image.policy, c->marks, e->mark, &key, name) &&
                  ledger_put(c->ledger, &key, name, e->mark,
                             now + e->remaining_ms * USEC_PER_MSEC) == 0;
    names_drop(c->names, name);
    return stands;
}

/* Whether the kernel has what the ledger says, near enough. */
static bool matches(usec_t now, const struct element *e, const struct ledger_claim *claim) {
    usec_t end = now + e->remaining_ms * USEC_PER_MSEC;
    usec_t apart = end > claim->deadline ? end - claim->deadline : claim->deadline - end;
    return e->mark == claim->mark && e->remaining_ms > 0 && apart <= SLACK;
}

static int on_element(void *ctx, const struct element *e) {
    struct comparing *k = ctx;
    struct core *c = k->core;
    struct ledger_key key = sync_ledger_key(&e->key);
    struct ledger_claim claim;
    if (++k->seen > (k->adopt ? ADOPT_MAX : 2 * DUMP_MAX)) return -E2BIG;
    if (k->adopt && adopt(c, e, k->now)) {
        k->adopted++;
        return 0;
    }
    if (!k->adopt && ledger_shown(c->ledger, &key, NULL, &claim)) {
        if (matches(k->now, e, &claim)) ledger_see(c->ledger, &key, c->round);
        return 0; /* one that differs is set again as if it was missing */
    }
    /* One about to end by itself is no drift: the ledger rounds the other way. */
    if (!k->adopt && e->remaining_ms > 0 && e->remaining_ms * USEC_PER_MSEC <= SLACK) return 0;
    k->strays_found++;
    if (k->stray_count < CORE_KEYS_MAX)
        k->strays[k->stray_count++] = (struct core_key){key, e->mark};
    return 0;
}

/* Gives all elements of both maps to on_element(). 0 or -errno; -EINTR: some may be missing. */
static int dump(struct comparing *k) {
    static const int families[] = {4, 6};
    int r = 0;
    for (int tries = 0; tries < TRIES; tries++) {
        k->now = core_now(k->core);
        k->stray_count = k->strays_found = k->adopted = k->seen = 0;
        r = 0;
        for (unsigned i = 0; i < 2 && r >= 0; i++)
            r = elements_dump(k->core->elements, families[i], on_element, k);
        if (r != -EINTR) break;
    }
    return r < 0 ? r : 0;
}

static int key_compare(const void *a, const void *b) {
    const struct ledger_key *x = a, *y = b; /* each the beginning of a core_key */
    int r = addr_compare(&x->client, &y->client);
    if (r == 0) r = addr_compare(&x->remote, &y->remote);
    if (r == 0) r = (int)x->port - (int)y->port;
    return r == 0 ? (int)x->protocol - (int)y->protocol : r;
}

static bool flow_of_stray(void *ctx, const struct conntrack_flow *told) {
    struct comparing *k = ctx;
    if (told->mark == 0 || told->mark == SELFTEST_MARK) return false;
    struct flow flow = flow_of(told);
    if (!bsearch(&flow.key, k->strays, k->stray_count, sizeof *k->strays, key_compare))
        return false;
    flows_revoke(k->core->flows, &flow);
    return true;
}

/* Elements that nobody owns, then the flows that came in by them. */
static void remove_strays(struct comparing *k) {
    struct core *c = k->core;
    if (k->stray_count == 0) return;
    qsort(k->strays, k->stray_count, sizeof *k->strays, key_compare);
    sync_begin(c, false);
    for (uint32_t i = 0; i < k->stray_count; i++)
        sync_key(c, &k->strays[i].key, k->strays[i].was);
    sync_end(c);
    int r = conntrack_delete_where(c->conntrack, 0, 0, flow_of_stray, k);
    if (r < 0 && r != -EINTR) log_error("flows of removed openings: %s", strerror(-r));
}

/* Sets again what the kernel lacks or has otherwise. How many. */
static uint64_t restore_missing(struct core *c) {
    struct ledger_claim claim, first;
    uint64_t cursor = 0, restored = 0;
    uint32_t budget = UINT32_MAX;
    usec_t end = core_now(c) + SLACK;
    sync_begin(c, false);
    while (ledger_next(c->ledger, &cursor, &budget, &claim)) {
        ledger_shown(c->ledger, &claim.key, NULL, &first);
        if (first.name != claim.name || claim.deadline <= end) continue;
        if (ledger_seen(c->ledger, &claim.key, c->round)) continue;
        sync_key(c, &claim.key, 0);
        restored++;
    }
    sync_end(c);
    return restored;
}

/* Dumps, removes strays, and again while there were more than one round takes. 0 or -errno. */
static int compare_elements(struct comparing *k, uint64_t *ret_strays, uint32_t *ret_adopted) {
    *ret_strays = *ret_adopted = 0;
    for (unsigned round = 0; round < ROUNDS_MAX; round++) {
        /* 0 is what new claims have. */
        k->core->round = (uint8_t)(k->core->round == 255 ? 1 : k->core->round + 1);
        int r = dump(k);
        if (r < 0) return r;
        if (round == 0) *ret_adopted = k->adopted;
        *ret_strays += k->stray_count;
        remove_strays(k);
        if (k->strays_found <= k->stray_count) return 0;
        if (k->core->rebuild) return -EIO;
    }
    return -EIO;
}

/* Comparing takes time by the number of openings, so a host on which other tables change all the
 * time, or with very many openings, gets it less often. */
static bool reconcile_wanted(const struct core *c, usec_t now) {
    uint32_t openings = ledger_openings(c->ledger, 0);
    if (c->compare) return now >= c->compared + CORE_TICK * (openings / SOON_OPENINGS);
    return now >= c->compared + EVERY * (1 + openings / EVERY_OPENINGS);
}

static void tell_drift(struct core *c, uint64_t strays, uint64_t restored) {
    if (strays + restored == 0) return;
    c->counts.drift += strays + restored;
    log_warn("%llu openings were not ours and removed, %llu set again",
             (unsigned long long)strays, (unsigned long long)restored);
    record_event(c, EVENT_DRIFT, strays + restored, 0, UINT32_MAX);
}

/* Both maps as a whole. Whether it could. */
static bool compare_whole(struct core *c) {
    uint64_t strays = 0, restored = 0;
    uint32_t adopted;
    struct comparing k = {.core = c, .strays = c->keys};
    int r = compare_elements(&k, &strays, &adopted);
    /* Gone, or filled by another hand beyond what can be compared. */
    if (r == -ENOENT || r == -E2BIG) c->rebuild = true;
    else if (r < 0 && r != -EINTR)
        log_error("openings could not be compared with the kernel's: %s", strerror(-r));
    if (r == 0) restored = restore_missing(c);
    tell_drift(c, strays, restored);
    return r == 0;
}

/* The next part of the ledger, element by element. Only another hand adds elements that the ledger
 * lacks, and the generation tells of that, so strays need not be looked for here. */
static void compare_part(struct core *c) {
    struct ledger_claim claim, first;
    uint32_t budget = STEP, wrong = 0;
    usec_t now = core_now(c);
    while (ledger_next(c->ledger, &c->compare_cursor, &budget, &claim)) {
        struct element_key key = sync_element_key(&claim.key);
        struct element e;
        ledger_shown(c->ledger, &claim.key, NULL, &first);
        if (first.name != claim.name || claim.deadline <= now + SLACK) continue;
        int r = elements_get(c->elements, &key, &e);
        if (r < 0) return; /* later: nothing is known */
        if (r == 0 || !matches(now, &e, &claim)) c->keys[wrong++] = (struct core_key){claim.key, 0};
    }
    if (wrong > 0) {
        sync_begin(c, false);
        for (uint32_t i = 0; i < wrong; i++) sync_key(c, &c->keys[i].key, 0);
        sync_end(c);
    }
    tell_drift(c, 0, wrong);
}

void reconcile_tick(struct core *c, usec_t now) {
    if (c->compare_cursor != 0) compare_part(c);
    else if (reconcile_wanted(c, now)) {
        bool soon = c->compare;
        c->compare = false;
        c->compared = now;
        if (ledger_openings(c->ledger, 0) <= DUMP_MAX) compare_whole(c);
        else if (soon) c->rebuild = true; /* quicker than a dump, and as good */
        else compare_part(c);
    }
    if (c->rebuild) repair_check(c);
}

/* ---- flows --------------------------------------------------------------------------------- */

/* Takes over a flow that the policy covers; true for one that has to go. */
static bool flow_is_stranger(void *ctx, const struct conntrack_flow *told) {
    struct core *c = ctx;
    struct ledger_claim claim;
    if (told->mark == 0) return false;
    struct flow flow = flow_of(told);
    if (ledger_shown(c->ledger, &flow.key, NULL, &claim) && claim.mark == flow.mark)
        flow.name = claim.name;
    if (!grant_stands(&c->image.policy, c->marks, flow.mark, &flow.key, flow.name)) return true;
    flows_add(c->flows, &flow);
    return false;
}

/* Flows without a mark from agents began before the ruleset was there. */
static int remove_unmarked(struct core *c) {
    const struct policy_gateway *g = core_gateway(c);
    for (uint32_t i = 0; i < g->agent_interfaces; i++) {
        for (uint32_t k = 0; k < g->agents[i].subnet_count; k++) {
            const struct prefix *subnet =
                policy_subnet(&c->image.policy, g->agents[i].subnet_first + k);
            int r = conntrack_delete_unknown(c->conntrack, subnet, 1, NULL, NULL);
            if (r < 0) return r;
        }
    }
    return 0;
}

/* More openings than can be taken over in a moment. The flows stay, the openings are asked for anew. */
static int start_empty(struct core *c, uint64_t *ret_strays, uint32_t *ret_adopted) {
    struct ledger_claim claim;
    uint32_t budget = UINT32_MAX;
    for (uint64_t cursor = 0; ledger_next(c->ledger, &cursor, &budget, &claim);)
        ledger_remove(c->ledger, &claim.key, claim.name);
    log_warn("the kernel holds more than %u openings: they are removed", ADOPT_MAX);
    *ret_strays = ADOPT_MAX + 1;
    *ret_adopted = 0;
    int r = reload_ruleset(c, &c->image, true, true);
    return r < 0 ? r : 0;
}

int reconcile_adopt(struct core *c) {
    uint64_t strays;
    uint32_t adopted;
    int r = -EINTR;
    struct comparing k = {.core = c, .strays = c->keys, .adopt = true};
    int result = compare_elements(&k, &strays, &adopted);
    if (result == -E2BIG) result = start_empty(c, &strays, &adopted);
    if (result < 0) return result;
    for (int tries = 0; tries < TRIES && r == -EINTR; tries++)
        r = conntrack_delete_where(c->conntrack, 0, 0, flow_is_stranger, c);
    if (r >= 0) r = remove_unmarked(c);
    if (r < 0) return r;
    share_restore(c);
    c->compared = core_now(c);
    log_note("took over %u openings and %u flows, removed %llu openings", adopted,
             flows_count(c->flows), (unsigned long long)strays);
    record_event(c, EVENT_START, adopted, strays, UINT32_MAX);
    return 0;
}

static int on_dumped(void *ctx, const struct conntrack_flow *told) {
    struct core *c = ctx;
    struct ledger_claim claim;
    if (told->mark == 0 || told->mark == SELFTEST_MARK) return 0;
    struct flow flow = flow_of(told);
    if (ledger_shown(c->ledger, &flow.key, NULL, &claim) && claim.mark == flow.mark)
        flow.name = claim.name;
    if (flows_add(c->flows, &flow) == 0) flows_see(c->flows, &flow);
    return 0;
}

void reconcile_flows(struct core *c) {
    int r = -EINTR;
    flows_round(c->flows);
    for (int tries = 0; tries < TRIES && r == -EINTR; tries++)
        r = conntrack_dump(c->conntrack, 0, 0, on_dumped, c);
    if (r < 0) {
        log_error("the connection tracker could not be read: %s", strerror(-r));
        return;
    }
    uint32_t ended = flows_sweep(c->flows);
    share_restore(c);
    log_warn("flow events were lost; %u flows ended unrecorded", ended);
    record_event(c, EVENT_LOST_FLOWS, ended, 0, UINT32_MAX);
}
