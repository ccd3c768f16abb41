/* world.c: what surrounds the engine, and the promises it is held to. */
#include "tests/scenario/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/base/arena.h"

void world_fail(struct world *w, const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("%s:%d: %s\n", w->file, w->line, text);
    w->failed = true;
}

/* Reproducible, and different for each call. */
static void fake_random(void *ctx, void *bytes, size_t size) {
    struct world *w = ctx;
    for (size_t i = 0; i < size; i++) {
        w->randomness = w->randomness * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ((uint8_t *)bytes)[i] = (uint8_t)(w->randomness >> 33);
    }
}

static struct flow *new_flow(struct world *w) {
    struct flow_setup setup = flow_setup_default;
    setup.clock = clock_fake_of(&w->fake);
    setup.random = fake_random;
    setup.random_ctx = w;
    setup.pending = 256;
    setup.clients = 64;
    setup.cache_entries = 1000;
    setup.memos = 256;
    return flow_new(&setup, &w->policy);
}

int world_start(struct world *w) {
    if (world_compile(w, &w->policy, &w->image) < 0)
        return -1;
    w->flow = new_flow(w);
    return w->flow ? 0 : -1;
}

int world_reload(struct world *w) {
    struct policy next, old = w->policy;
    void *image, *old_image = w->image;
    if (world_compile(w, &next, &image) < 0)
        return -1;
    w->policy = next;
    w->image = image;
    flow_policy(w->flow, &w->policy);
    (void)old;
    free(old_image);
    world_settle(w);
    return 0;
}

void world_restart(struct world *w) {
    w->flow = flow_free(w->flow);
    for (unsigned i = 0; i < w->ask_count; i++)
        w->asks[i].over = true;
    w->flow = new_flow(w); /* what the predecessor asked core is in the channel still */
}

/* ---- what the engine wants -------------------------------------------------------------------- */

static void asked(struct world *w, const struct flow_action *a) {
    struct flow_asked asked = flow_asked(a);
    if (w->ask_count == ASKS_MAX) {
        world_fail(w, "too many upstream asks");
        return;
    }
    w->asks[w->ask_count++] =
        (struct ask){.id = asked.id, .name = *asked.name, .type = asked.type};
}

static void cancelled(struct world *w, const struct flow_action *a) {
    for (unsigned i = 0; i < w->ask_count; i++)
        if (w->asks[i].id == flow_asked(a).id)
            w->asks[i].cancelled = w->asks[i].over = true;
}

static void for_core(struct world *w, const struct flow_action *a, struct proto_message *m) {
    flow_core_message(w->flow, a, m);
    if (proto_check(m->bytes, m->size) < 0)
        world_fail(w, "a message to core that core would refuse");
    if (a->kind == FLOW_REVERSE) {
        w->backs[w->back_count++ % 64] = (struct back){.body = *(struct msg_reverse *)proto_body(m)};
        return;
    }
    struct open *o = &w->opens[w->open_count++ % OPENS_MAX];
    memset(o, 0, sizeof *o);
    o->body = *(struct msg_open *)proto_body(m);
    o->count = m->head.items;
    for (unsigned i = 0; i < o->count; i++)
        o->addrs[i] = *(struct msg_open_addr *)proto_item(m, i);
    if (o->body.policy != policy_id(&w->policy))
        world_fail(w, "OPEN under a policy that is not in force");
}

static usec_t open_until(const struct world *w, const struct addr *client, const struct addr *a) {
    usec_t until = 0;
    for (unsigned i = 0; i < w->kernel_count; i++)
        if (addr_equal(&w->kernel[i].client, client) && addr_equal(&w->kernel[i].remote, a) &&
            w->kernel[i].deadline > until)
            until = w->kernel[i].deadline;
    return until;
}

static void judge_addresses(struct world *w, const struct asked_query *q,
                            const struct dns_reply *r) {
    uint32_t grace = policy_gateway(&w->policy)->grace;
    for (unsigned i = 0; i < r->addr_count; i++) {
        char text[ADDR_TEXT_MAX];
        usec_t until = open_until(w, &q->peer.client, &r->addrs[i]);
        if (until <= w->fake.monotonic)
            world_fail(w, "%s: told %s, which is not open", q->label,
                       addr_format(&r->addrs[i], text));
        else if (w->fake.monotonic + (r->ttl_max + (usec_t)grace) * USEC_PER_SEC > until)
            world_fail(w, "%s: told TTL %u for %s, which is open for %.3f s only", q->label,
                       r->ttl_max, addr_format(&r->addrs[i], text),
                       (double)(until - w->fake.monotonic) / 1e6);
    }
}

