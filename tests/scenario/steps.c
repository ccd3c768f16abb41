/* steps.c: what each step but `expect` does. */
#include "tests/scenario/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *step_option(const struct step *s, const char *key) {
    size_t length = strlen(key);
    for (unsigned i = 0; i < s->option_count; i++)
        if (strncmp(s->options[i], key, length) == 0 && s->options[i][length] == '=')
            return s->options[i] + length + 1;
    return NULL;
}

long step_number(const struct step *s, const char *key, long otherwise) {
    const char *value = step_option(s, key);
    return value ? strtol(value, NULL, 0) : otherwise;
}

static bool has_word(const struct step *s, const char *word) {
    for (unsigned i = 1; i < s->word_count; i++)
        if (strcmp(s->words[i], word) == 0)
            return true;
    return false;
}

static bool need(struct world *w, const struct step *s, unsigned words) {
    if (s->word_count > words)
        return true;
    world_fail(w, "%s: %u words are needed", s->words[0], words);
    return false;
}

static int reason_number(const char *tag) {
    for (uint32_t r = REASON_BASE + 1; r < REASON_END; r++)
        if (strcmp(reason_tag(r), tag) == 0)
            return (int)r;
    return -1;
}

/* ---- clients ---------------------------------------------------------------------------------- */

static void ask(struct world *w, const struct step *s, const char *label, const char *client,
                const char *name, const char *type) {
    struct flow_peer peer = {.port = (uint16_t)step_number(s, "port", 40000 + w->query_count),
                             .transport = has_word(s, "tcp") ? TRANSPORT_TCP : TRANSPORT_UDP,
                             .interface = 2};
    struct dns_query q = {
        .id = (uint16_t)step_number(s, "id", 1000 + w->query_count),
        .type = dns_type(type),
        .class = (uint16_t)step_number(s, "class", 1),
        .edns = has_word(s, "noedns") ? 0 : (uint16_t)step_number(s, "edns", 1232),
        .opcode = (unsigned)step_number(s, "opcode", 0),
        .version = (unsigned)step_number(s, "version", 0),
        .name = name};
    if (addr_parse(client, &peer.client) < 0 || q.type == 0) {
        world_fail(w, "bad client or type");
        return;
    }
    world_query(w, label, &peer, &q);
}

static void do_query(struct world *w, const struct step *s) {
    if (need(w, s, 4))
        ask(w, s, s->words[1], s->words[2], s->words[3], s->words[4]);
}

/* flood LABEL COUNT CLIENT NAME TYPE: '#' in NAME is the number of the query. */
static void do_flood(struct world *w, const struct step *s) {
    if (!need(w, s, 5))
        return;
    long count = strtol(s->words[2], NULL, 10);
    for (long i = 0; i < count; i++) {
        char label[LABEL_MAX], name[512], *mark;
        snprintf(label, sizeof label, "%.20s.%ld", s->words[1], i);
        snprintf(name, sizeof name, "%.400s", s->words[4]);
        if ((mark = strchr(name, '#'))) {
            char rest[512];
            snprintf(rest, sizeof rest, "%s", mark + 1);
            snprintf(mark, sizeof name - (size_t)(mark - name), "%ld%s", i, rest);
        }
        ask(w, s, label, s->words[3], name, s->words[5]);
    }
}

/* ---- upstream --------------------------------------------------------------------------------- */

static struct ask *find_ask(struct world *w, const struct step *s) {
    struct name name;
    if (name_from_text(s->words[1], &name) < 0) {
        world_fail(w, "bad name");
        return NULL;
    }
    for (unsigned i = 0; i < w->ask_count; i++)
        if (!w->asks[i].over && w->asks[i].type == dns_type(s->words[2]) &&
            name_equal(&w->asks[i].name, &name))
            return &w->asks[i];
    world_fail(w, "nobody asked upstream for %s %s", s->words[1], s->words[2]);
    return NULL;
}

/* A line "repeat N owner ttl A 5.5.5.#" stands for N records, # from 1. */
static int add_line(uint8_t *bytes, int size, char *line) {
    long count = 1;
    int skip = 0;
    if (sscanf(line, "repeat %ld %n", &count, &skip) < 1)
        skip = 0;
    for (long i = 1; i <= count && size >= 0; i++) {
        char text[2048], *mark;
        snprintf(text, sizeof text, "%s", line + skip);
        if (skip > 0 && (mark = strchr(text, '#')))
            snprintf(mark, sizeof text - (size_t)(mark - text), "%ld", i);
        size = dns_add(bytes, size, text);
    }
    return size;
}

