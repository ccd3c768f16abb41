/* core.c: the life of the privileged process. */
#include "gateway/core/core.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/log.h"
#include "gateway/core/barrier.h"
#include "gateway/core/selftest.h"
#include "gateway/core/sysctl.h"

#define EXPIRE_MAX 65536u /* claims dropped in one tick */

static int failed(const char *what, int error) {
    log_error("%s: %s", what, strerror(-error));
    return error;
}

/* ---- memory and sockets -------------------------------------------------------------------- */

static int open_memory(struct core *c) {
    uint8_t key[HASH_KEY_SIZE];
    random_bytes(key, sizeof key);
    c->names = names_new(key);
    if (!c->names) return -ENOMEM;
    /* Several names may lead to one address: more claims than elements. */
    c->ledger = ledger_new(2 * c->config.map_size, c->names, key, core_now(c));
    c->flows = flows_new(c->config.flows_max, c->names, key);
    c->marks = marks_new();
    c->open = open_group_new();
    c->keys = calloc(CORE_KEYS_MAX, sizeof *c->keys);
    return c->ledger && c->flows && c->marks && c->open && c->keys ? 0 : -ENOMEM;
}

static int open_kernel(struct core *c) {
    int r = elements_open(&c->elements);
    if (r < 0) return failed("netlink socket for openings", r);
    if ((r = conntrack_open(&c->conntrack)) < 0) return failed("connection tracker", r);
    if ((r = denied_open(&c->denied, c->config.clock)) < 0)
        return failed("log of denied packets (does another gateway run here?)", r);
    if ((r = uplink_open(&c->uplink)) < 0) return failed("notices of links and routes", r);
    if ((r = ruleset_open(&c->ruleset)) < 0) return failed("netlink socket for the ruleset", r);
    return 0;
}

static void open_channels(struct core *c) {
    const struct core_config *f = &c->config;
    c->supervisor.fd = f->supervisor;
    c->resolver.fd = f->resolver_channel;
    c->recorder.fd = f->recorder;
    c->control.fd = f->control;
}

/* Numbers for the keys of the policy: those of the file, fresh ones for the rest. */
static int open_marks(struct core *c) {
    const char *what = "";
    int r = marks_load(c->marks, c->config.state);
    if (r < 0 && r != -ENOENT)
        log_warn("the table of marks cannot be used (%s): openings and flows that the kernel "
                 "holds will be removed", strerror(-r));
    r = marks_assign(c->marks, &c->image.policy, &what);
    if (r == -ENOSPC) { /* numbers of keys long gone may be in the way; the kernel is asked later */
        marks_retain(c->marks, &c->image.policy);
        if (marks_save(c->marks, c->config.state) == 0)
            r = marks_assign(c->marks, &c->image.policy, &what);
    }
    if (r < 0) log_error("the policy has more %s than there are marks", what);
    return r;
}

int core_open(struct core *c, const struct core_config *config) {
    *c = (struct core){.config = *config, .image = {.fd = -1}, .log_ok = true};
    c->record = &c->image;
    c->started = clock_realtime(config->clock);
    random_bytes(&c->epoch, sizeof c->epoch); /* not that of the core before us */
    open_channels(c);
    if (sodium_init() < 0) return failed("libsodium", -ENOSYS);
    int r = core_image_open(&c->image, config->image);
    if (r < 0) return failed("the policy image cannot be used", r);
    if ((r = open_memory(c)) < 0) return failed("memory", r);
    if ((r = open_marks(c)) < 0) return r;
    return open_kernel(c);
}

void core_close(struct core *c) {
    c->flows = flows_free(c->flows);
    c->ledger = ledger_free(c->ledger);
    c->names = names_free(c->names);
    c->marks = marks_free(c->marks);
    c->open = open_group_free(c->open);
    free(c->keys);
    c->keys = NULL;
    c->elements = elements_close(c->elements);
    c->conntrack = conntrack_close(c->conntrack);
    c->denied = denied_close(c->denied);
    c->uplink = uplink_close(c->uplink);
    ruleset_close(&c->ruleset);
    core_image_close(&c->image);
}

/* ---- start --------------------------------------------------------------------------------- */

static int self_test(struct core *c) {
    struct selftest_result result = {0};
    if (c->config.tun < 0) return 0;
    int r = selftest_run(c->config.tun, c->elements, c->conntrack, c->config.clock, &result);
    if (r == 0) {
        record_event(c, EVENT_SELF_TEST, 0, 0, UINT32_MAX);
        return 0;
    }
    log_error("self-test failed for IPv%d: %s (%s); forwarding stays off", result.family,
              selftest_fault_text(result.fault), strerror(-r));
    return r;
}

