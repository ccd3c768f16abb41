/* files.c: `tidegate check`, and policies loaded from files for other commands. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tidegate/cli.h"

/* One line of the loader's report for JSON; its text comes from files and may hold anything. */
static json_t *report_line(const char *at, size_t length) {
    json_t *line = json_stringn(at, length);
    if (line) return line;
    char *ascii = malloc(length + 1);
    if (!ascii) return NULL;
    for (size_t i = 0; i < length; i++) ascii[i] = (unsigned char)at[i] < 0x80 ? at[i] : '?';
    line = json_stringn(ascii, length);
    free(ascii);
    return line;
}

static json_t *report_lines(const char *text, size_t size) {
    json_t *lines = json_array();
    for (const char *at = text, *end = text + size; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        json_array_append_new(lines, report_line(at, length));
        at += length + 1;
    }
    return lines;
}

int files_load(const struct options *o, struct files *ret, const char **ret_what) {
    char *text = NULL;
    size_t size = 0;
    struct load_source source = {.directory = o->argument, .config = o->config};
    if (!source.directory && !source.config)
        source.config = TIDEGATE_SYSCONFDIR "/tidegate/gateway.yaml";
    if (source.directory) source.config = NULL;
    *ret_what = source.directory ? source.directory : source.config;
    *ret = (struct files){0};
    FILE *report = open_memstream(&text, &size);
    if (!report) abort();
    int error = load_policy(&source, report, &ret->result);
    fclose(report);
    ret->report = report_lines(text, size);
    free(text);
    if (error == 0) error = policy_open(&ret->policy, ret->result.image, ret->result.size);
    return error < 0 ? -EINVAL : 0;
}

void files_free(struct files *f) {
    load_result_free(&f->result);
    json_decref(f->report);
}

void files_report(const json_t *report, FILE *to) {
    size_t i;
    json_t *line;
    json_array_foreach(report, i, line) {
        show_clean(to, json_string_value(line));
        fputc('\n', to);
    }
}

static json_t *check_json(const struct files *f, bool good, const char *what) {
    char digest[POLICY_DIGEST_TEXT_MAX];
    json_t *o = json_pack("{s:b, s:s, s:i, s:i, s:O}", "ok", good, "source", what, "faults",
                          (int)f->result.faults, "warnings", (int)f->result.warnings, "report",
                          f->report);
    if (!o || !good) return o;
    json_object_set_new(o, "policy", json_string(policy_digest_text(&f->policy, digest)));
    json_object_set_new(o, "agents", json_integer(policy_agent_count(&f->policy)));
    json_object_set_new(o, "tools", json_integer(policy_tool_count(&f->policy)));
    json_object_set_new(o, "endpoints", json_integer(policy_endpoint_count(&f->policy)));
    json_object_set_new(o, "deny", json_integer(policy_deny_count(&f->policy)));
    return o;
}

int check_main(const struct options *o) {
    struct files f;
    const char *what;
    char digest[POLICY_DIGEST_TEXT_MAX];
    bool good = files_load(o, &f, &what) == 0;
    if (o->json) {
        json_t *out = check_json(&f, good, what);
        show_json(out);
        json_decref(out);
    } else {
        files_report(f.report, stderr);
        if (good)
            printf("%s: good: agents %u, tools %u, endpoints %u, deny patterns %u; policy %.16s\n",
                   what, policy_agent_count(&f.policy), policy_tool_count(&f.policy),
                   policy_endpoint_count(&f.policy), policy_deny_count(&f.policy),
                   policy_digest_text(&f.policy, digest));
        else
            fprintf(stderr, "%s: %u fault%s\n", what, f.result.faults,
                    f.result.faults == 1 ? "" : "s");
    }
    files_free(&f);
    return good ? EXIT_OK : EXIT_DENIED;
}
