/* status.c: `tidegate status`: what is wrong first, then the rest. */
#include <stdint.h>
#include <string.h>

#include "tools/tidegate/cli.h"

static void show_list(const char *title, const json_t *list) {
    size_t i;
    json_t *line;
    json_array_foreach(list, i, line) {
        printf("%-10s ", i ? "" : title);
        show_clean(stdout, json_string_value(line) ? json_string_value(line) : "");
        putchar('\n');
    }
}

static void show_processes(const json_t *processes) {
    const char *name;
    json_t *p;
    json_object_foreach((json_t *)(uintptr_t)processes, name, p) {
        long long pid = json_integer_value(json_object_get(p, "pid"));
        fputs("  ", stdout);
        show_padded(name, 23);
        if (pid) printf("pid %lld", pid);
        else fputs("NOT RUNNING", stdout);
        printf(", restarts %lld\n",
               (long long)json_integer_value(json_object_get(p, "restarts")));
    }
}

/* Told in the lines above the counters. */
static bool told(const char *name) {
    return !strcmp(name, "agents") || !strcmp(name, "tools") || !strcmp(name, "endpoints") ||
           !strcmp(name, "uptime");
}

/* Every number of the object as "name value", in two columns. */
static void show_counters(const json_t *o) {
    const char *name;
    json_t *value;
    unsigned shown = 0;
    json_object_foreach((json_t *)(uintptr_t)o, name, value) {
        if (!json_is_integer(value) || told(name)) continue;
        fputs("  ", stdout);
        show_padded(name, 23);
        printf("%12lld", (long long)json_integer_value(value));
        if (++shown % 2 == 0) putchar('\n');
    }
    if (shown % 2) putchar('\n');
}

static void show_status(const json_t *o) {
    char room[32], up[32];
    const json_t *problems = json_object_get(o, "problems");
    if (json_array_size(problems)) show_list("PROBLEM", problems);
    else puts("healthy    default deny is in force, the log is written");
    show_list("note", json_object_get(o, "notes"));
    fputs("policy     ", stdout);
    show_digest(json_object_get(o, "policy"));
    printf(": agents %lld, tools %lld, endpoints %lld\n",
           (long long)json_integer_value(json_object_get(o, "agents")),
           (long long)json_integer_value(json_object_get(o, "tools")),
           (long long)json_integer_value(json_object_get(o, "endpoints")));
    show_field("gateway", json_object_get(o, "gateway"));
    show_field("version", json_object_get(o, "version"));
    printf("running    %s, since ",
           show_duration(json_integer_value(json_object_get(o, "uptime")), up));
    show_clean(stdout, show_value(json_object_get(o, "started"), room, sizeof room));
    putchar('\n');
    show_field("ipv6", json_object_get(o, "ipv6"));
    puts("\nprocesses");
    show_processes(json_object_get(o, "processes"));
    puts("\ngateway");
    show_counters(o);
    puts("\nresolver, since its start");
    show_counters(json_object_get(o, "resolver"));
}

int status_main(const struct options *o) {
    char room[32];
    json_t *answer = instance_ask_one(o, json_pack("{s:s}", "op", "status"));
    if (!answer) return EXIT_DENIED;
    bool good = json_is_true(json_object_get(answer, "ok"));
    if (o->json) {
        show_json(answer);
    } else if (good) {
        show_status(answer);
    } else {
        fputs("tidegate: ", stderr);
        show_clean(stderr, show_value(json_object_get(answer, "error"), room, sizeof room));
        fputc('\n', stderr);
    }
    good = good && !json_array_size(json_object_get(answer, "problems"));
    json_decref(answer);
    return good ? EXIT_OK : EXIT_DENIED;
}
