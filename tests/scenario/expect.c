/* expect.c: what `expect` compares. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenario/steps.h"

void name_show(const struct name *n, char text[NAME_TEXT_MAX]) {
    if (name_to_text(n, text, NAME_TEXT_MAX) < 0)
        snprintf(text, NAME_TEXT_MAX, "?");
}

static void compare_text(struct world *w, const char *what, const char *want, const char *got) {
    if (want && strcmp(want, got) != 0)
        world_fail(w, "%s is \"%s\", expected \"%s\"", what, got, want);
}

static void compare_number(struct world *w, const char *what, const char *want, long got) {
    char *end;
    if (!want)
        return;
    long low = strcmp(want, "none") == 0 ? -1 : strtol(want, &end, 10), high = low;
    const char *dots = strstr(want, "..");
    if (dots)
        high = strtol(dots + 2, NULL, 10);
    if (got < low || got > high)
        world_fail(w, "%s is %ld, expected %s", what, got, want);
}

static void addrs_show(const struct addr *addrs, unsigned count, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < count && used < size; i++) {
        char one[ADDR_TEXT_MAX];
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? "," : "",
                                 addr_format(&addrs[i], one));
    }
    if (count == 0)
        snprintf(text, size, "none");
}

/* ---- upstream and core ------------------------------------------------------------------------ */

/* The oldest one not seen yet. */
static void expect_ask(struct world *w, const struct step *s) {
    char name[NAME_TEXT_MAX];
    for (unsigned i = 0; i < w->ask_count; i++) {
        struct ask *a = &w->asks[i];
        if (a->seen)
            continue;
        a->seen = true;
        name_show(&a->name, name);
        if (strcmp(name, s->words[2]) != 0 || a->type != dns_type(s->words[3]))
            world_fail(w, "upstream was asked for %s type %u", name, a->type);
        return;
    }
    world_fail(w, "nothing was asked upstream");
}

static void expect_cancel(struct world *w, const struct step *s) {
    char name[NAME_TEXT_MAX];
    for (unsigned i = 0; i < w->ask_count; i++) {
        struct ask *a = &w->asks[i];
        if (!a->cancelled || a->seen_cancel)
            continue;
        a->seen_cancel = true;
        name_show(&a->name, name);
        if (strcmp(name, s->words[2]) != 0 || a->type != dns_type(s->words[3]))
            world_fail(w, "cancelled was %s type %u", name, a->type);
        return;
    }
    world_fail(w, "nothing was cancelled");
}

static void expect_asks(struct world *w, const struct step *s) {
    long count = 0;
    for (unsigned i = 0; i < w->ask_count; i++) {
        count += !w->asks[i].seen;
        w->asks[i].seen = true;
    }
    compare_number(w, "number of upstream asks", s->words[2], count);
}

static void expect_cancels(struct world *w, const struct step *s) {
    long count = 0;
    for (unsigned i = 0; i < w->ask_count; i++) {
        count += w->asks[i].cancelled && !w->asks[i].seen_cancel;
        w->asks[i].seen_cancel = true;
    }
    compare_number(w, "number of asks cancelled", s->words[2], count);
}

static void expect_open(struct world *w, const struct step *s) {
    for (unsigned i = 0; i < w->open_count && i < OPENS_MAX; i++) {
        struct open *o = &w->opens[i];
        if (o->seen)
            continue;
        o->seen = true;
        char client[ADDR_TEXT_MAX], name[NAME_TEXT_MAX], addrs[16384];
        struct addr list[PROTO_ADDRS_MAX];
        for (unsigned j = 0; j < o->count; j++)
            list[j] = o->addrs[j].remote;
        name_show(&o->body.name, name);
        addrs_show(list, o->count, addrs, sizeof addrs);
        compare_text(w, "client of OPEN", s->words[2], addr_format(&o->body.client, client));
        compare_text(w, "name of OPEN", s->words[3], name);
        if (s->word_count > 4)
            compare_text(w, "addresses of OPEN", s->words[4], addrs);
        compare_number(w, "number of addresses", step_option(s, "count"), o->count);
        compare_number(w, "lifetime", step_option(s, "lifetime"), o->addrs[0].lifetime);
        return;
    }
    world_fail(w, "core was not asked to open");
}