/* In this order: nothing is forwarded before ruleset and barrier stand, and nothing that an earlier
 * core left is in the maps unless the policy covers it. */
static int start_kernel(struct core *c) {
    const char *name = NULL;
    share_second(c);
    int r = sysctl_prepare(&c->image.policy, &name);
    if (r < 0) {
        log_error("kernel switch %s could not be set: %s", name ? name : "", strerror(-r));
        return r;
    }
    if ((r = reload_ruleset(c, &c->image, false, true)) < 0) return r;
    if ((r = barrier_install(&c->image.policy)) < 0) return failed("barrier", r);
    if ((r = reconcile_adopt(c)) < 0) return failed("openings left in the kernel", r);
    marks_settle(c->marks);
    marks_retain(c->marks, &c->image.policy);
    if ((r = marks_save(c->marks, c->config.state)) < 0)
        log_warn("marks could not be saved: %s; openings will not outlive a restart of core",
                 strerror(-r));
    if ((r = self_test(c)) < 0) return r;
    if ((r = sysctl_forwarding(true)) < 0) return failed("forwarding", r);
    return 0;
}

static void tell_if_absent(const char *interface) {
    char name[POLICY_IFNAME_MAX + 32], value[SYSCTL_VALUE_MAX];
    if (!interface[0]) return;
    snprintf(name, sizeof name, "ipv4/conf/%s/forwarding", interface);
    if (sysctl_get(name, value) == -ENOENT)
        log_warn("there is no interface %s: nothing passes by it until there is one (see ip link)",
                 interface);
}

void core_tell_absent(const struct core *c) {
    const struct policy_gateway *g = core_gateway(c);
    for (uint32_t i = 0; i < g->agent_interfaces; i++) tell_if_absent(g->agents[i].interface);
    tell_if_absent(g->uplink);
    tell_if_absent(g->management);
}

int core_start(struct core *c) {
    int r = start_kernel(c);
    if (r < 0) {
        if (sysctl_forwarding(false) < 0) log_error("forwarding could not be switched off");
        return r;
    }
    c->second = core_now(c);
    c->ready = true;
    core_tell_absent(c);
    core_uplink(c);
    core_owe(c, OWE_STATE);
    struct msg_ready *m = proto_begin(&c->out, PROTO_READY, 0);
    m->policy = c->image.id;
    return core_send(c, &c->supervisor);
}

/* ---- time ---------------------------------------------------------------------------------- */

static bool ipv6_is_up(struct core *c) {
    const struct policy_gateway *g = core_gateway(c);
    if (g->ipv6 != IPV6_AUTO) return g->ipv6 == IPV6_YES;
    int r = uplink_ipv6(c->uplink, g->uplink);
    return r < 0 ? c->ipv6_up : r > 0;
}

void core_uplink(struct core *c) {
    const char *name = NULL;
    int changed = uplink_drain(c->uplink);
    if (changed < 0) log_error("notices of links and routes: %s", strerror(-changed));
    /* An interface that has appeared has switches of its own. */
    if (changed > 0 && sysctl_prepare(&c->image.policy, &name) < 0)
        log_warn("kernel switch %s could not be set", name ? name : "");
    bool up = ipv6_is_up(c);
    if (up == c->ipv6_up) return;
    c->ipv6_up = up;
    log_note("the uplink has %sIPv6", up ? "" : "no ");
    core_owe(c, OWE_STATE);
}

static void guard_barrier(struct core *c) {
    if (barrier_verify(&c->image.policy) <= 0) return;
    int r = barrier_install(&c->image.policy);
    if (r < 0) {
        log_error("the barrier was removed by another hand and could not be set: %s", strerror(-r));
        return;
    }
    if (r == 0) return;
    log_warn("the barrier was removed by another hand and set again: %d rules", r);
    c->counts.repairs++;
    record_event(c, EVENT_REPAIRED, 0, 0, UINT32_MAX);
}

void core_tick(struct core *c) {
    uint32_t ended = 0;
    usec_t now = core_now(c);
    repair_check(c);
    ledger_expire(c->ledger, now, EXPIRE_MAX, &ended);
    c->counts.openings_expired += ended;
    core_pay(c);
    reload_resume(c);
    reconcile_tick(c, now);
    if (now - c->second < USEC_PER_SEC) return;
    c->second = now;
    guard_barrier(c);
    record_second(c);
    share_second(c);
}
