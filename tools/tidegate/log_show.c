/* log_show.c: records as aligned text. Whatever a record holds may be hostile: text goes through
 * show_clean(), and a member of another type than expected is shown as "-".
 */
#include "tools/tidegate/log_show.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/tidegate/cli.h"

static const char *text_of(const json_t *record, const char *key) {
    const char *text = json_string_value(json_object_get(record, key));
    return text != NULL ? text : "-";
}

static json_int_t number_of(const json_t *record, const char *key) {
    return json_integer_value(json_object_get(record, key));
}

static bool has(const json_t *record, const char *key) {
    const json_t *v = json_object_get(record, key);
    return v != NULL && !json_is_null(v);
}

/* "2026-11-30 13:37:00.123", from the record's RFC 3339; as it stands if it is not that. */
static void put_time(FILE *to, const char *text, bool local) {
    struct tm t = {0};
    char out[64];
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &t);
    if (rest == NULL || *rest != '.' || strlen(rest) != 8) {
        fprintf(to, "%-23.40s", text);
        return;
    }
    time_t when = timegm(&t);
    if (local && localtime_r(&when, &t) == NULL) return;
    strftime(out, sizeof out, "%Y-%m-%d %H:%M:%S", &t);
    fprintf(to, "%s%.4s", out, rest);
}

static void put_bytes(FILE *to, json_int_t bytes) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    double value = (double)bytes;
    unsigned u = 0;
    for (; value >= 1000 && u < 5; u++) value /= 1000;
    fprintf(to, u == 0 ? "%.0f %s" : "%.1f %s", value, units[u]);
}

static void put_remote(FILE *to, const json_t *r) {
    const char *remote = text_of(r, "remote");
    bool v6 = strchr(remote, ':') != NULL;
    fprintf(to, "%s ", text_of(r, "protocol"));
    if (!has(r, "port"))
        fprintf(to, "%s", remote);
    else
        fprintf(to, v6 ? "[%s]:%lld" : "%s:%lld", remote, (long long)number_of(r, "port"));
}

static void put_query(FILE *to, const json_t *r) {
    const json_t *answers = json_object_get(r, "answers");
    size_t count = json_array_size(answers);
    fprintf(to, "%s %s", text_of(r, "type"), text_of(r, "name"));
    const char *first = json_string_value(json_array_get(answers, 0));
    if (first != NULL) fprintf(to, " = %s", first);
    if (count > 1) fprintf(to, " +%zu", count - 1);
    if (count == 0) fprintf(to, " %s", text_of(r, "rcode"));
    if (strcmp(text_of(r, "cache"), "hit") == 0) fprintf(to, " (cache)");
}

static void put_flow(FILE *to, const json_t *r) {
    put_remote(to, r);
    if (has(r, "name")) fprintf(to, " %s", text_of(r, "name"));
    fprintf(to, " out ");
    put_bytes(to, number_of(r, "bytes_out"));
    fprintf(to, " in ");
    put_bytes(to, number_of(r, "bytes_in"));
    fprintf(to, " %.1f s %s", (double)number_of(r, "duration_us") / 1e6, text_of(r, "end"));
}

static void put_denied(FILE *to, const json_t *r) {
    put_remote(to, r);
    if (has(r, "icmp_type")) fprintf(to, " type %lld", (long long)number_of(r, "icmp_type"));
    if (has(r, "note")) fprintf(to, " %s", text_of(r, "note"));
    if (number_of(r, "count") != 1) fprintf(to, " x%lld", (long long)number_of(r, "count"));
}

static void put_what(FILE *to, const json_t *r, const char *kind) {
    if (strcmp(kind, "query") == 0)
        put_query(to, r);
    else if (strcmp(kind, "flow") == 0)
        put_flow(to, r);
    else if (strcmp(kind, "denied-packet") == 0)
        put_denied(to, r);
    else
        fprintf(to, "%s: %s", text_of(r, "event"), text_of(r, "text"));
}

static void put_line(FILE *to, const json_t *r, bool local) {
    const char *kind = text_of(r, "kind"), *who = text_of(r, "agent");
    char *what = NULL;
    size_t size = 0;
    if (strcmp(who, "-") == 0) who = text_of(r, "source");
    FILE *f = open_memstream(&what, &size);
    if (f == NULL) abort();
    put_what(f, r, kind);
    fclose(f);
    put_time(to, text_of(r, "time"), local);
    /* An event is a sentence and has no decision: nothing is aligned after it. */
    if (has(r, "decision"))
        fprintf(to, "  %-12s  %-13s  %-46s  %-5s  %-15s  %s", who, kind, what,
                text_of(r, "decision"), text_of(r, "reason"), text_of(r, "rule"));
    else
        fprintf(to, "  %-12s  %-13s  %s", who, kind, what);
    free(what);
}

void log_show(const json_t *record, bool local) {
    char *line = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&line, &size);
    if (f == NULL) abort();
    put_line(f, record, local);
    fclose(f);
    show_clean(stdout, line);
    putchar('\n');
    free(line);
}