static void expect_opens(struct world *w, const struct step *s) {
    long count = 0;
    for (unsigned i = 0; i < w->open_count && i < OPENS_MAX; i++) {
        count += !w->opens[i].seen;
        w->opens[i].seen = true;
    }
    compare_number(w, "number of OPENs", s->words[2], count);
}

static void expect_reverse(struct world *w, const struct step *s) {
    char text[ADDR_TEXT_MAX];
    for (unsigned i = 0; i < w->back_count && i < 64; i++) {
        struct back *b = &w->backs[i];
        if (b->seen)
            continue;
        b->seen = true;
        compare_text(w, "client of REVERSE", s->words[2], addr_format(&b->body.client, text));
        compare_text(w, "address of REVERSE", s->words[3], addr_format(&b->body.remote, text));
        return;
    }
    world_fail(w, "core was not asked for a reverse name");
}

/* ---- replies and records ---------------------------------------------------------------------- */

static struct asked_query *query_named(struct world *w, const struct step *s) {
    struct asked_query *q = world_find(w, s->words[2]);
    if (!q)
        world_fail(w, "no query %s", s->words[2]);
    return q;
}

static void compare_reply(struct world *w, const struct step *s, const struct dns_reply *r) {
    char addrs[16384];
    addrs_show(r->addrs, r->addr_count, addrs, sizeof addrs);
    compare_text(w, "rcode", s->words[3], dns_rcode_name(r->rcode));
    compare_text(w, "addresses", step_option(s, "addrs"), addrs);
    compare_text(w, "chain", step_option(s, "chain"), r->chain);
    compare_text(w, "other records", step_option(s, "others"), r->others);
    compare_number(w, "number of addresses", step_option(s, "count"), r->addr_count);
    compare_number(w, "least TTL", step_option(s, "ttl"), r->answer_count ? (long)r->ttl_min : -1);
    compare_number(w, "greatest TTL", step_option(s, "ttl"), r->answer_count ? (long)r->ttl_max : -1);
    compare_number(w, "TTL of the SOA", step_option(s, "soa"), r->soa ? (long)r->soa_ttl : -1);
    compare_number(w, "EDE", step_option(s, "ede"), r->ede);
    compare_number(w, "TC", step_option(s, "tc"), r->truncated);
    const char *text = step_option(s, "text");
    if (text && !strstr(r->ede_text, text))
        world_fail(w, "EXTRA-TEXT is \"%s\"", r->ede_text);
    if (!step_option(s, "addrs") && !step_option(s, "count") && r->addr_count > 0)
        world_fail(w, "addresses nobody expected: %s", addrs);
}

static void expect_reply(struct world *w, const struct step *s) {
    struct asked_query *q = query_named(w, s);
    struct dns_reply r;
    if (!q)
        return;
    if (q->replies == 0) {
        world_fail(w, "%s has no reply yet", q->label);
        return;
    }
    if (q->seen)
        world_fail(w, "%s was expected before", q->label);
    q->seen = true;
    if (dns_read_reply(q->reply_bytes, q->reply_size, &r) < 0)
        world_fail(w, "%s: malformed", q->label);
    else
        compare_reply(w, s, &r);
    compare_number(w, "size", step_option(s, "size"), (long)q->reply_size);
}

static void expect_silence(struct world *w, const struct step *s) {
    struct asked_query *q = query_named(w, s);
    if (q && q->replies > 0)
        world_fail(w, "%s has a reply", q->label);
}

/* expect replies PREFIX NOERROR=3 SERVFAIL=2 silent=1: over all queries of a flood. */
static void expect_replies(struct world *w, const struct step *s) {
    long counts[32] = {0}, silent = 0;
    size_t length = strlen(s->words[2]);
    for (unsigned i = 0; i < w->query_count; i++) {
        struct asked_query *q = &w->queries[i];
        struct dns_reply r;
        if (strncmp(q->label, s->words[2], length) != 0 || q->label[length] != '.' || q->seen)
            continue;
        if (q->replies == 0) {
            silent++;
            continue;
        }
        q->seen = true;
        if (dns_read_reply(q->reply_bytes, q->reply_size, &r) == 0 && r.rcode < 32)
            counts[r.rcode]++;
    }
    for (unsigned rcode = 0; rcode <= 16; rcode++) {
        const char *want = step_option(s, dns_rcode_name(rcode));
        if (want || counts[rcode] > 0)
            compare_number(w, dns_rcode_name(rcode), want ? want : "0", counts[rcode]);
    }
    compare_number(w, "unanswered", step_option(s, "silent") ? step_option(s, "silent") : "0",
                   silent);
}

