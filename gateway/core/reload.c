/* reload.c: another policy comes into force.
 *
 * What can be refused comes first: the image, numbers for its keys, the ruleset. From the moment
 * the kernel has the new ruleset the new policy is in force, and the rest only follows: openings
 * and flows that it does not cover are taken away (and no others), then everybody is told.
 */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/core/barrier.h"
#include "gateway/core/core.h"
#include "gateway/core/selftest.h"
#include "gateway/core/sysctl.h"

struct loaded {
    uint64_t id, openings_revoked, flows_revoked;
    uint32_t ok, faults;
    int report; /* -1: none */
};

/* ---- the ruleset --------------------------------------------------------------------------- */

struct static_marks { const struct core *core; const struct policy *policy; };

static uint32_t static_mark(void *ctx, uint32_t index) {
    const struct static_marks *s = ctx;
    const struct policy_static *e = policy_static(s->policy, index);
    return marks_of(s->core->marks, s->policy, e->agent, e->endpoint);
}

/* The text says all that a load would set, so equal texts mean that there is nothing to load. */
static int text_sum(const struct ruleset_config *config, uint8_t sum[32]) {
    size_t size = ruleset_text_max(config);
    void *bytes = malloc(size);
    if (!bytes) return -ENOMEM;
    struct buf text = buf_over(bytes, size);
    int r = ruleset_text(config, false, &text);
    if (r == 0) crypto_generichash(sum, 32, text.data, text.used, NULL, 0);
    free(bytes);
    return r;
}

int reload_ruleset(struct core *c, const struct core_image *image, bool rebuild, bool always) {
    struct static_marks marks = {.core = c, .policy = &image->policy};
    const struct ruleset_config config = {.policy = &image->policy, .static_mark = static_mark,
                                          .ctx = &marks, .resolver = c->config.resolver,
                                          .map_size = c->config.map_size};
    char error[RULESET_ERROR_MAX] = "";
    uint8_t sum[32];
    int r = text_sum(&config, sum);
    if (r == 0 && !always && memcmp(sum, c->ruleset_sum, sizeof sum) == 0) return 0;
    if (r == 0) r = ruleset_load(&c->ruleset, &config, rebuild, error);
    if (r < 0) {
        log_error("the ruleset could not be loaded: %s: %s", strerror(-r), error);
        return r;
    }
    memcpy(c->ruleset_sum, sum, sizeof sum);
    repair_accept(c, c->ruleset.generation);
    return rebuild ? 1 : r;
}

/* ---- taking back --------------------------------------------------------------------------- */

/* The mark the kernel shows for the opening of the claim. */
static uint32_t mark_shown(const struct core *c, const struct ledger_claim *claim) {
    struct ledger_claim shown;
    return ledger_shown(c->ledger, &claim->key, NULL, &shown) ? shown.mark : 0;
}

/* Takes claims that the policy no longer covers out of the ledger, then lets the kernel follow: an
 * opening on which another name has a claim stays. */
static uint64_t revoke_openings(struct core *c) {
    uint64_t cursor = 0, revoked = 0;
    struct ledger_claim claim;
    for (bool more = true; more;) {
        uint32_t count = 0, budget = UINT32_MAX;
        while (count < CORE_KEYS_MAX && (more = ledger_next(c->ledger, &cursor, &budget, &claim))) {
            if (grant_stands(&c->image.policy, c->marks, claim.mark, &claim.key, claim.name))
                continue;
            c->keys[count++] = (struct core_key){claim.key, mark_shown(c, &claim)};
            ledger_remove(c->ledger, &claim.key, claim.name);
        }
        sync_begin(c, false);
        for (uint32_t i = 0; i < count; i++) sync_key(c, &c->keys[i].key, c->keys[i].was);
        sync_end(c);
        revoked += count;
    }
    return revoked;
}

static bool flow_falls(void *ctx, const struct conntrack_flow *told) {
    struct core *c = ctx;
    if (told->mark == 0 || told->mark == SELFTEST_MARK) return false;
    struct flow flow = flow_of(told), known;
    struct ledger_claim claim;
    if (flows_find(c->flows, &flow, &known)) flow.name = known.name;
    else if (ledger_shown(c->ledger, &flow.key, NULL, &claim) && claim.mark == flow.mark)
        flow.name = claim.name;
    if (grant_stands(&c->image.policy, c->marks, flow.mark, &flow.key, flow.name)) return false;
    flows_revoke(c->flows, &flow);
    return true;
}

/* After the openings, so that no new ones begin meanwhile. */
static uint64_t revoke_flows(struct core *c) {
    int r = -EINTR;
    uint64_t revoked = 0;
    for (int i = 0; i < 5 && r == -EINTR; i++) {
        r = conntrack_delete_where(c->conntrack, 0, 0, flow_falls, c);
        if (r > 0) revoked += (uint64_t)r;
    }
    if (r < 0) log_error("flows that the new policy denies could not be ended: %s", strerror(-r));
    return revoked;
}

/* ---- coming into force --------------------------------------------------------------------- */

/* What may refuse the image. 0 or -errno, logged. */
static int prepare(struct core *c, const struct core_image *image) {
    const char *what = "";
    int r = marks_assign(c->marks, &image->policy, &what);
    if (r < 0) {
        log_error("the policy is refused: it has more new %s than there are free marks", what);
        return r;
    }
    r = barrier_install(&image->policy);
    if (r < 0) log_error("the barrier could not be set: %s", strerror(-r));
    if (r >= 0) r = reload_ruleset(c, image, false, false);
    if (r == 1) c->rebuild = true; /* the maps are empty: repair.c fills them */
    return r < 0 ? r : 0;
}

