/* listing.c: `tidegate openings` and `tidegate why`: what is open now. */
#include <stdlib.h>
#include <string.h>

#include "gateway/base/addr.h"
#include "tools/tidegate/cli.h"

struct listing {
    bool json;
    const char *begin; /* of the JSON, before the first opening */
    unsigned long long count;
    struct table *table;
    json_t *end; /* the last answer */
};

static const char *member(const json_t *o, const char *key, char room[32]) {
    return show_value(json_object_get(o, key), room, 32);
}

static void listing_row(struct table *t, const json_t *o) {
    char rooms[8][32], where[64], left[32];
    const json_t *remaining = json_object_get(o, "remaining");
    snprintf(where, sizeof where, "%s/%s", member(o, "protocol", rooms[0]),
             member(o, "port", rooms[1]));
    const char *cells[] = {member(o, "client", rooms[2]),
                           member(o, "remote", rooms[3]),
                           where,
                           json_is_integer(remaining)
                               ? show_duration(json_integer_value(remaining), left)
                               : "static",
                           member(o, "name", rooms[4]),
                           member(o, "agent", rooms[5]),
                           member(o, "tool", rooms[6]),
                           member(o, "rule", rooms[7])};
    table_row(t, cells);
}

static void listing_take(void *ctx, json_t *answer) {
    struct listing *l = ctx;
    if (json_object_get(answer, "ok")) {
        l->end = json_incref(answer);
        return;
    }
    if (l->json) {
        char *text = json_dumps(answer, JSON_COMPACT | JSON_ENSURE_ASCII);
        printf("%s%s", l->count ? ",\n" : l->begin, text ? text : "null");
        free(text);
    } else {
        listing_row(l->table, answer);
    }
    l->count++;
}

/* Prints the openings as they come. Returns the exit status of a listing that worked as EXIT_OK,
 * whatever it found; of one that did not, the caller leaves the JSON unfinished: nobody must take it
 * for all there is. The caller frees l->end. */
static int listing_run(const struct options *o, json_t *request, struct listing *l) {
    static const char *const titles[] = {"client", "remote", "port",  "left",
                                         "name",   "agent",  "tool",  "rule"};
    char room[32];
    if (!l->json) l->table = table_new(titles, 8);
    int error = instance_ask(o, request, listing_take, l);
    if (!l->json) l->table = table_free(l->table);
    if (error < 0) instance_unreachable(o, error);
    if (error == 0 && json_is_true(json_object_get(l->end, "ok"))) {
        if (l->json && !l->count) fputs(l->begin, stdout);
        return EXIT_OK;
    }
    if (error == 0) {
        fputs("tidegate: ", stderr);
        show_clean(stderr, show_value(json_object_get(l->end, "error"), room, sizeof room));
        fputc('\n', stderr);
    }
    return EXIT_DENIED;
}

static int address_check(const char *option, const char *text) {
    struct addr a;
    if (!text || addr_parse(text, &a) == 0) return EXIT_OK;
    return usage_error("%s: \"%s\" is not an IP address", option, text);
}

int openings_main(const struct options *o) {
    if (address_check("--client", o->client) || address_check("--remote", o->remote))
        return EXIT_USAGE;
    struct listing l = {.json = o->json, .begin = "["};
    json_t *request = json_pack("{s:s}", "op", "openings");
    if (o->client) json_object_set_new(request, "client", json_string(o->client));
    if (o->remote) json_object_set_new(request, "remote", json_string(o->remote));
    int status = listing_run(o, request, &l);
    if (status == EXIT_OK && o->json) puts("]");
    else if (status == EXIT_OK && l.count == 0) puts("no openings");
    json_decref(l.end);
    return status;
}

int why_main(const struct options *o) {
    char rooms[2][32];
    if (!o->argument) return usage_error("why needs an address");
    if (address_check("why", o->argument)) return EXIT_USAGE;
    struct listing l = {.json = o->json, .begin = "{\"openings\":["};
    int status = listing_run(o, json_pack("{s:s, s:s}", "op", "why", "address", o->argument), &l);
    const char *agent = json_string_value(json_object_get(l.end, "agent"));
    if (status == EXIT_OK && o->json) {
        char *end = l.end ? json_dumps(l.end, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
        /* The members of the last answer join the object that began with the openings. */
        if (end) printf("],%s\n", end + 1);
        else puts("]}");
        free(end);
    } else if (status == EXIT_OK) {
        if (l.count) putchar('\n');
        show_clean(stdout, member(l.end, "address", rooms[0]));
        printf(" (%s): ", member(l.end, "range", rooms[1]));
        if (l.count) printf("%llu opening%s\n", l.count, l.count == 1 ? "" : "s");
        else puts("nothing is open to it; packets there are denied");
        if (agent) {
            fputs("it is an address of agent ", stdout);
            show_clean(stdout, agent);
            printf(": `tidegate openings --client %s` shows what it may reach\n", o->argument);
        }
    }
    json_decref(l.end);
    return status == EXIT_OK && l.count == 0 ? EXIT_DENIED : status;
}