static void judge(struct world *w, const struct asked_query *q, const uint8_t *bytes, int size) {
    struct dns_reply r;
    if (size < 0 || dns_read_reply(bytes, (size_t)size, &r) < 0) {
        world_fail(w, "%s: the reply is malformed", q->label);
        return;
    }
    if (r.id != (q->bytes[0] << 8 | q->bytes[1]))
        world_fail(w, "%s: the reply has another id", q->label);
    if (r.question_size > 0 && (12 + r.question_size > (size_t)q->size ||
                                memcmp(r.question, q->bytes + 12, r.question_size) != 0))
        world_fail(w, "%s: the reply has another question", q->label);
    judge_addresses(w, q, &r);
    bool may = policy_gateway(&w->policy)->when_full == WHEN_FULL_DROP;
    if (!q->recorded && !may && (r.rcode != 2 || r.answer_count > 0))
        world_fail(w, "%s: answered without a record", q->label);
}

static void take_record(struct world *w, struct asked_query *q, struct proto_message *m) {
    q->record = *(struct msg_query *)proto_body(m);
    q->chain[0] = '\0';
    q->record_addrs = 0;
    if (proto_check(m->bytes, m->size) < 0)
        world_fail(w, "%s: a record that the recorder would refuse", q->label);
    for (unsigned i = 0; i < m->head.items; i++) {
        const struct msg_query_item *item = proto_item(m, i);
        if (item->kind == 1) {
            q->record_addrs++;
            continue;
        }
        char text[NAME_TEXT_MAX];
        name_to_text(&item->name, text, sizeof text);
        size_t used = strlen(q->chain);
        snprintf(q->chain + used, sizeof q->chain - used, "%s%s", used ? "," : "", text);
    }
}

static void released(struct world *w, const struct flow_action *a, struct proto_message *m) {
    static uint8_t out[65535];
    const struct flow_peer *to = flow_reply_to(a);
    struct asked_query *q = &w->queries[to->via];
    flow_record(w->flow, a, m);
    q->recorded = !w->recorder_full;
    take_record(w, q, m);
    int size = flow_reply(w->flow, a, q->recorded, out, sizeof out);
    if (++q->replies > 1)
        world_fail(w, "%s: a second reply", q->label);
    judge(w, q, out, size);
    free(q->reply_bytes);
    q->reply_size = size > 0 ? (size_t)size : 0;
    q->reply_bytes = malloc(q->reply_size + 1);
    memcpy(q->reply_bytes, out, q->reply_size);
}

void world_settle(struct world *w) {
    static struct proto_message m;
    struct flow_action *a;
    while ((a = flow_next(w->flow))) {
        switch (a->kind) {
        case FLOW_ASK: asked(w, a); break;
        case FLOW_CANCEL: cancelled(w, a); break;
        case FLOW_OPEN:
        case FLOW_REVERSE:
            if (w->core_busy) {
                flow_core_busy(w->flow, a);
                continue;
            }
            for_core(w, a, &m);
            break;
        case FLOW_RELEASE: released(w, a, &m); break;
        }
        flow_done(w->flow, a);
    }
    if (!w->auto_open)
        return;
    w->auto_open = false;
    while (world_opened(w, REASON_ALLOWED, 0, 0) == 0)
        ;
    w->auto_open = true;
}

/* ---- what happens to it ----------------------------------------------------------------------- */

void world_query(struct world *w, const char *label, const struct flow_peer *peer,
                 const struct dns_query *query) {
    uint8_t bytes[65535];
    if (w->query_count == QUERIES_MAX) {
        world_fail(w, "too many queries");
        return;
    }
    struct asked_query *q = &w->queries[w->query_count];
    snprintf(q->label, sizeof q->label, "%s", label);
    q->peer = *peer;
    q->peer.via = w->query_count++;
    q->size = dns_write_query(query, bytes);
    if (q->size < 0) {
        world_fail(w, "bad query");
        return;
    }
    q->bytes = malloc((size_t)q->size);
    memcpy(q->bytes, bytes, (size_t)q->size);
    flow_query(w->flow, &q->peer, q->bytes, (size_t)q->size);
    world_settle(w);
}

struct asked_query *world_find(struct world *w, const char *label) {
    for (unsigned i = w->query_count; i > 0; i--)
        if (strcmp(w->queries[i - 1].label, label) == 0)
            return &w->queries[i - 1];
    return NULL;
}