static void do_answer(struct world *w, const struct step *s) {
    static uint8_t bytes[65535 + 4096];
    if (!need(w, s, 3))
        return;
    int rcode = dns_rcode(s->words[3]);
    struct ask *a = find_ask(w, s);
    if (!a)
        return;
    int size = rcode < 0 ? -1 : dns_begin_answer(77, s->words[1], a->type, (unsigned)rcode, bytes);
    char *copy = strdup(s->block), *save = NULL;
    for (char *line = strtok_r(copy, "\n", &save); line && size >= 0;
         line = strtok_r(NULL, "\n", &save))
        size = add_line(bytes, size, line);
    free(copy);
    if (size < 0) {
        world_fail(w, "bad answer");
        return;
    }
    a->over = true;
    world_answer(w, a, bytes, (size_t)size);
}

static void do_fail(struct world *w, const struct step *s) {
    if (!need(w, s, 3))
        return;
    int reason = reason_number(s->words[3]);
    struct ask *a = find_ask(w, s);
    if (!a || reason < 0) {
        world_fail(w, "no such lookup or reason");
        return;
    }
    a->over = true;
    world_upstream_failed(w, a, (enum reason)reason);
}

/* ---- core, recorder, time --------------------------------------------------------------------- */

static void do_opened(struct world *w, const struct step *s) {
    if (!need(w, s, 1))
        return;
    int reason = strcmp(s->words[1], "ok") == 0 ? REASON_ALLOWED : reason_number(s->words[1]);
    if (reason < 0)
        world_fail(w, "no reason %s", s->words[1]);
    else if (world_opened(w, (enum reason)reason, (uint32_t)step_number(s, "lifetime", 0),
                          (uint64_t)step_number(s, "epoch", 0)) < 0)
        world_fail(w, "no OPEN waits for an answer");
}

static void do_reversed(struct world *w, const struct step *s) {
    struct name name;
    if (!need(w, s, 1))
        return;
    bool found = strcmp(s->words[1], "none") != 0;
    if (found && (!need(w, s, 2) || name_from_text(s->words[1], &name) < 0))
        world_fail(w, "reversed NAME TTL");
    else if (world_reversed(w, found ? &name : NULL,
                            found ? (uint32_t)strtoul(s->words[2], NULL, 10) : 0) < 0)
        world_fail(w, "no REVERSE waits for an answer");
}

static void do_state(struct world *w, const struct step *s) {
    world_state(w, (uint64_t)step_number(s, "epoch", (long)w->epoch), step_number(s, "log", 1) != 0,
                step_number(s, "ipv6", 1) != 0);
}

static void do_flush(struct world *w, const struct step *s) {
    (void)s;
    world_state(w, w->epoch + 1, true, true);
}

static void do_advance(struct world *w, const struct step *s) {
    if (!need(w, s, 1))
        return;
    char *unit;
    unsigned long value = strtoul(s->words[1], &unit, 10);
    usec_t by = strcmp(unit, "us") == 0   ? value
                : strcmp(unit, "ms") == 0 ? value * USEC_PER_MSEC
                : strcmp(unit, "s") == 0  ? value * USEC_PER_SEC
                                          : 0;
    if (by == 0)
        world_fail(w, "advance: us, ms or s");
    else
        world_advance(w, by);
}

static void do_core(struct world *w, const struct step *s) {
    w->core_busy = has_word(s, "busy");
    w->auto_open = has_word(s, "auto");
    world_settle(w);
}

static void do_recorder(struct world *w, const struct step *s) {
    w->recorder_full = has_word(s, "full");
}

/* ---- policy ----------------------------------------------------------------------------------- */

static void do_file(struct world *w, const struct step *s) {
    if (need(w, s, 1) && world_write(w, s->words[1], s->block) < 0)
        world_fail(w, "cannot write %s", s->words[1]);
}

static void do_start(struct world *w, const struct step *s) {
    (void)s;
    if (world_start(w) < 0)
        world_fail(w, "the policy does not load");
}

static void do_reload(struct world *w, const struct step *s) {
    (void)s;
    if (world_reload(w) < 0)
        world_fail(w, "the policy does not load");
}

static void do_restart(struct world *w, const struct step *s) {
    (void)s;
    world_restart(w);
}

static const struct { const char *word; void (*run)(struct world *w, const struct step *s); } steps[] = {
    {"file", do_file},       {"start", do_start},       {"reload", do_reload},
    {"restart", do_restart}, {"query", do_query},       {"flood", do_flood},
    {"answer", do_answer},   {"fail", do_fail},         {"opened", do_opened},
    {"reversed", do_reversed}, {"state", do_state},     {"flush", do_flush},
    {"advance", do_advance}, {"core", do_core},         {"recorder", do_recorder},
    {"expect", step_expect}};

void step_run(struct world *w, const struct step *s) {
    bool early = strcmp(s->words[0], "file") == 0 || strcmp(s->words[0], "start") == 0;
    if (!w->flow && !early) {
        world_fail(w, "start comes first");
        return;
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (strcmp(steps[i].word, s->words[0]) == 0) {
            steps[i].run(w, s);
            return;
        }
    world_fail(w, "no step `%s`", s->words[0]);
}
