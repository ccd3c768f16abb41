/* explain.c: `tidegate explain`: what policy decides about (client, name, type), and why. */
#include <errno.h>
#include <idn2.h>
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/control/explain.h"
#include "gateway/control/rrtype.h"
#include "tools/tidegate/cli.h"

/* The name as it goes on the wire: U-labels become A-labels, as the loader does it. */
static int name_read(const char *text, struct name *ret) {
    char *ascii = NULL;
    bool plain = true;
    for (const char *c = text; *c; c++) plain = plain && (unsigned char)*c < 0x80;
    if (plain) return name_from_text(text, ret);
    if (idn2_to_ascii_8z(text, &ascii, IDN2_NONTRANSITIONAL | IDN2_USE_STD3_ASCII_RULES) != IDN2_OK)
        return -EINVAL;
    int error = name_from_text(ascii, ret);
    idn2_free(ascii);
    return error;
}

/* "xn--bcher-kva.example" also as "bücher.example", when the terminal can show it. */
static void show_name(const char *text) {
    char *unicode = NULL;
    fputs("name       ", stdout);
    show_clean(stdout, text);
    if (strstr(text, "xn--") && !strcmp(nl_langinfo(CODESET), "UTF-8") &&
        idn2_to_unicode_8z8z(text, &unicode, 0) == IDN2_OK && strcmp(text, unicode)) {
        fputs(" (", stdout);
        show_clean(stdout, unicode);
        fputs(")", stdout);
    }
    idn2_free(unicode);
    putchar('\n');
}

static void show_opens(const json_t *opens) {
    static const char *const titles[] = {"would open", "for", "rule", "data"};
    size_t i, j;
    json_t *e, *port;
    if (!json_array_size(opens)) return;
    struct table *t = table_new(titles, 4);
    json_array_foreach(opens, i, e) {
        char what[512], room[4][32];
        int used = snprintf(what, sizeof what, "%s",
                            show_value(json_object_get(e, "protocol"), room[0], sizeof room[0]));
        json_array_foreach(json_object_get(e, "ports"), j, port)
            if (used > 0 && (size_t)used < sizeof what)
                used += snprintf(what + used, sizeof what - (size_t)used, "%s%d", j ? "," : "/",
                                 (int)json_integer_value(port));
        const char *cells[] = {what,
                               show_value(json_object_get(e, "endpoint"), room[1], sizeof room[1]),
                               show_value(json_object_get(e, "rule"), room[2], sizeof room[2]),
                               show_value(json_object_get(e, "data"), room[3], sizeof room[3])};
        table_row(t, cells);
    }
    putchar('\n');
    table_free(t);
}

static void show_explanation(const json_t *o) {
    char room[32];
    const char *decision = show_value(json_object_get(o, "decision"), room, sizeof room);
    printf("decision   %s: ", !strcmp(decision, "allow") ? "ALLOW" : "DENY");
    show_clean(stdout, show_value(json_object_get(o, "text"), room, sizeof room));
    putchar('\n');
    show_field("reason", json_object_get(o, "reason"));
    show_field("answer", json_object_get(o, "answer"));
    show_field("client", json_object_get(o, "client"));
    show_field("agent", json_object_get(o, "agent"));
    show_field("mode", json_object_get(o, "mode"));
    show_name(show_value(json_object_get(o, "name"), room, sizeof room));
    show_field("type", json_object_get(o, "type"));
    show_field("note", json_object_get(o, "note"));
    show_field("rule", json_object_get(o, "rule"));
    show_field("tool", json_object_get(o, "tool"));
    show_field("purpose", json_object_get(o, "purpose"));
    show_field("owner", json_object_get(o, "owner"));
    fputs("policy     ", stdout);
    show_digest(json_object_get(o, "policy"));
    fputs(", ", stdout);
    show_clean(stdout, show_value(json_object_get(o, "source"), room, sizeof room));
    putchar('\n');
    show_opens(json_object_get(o, "opens"));
}

static void take_answer(void *ctx, json_t *answer) {
    json_t **kept = ctx;
    json_decref(*kept);
    *kept = json_incref(answer);
}

/* By the image in force; NULL when there is no daemon. */
static json_t *explain_daemon(const struct options *o, const char *client, const char *name,
                              const char *type) {
    json_t *answer = NULL;
    if (o->argument || o->files) return NULL;
    int error = instance_ask(o, json_pack("{s:s, s:s, s:s, s:s}", "op", "explain", "client",
                                             client, "name", name, "type", type),
                             take_answer, &answer);
    if (error == 0) {
        json_object_set_new(answer, "source", json_string("in force"));
        return answer;
    }
    json_decref(answer);
    if (o->socket || (error != -ENOENT && error != -ECONNREFUSED)) instance_unreachable(o, error);
    return NULL;
}

static json_t *explain_files(const struct options *o, const struct addr *client,
                             const struct name *name, uint16_t type) {
    struct files f;
    const char *what;
    json_t *answer = NULL;
    if (files_load(o, &f, &what) < 0) {
        files_report(f.report, stderr);
    } else {
        answer = explain_decision(&f.policy, client, name, type);
        json_object_set_new(answer, "ok", json_true());
        json_object_set_new(answer, "source", json_sprintf("files of %s", what));
    }
    files_free(&f);
    return answer;
}

int explain_main(const struct options *o) {
    struct addr client;
    struct name name;
    uint16_t type = TYPE_A;
    char address[ADDR_TEXT_MAX], text[NAME_TEXT_MAX], rr[RRTYPE_TEXT_MAX];
    if (!o->client || !o->name)
        return usage_error("explain needs --client ADDRESS and --name NAME");
    if (addr_parse(o->client, &client) < 0)
        return usage_error("--client: \"%s\" is not an IP address", o->client);
    if (name_read(o->name, &name) < 0 || name_to_text(&name, text, sizeof text) < 0)
        return usage_error("--name: \"%s\" is not a domain name", o->name);
    if (o->type && rrtype_parse(o->type, &type) < 0)
        return usage_error("--type: \"%s\" is not a record type (A, AAAA, MX, TYPE65, ...)",
                           o->type);
    json_t *answer = explain_daemon(o, addr_format(&client, address), text, rrtype_format(type, rr));
    if (!answer && !o->socket) answer = explain_files(o, &client, &name, type);
    if (!answer) return EXIT_DENIED;
    const char *decision = json_string_value(json_object_get(answer, "decision"));
    if (!decision) {
        fputs("tidegate: ", stderr);
        show_clean(stderr, show_value(json_object_get(answer, "error"), rr, sizeof rr));
        fputc('\n', stderr);
    } else if (o->json) {
        show_json(answer);
    } else {
        show_explanation(answer);
    }
    int status = decision && !strcmp(decision, "allow") ? EXIT_OK : EXIT_DENIED;
    json_decref(answer);
    return status;
}