void world_answer(struct world *w, const struct ask *a, const uint8_t *bytes, size_t size) {
    struct arena *arena = arena_new(4u << 20);
    struct wire_answer answer;
    const struct addr server = addr_from4((const uint8_t[4]){192, 0, 2, 53});
    int r = wire_answer_parse(bytes, size, (uint16_t)(bytes[0] << 8 | bytes[1]), &a->name, a->type,
                              arena, &answer);
    if (r < 0)
        world_fail(w, "the scenario's answer does not parse: %d", r);
    else
        flow_upstream_answer(w->flow, a->id, &answer, &server);
    arena_free(arena);
    world_settle(w);
}

void world_upstream_failed(struct world *w, const struct ask *a, enum reason reason) {
    flow_upstream_failed(w->flow, a->id, reason);
    world_settle(w);
}

static struct open *oldest_open(struct world *w) {
    for (unsigned i = 0; i < w->open_count && i < OPENS_MAX; i++)
        if (!w->opens[i].answered)
            return &w->opens[i];
    return NULL;
}

int world_opened(struct world *w, enum reason result, uint32_t lifetime, uint64_t epoch) {
    struct open *o = oldest_open(w);
    if (!o)
        return -1;
    o->answered = true;
    struct msg_opened m = {.id = o->body.id, .epoch = epoch ? epoch : w->epoch, .result = result};
    if (result == REASON_ALLOWED) {
        uint32_t seconds = lifetime ? lifetime : o->addrs[0].lifetime;
        m.deadline = w->fake.monotonic + seconds * USEC_PER_SEC;
        m.count = o->count;
        for (unsigned i = 0; i < o->count && w->kernel_count < KERNEL_MAX; i++)
            w->kernel[w->kernel_count++] = (struct kernel_entry){
                .client = o->body.client, .remote = o->addrs[i].remote, .deadline = m.deadline};
    }
    flow_opened(w->flow, &m);
    world_settle(w);
    return 0;
}

int world_reversed(struct world *w, const struct name *name, uint32_t ttl) {
    for (unsigned i = 0; i < w->back_count && i < 64; i++) {
        struct back *b = &w->backs[i];
        if (b->answered)
            continue;
        b->answered = true;
        struct msg_reversed m = {.id = b->body.id, .found = name != NULL, .ttl = ttl};
        if (name)
            m.name = *name;
        flow_reversed(w->flow, &m);
        world_settle(w);
        return 0;
    }
    return -1;
}

void world_state(struct world *w, uint64_t epoch, bool log_ok, bool ipv6_up) {
    struct msg_state m = {.epoch = epoch, .log_ok = log_ok, .ipv6_up = ipv6_up};
    if (epoch != w->epoch)
        w->kernel_count = 0;
    w->epoch = epoch;
    flow_state(w->flow, &m);
    world_settle(w);
}

void world_advance(struct world *w, usec_t by) {
    usec_t end = w->fake.monotonic + by;
    for (int steps = 0;; steps++) {
        usec_t next = flow_deadline(w->flow);
        if (steps > 100000) {
            world_fail(w, "the engine's deadline does not move");
            return;
        }
        if (next > end)
            break;
        if (next > w->fake.monotonic) {
            w->fake.realtime += next - w->fake.monotonic;
            w->fake.monotonic = next;
        }
        flow_tick(w->flow);
        world_settle(w);
    }
    w->fake.realtime += end - w->fake.monotonic;
    w->fake.monotonic = end;
    flow_tick(w->flow);
    world_settle(w);
}

/* ---- life ------------------------------------------------------------------------------------- */

struct world *world_new(const char *file) {
    struct world *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->file = file;
    w->fake = (struct clock_fake){.monotonic = 1000 * USEC_PER_SEC,
                                  .realtime = UINT64_C(1800000000) * USEC_PER_SEC};
    w->epoch = 1;
    w->randomness = 1;
    w->asks = calloc(ASKS_MAX, sizeof *w->asks);
    w->opens = calloc(OPENS_MAX, sizeof *w->opens);
    w->queries = calloc(QUERIES_MAX, sizeof *w->queries);
    w->kernel = calloc(KERNEL_MAX, sizeof *w->kernel);
    return w;
}

void world_free(struct world *w) {
    flow_free(w->flow);
    for (unsigned i = 0; i < w->query_count; i++) {
        free(w->queries[i].bytes);
        free(w->queries[i].reply_bytes);
    }
    free(w->image);
    free(w->asks);
    free(w->opens);
    free(w->queries);
    free(w->kernel);
    free(w);
}