static void save_marks(struct core *c) {
    int r = marks_save(c->marks, c->config.state);
    if (r < 0)
        log_warn("marks could not be saved: %s; openings will not outlive a restart of core",
                 strerror(-r));
}

static void apply(struct core *c, struct core_image *image, struct loaded *l) {
    struct core_image old = c->image;
    const char *name = NULL;
    c->image = *image;
    c->record = &old; /* flows that end now are told in the words of the policy that let them be */
    marks_settle(c->marks);
    l->openings_revoked = revoke_openings(c);
    l->flows_revoked = revoke_flows(c);
    record_all_flows(c);
    c->record = &c->image;
    marks_retain(c->marks, &c->image.policy);
    save_marks(c);
    int r = sysctl_prepare(&c->image.policy, &name);
    if (r < 0) log_warn("kernel switch %s could not be set: %s", name ? name : "", strerror(-r));
    core_tell_absent(c);
    c->counts.policy_loads++;
    c->counts.openings_revoked += l->openings_revoked;
    c->counts.flows_revoked += l->flows_revoked;
    if (c->rebuild) repair_check(c);
    core_uplink(c);
    c->epoch++;
    core_owe(c, OWE_STATE | OWE_POLICY);
    core_image_close(&old);
}

static int take_image(struct core *c, int fd, struct loaded *l) {
    struct core_image image;
    int r = core_image_open(&image, fd);
    if (r < 0) {
        log_error("the loader's image is refused: %s", strerror(-r));
        close(fd);
        return r;
    }
    r = prepare(c, &image);
    if (r < 0) {
        marks_retain(c->marks, &c->image.policy);
        core_image_close(&image);
        return r;
    }
    apply(c, &image, l);
    return 0;
}

/* ---- messages ------------------------------------------------------------------------------ */

static void ask_next(struct core *c) {
    if (c->load != 0 || c->ask_count == 0) return;
    c->load = ++c->load_last;
    struct msg_load *m = proto_begin(&c->out, PROTO_LOAD, 0);
    m->id = c->load;
    for (unsigned i = 0; i < c->ask_count; i++) c->asks[i].load = c->load;
    if (core_send(c, &c->supervisor) < 0) c->load = 0; /* tried again with the next tick */
}

void reload_resume(struct core *c) { ask_next(c); }

static void answer(struct core *c, uint64_t ask, const struct loaded *l) {
    struct msg_reloaded *m = proto_begin(&c->out, PROTO_RELOADED, 0);
    *m = (struct msg_reloaded){.id = ask, .policy = c->image.id, .ok = l->ok, .faults = l->faults,
                               .openings_revoked = l->openings_revoked,
                               .flows_revoked = l->flows_revoked};
    int report = l->report >= 0 ? l->report : memfd_create("report", MFD_CLOEXEC);
    c->out.fds[0] = report;
    c->out.fd_count = 1;
    core_send(c, &c->control);
    if (report != l->report) close(report);
}

void reload_ask(struct core *c) {
    const struct msg_ask *ask = proto_body(&c->in);
    if (c->ask_count == CORE_ASKS_MAX) {
        log_warn("a reload is refused: %u are waiting already", c->ask_count);
        answer(c, ask->id, &(struct loaded){.report = -1});
        return;
    }
    c->asks[c->ask_count].id = ask->id;
    c->asks[c->ask_count].uid = ask->uid;
    c->asks[c->ask_count++].load = 0;
    ask_next(c);
}

/* Those who asked before the loader began get the answer; the files may have changed since for
 * those who asked later, so they get a load of their own. */
static void answer_asks(struct core *c, const struct loaded *l) {
    unsigned kept = 0;
    for (unsigned i = 0; i < c->ask_count; i++) {
        if (c->asks[i].load == l->id && l->id != 0) answer(c, c->asks[i].id, l);
        else c->asks[kept++] = c->asks[i];
    }
    c->ask_count = kept;
    if (c->load == l->id) c->load = 0;
    ask_next(c);
}

static uint32_t asker(const struct core *c, uint64_t load) {
    for (unsigned i = 0; i < c->ask_count; i++)
        if (c->asks[i].load == load && load != 0) return c->asks[i].uid;
    return UINT32_MAX; /* a signal to the supervisor */
}

void reload_loaded(struct core *c) {
    const struct msg_loaded *told = proto_body(&c->in);
    struct loaded l = {.id = told->id, .faults = told->faults,
                       .report = c->in.fds[told->ok ? 1 : 0]};
    uint32_t uid = asker(c, l.id);
    if (told->ok) {
        l.ok = take_image(c, c->in.fds[0], &l) == 0;
        struct msg_commit *m = proto_begin(&c->out, PROTO_COMMIT, 0);
        m->id = l.id;
        m->taken = l.ok;
        core_send(c, &c->supervisor);
    }
    if (l.ok) {
        record_event(c, EVENT_POLICY, l.openings_revoked, l.flows_revoked, uid);
    } else {
        c->counts.policy_refused++;
        record_event(c, EVENT_POLICY_REFUSED, l.faults, 0, uid);
    }
    answer_asks(c, &l);
    close(l.report);
}