static void expect_record(struct world *w, const struct step *s) {
    static const char *const from[] = {"none", "cache", "upstream"};
    struct asked_query *q = query_named(w, s);
    if (!q)
        return;
    if (q->replies == 0) {
        world_fail(w, "%s has no record yet", q->label);
        return;
    }
    const struct msg_query *r = &q->record;
    const char *rule = r->deny != POLICY_NONE       ? "deny"
                       : r->endpoint != POLICY_NONE ? "endpoint"
                                                    : "none";
    compare_text(w, "reason", s->words[3], reason_tag(r->reason));
    compare_text(w, "chain of the record", step_option(s, "chain"), q->chain);
    compare_text(w, "from", step_option(s, "from"), from[r->from]);
    compare_text(w, "rule", step_option(s, "rule"), rule);
    compare_number(w, "addresses of the record", step_option(s, "addrs"), q->record_addrs);
    compare_number(w, "opened", step_option(s, "opened"), r->opened);
    compare_number(w, "opened seconds", step_option(s, "seconds"), r->opened_seconds);
}

static void expect_stats(struct world *w, const struct step *s) {
    struct msg_stats m = {0};
    flow_stats(w->flow, &m);
#define X(field) compare_number(w, #field, step_option(s, #field), (long)m.field);
    STATS_TABLE(X)
#undef X
}

void expect_nothing(struct world *w) {
    char name[NAME_TEXT_MAX];
    for (unsigned i = 0; i < w->ask_count; i++) {
        name_show(&w->asks[i].name, name);
        if (!w->asks[i].seen)
            world_fail(w, "upstream was asked for %s type %u, unexpectedly", name, w->asks[i].type);
        if (w->asks[i].cancelled && !w->asks[i].seen_cancel)
            world_fail(w, "%s type %u was cancelled, unexpectedly", name, w->asks[i].type);
    }
    for (unsigned i = 0; i < w->open_count && i < OPENS_MAX; i++) {
        name_show(&w->opens[i].body.name, name);
        if (!w->opens[i].seen)
            world_fail(w, "core was asked to open %s, unexpectedly", name);
    }
    for (unsigned i = 0; i < w->back_count && i < 64; i++)
        if (!w->backs[i].seen)
            world_fail(w, "core was asked for a reverse name, unexpectedly");
    for (unsigned i = 0; i < w->query_count; i++)
        if (w->queries[i].replies > 0 && !w->queries[i].seen)
            world_fail(w, "%s was answered, unexpectedly", w->queries[i].label);
}

static void do_nothing(struct world *w, const struct step *s) {
    (void)s;
    expect_nothing(w);
}

static const struct {
    const char *word;
    unsigned words; /* after it */
    void (*run)(struct world *w, const struct step *s);
} kinds[] = {{"ask", 2, expect_ask},         {"asks", 1, expect_asks},
             {"cancel", 2, expect_cancel},   {"cancels", 1, expect_cancels},
             {"open", 2, expect_open},
             {"opens", 1, expect_opens},     {"reverse", 2, expect_reverse},
             {"reply", 2, expect_reply},     {"replies", 1, expect_replies},
             {"silence", 1, expect_silence}, {"record", 2, expect_record},
             {"stats", 0, expect_stats},     {"nothing", 0, do_nothing}};

void step_expect(struct world *w, const struct step *s) {
    for (size_t i = 0; s->word_count > 1 && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].word, s->words[1]) != 0)
            continue;
        if (s->word_count < 2 + kinds[i].words)
            world_fail(w, "expect %s: too few words", s->words[1]);
        else
            kinds[i].run(w, s);
        return;
    }
    world_fail(w, "expect what?");
}
