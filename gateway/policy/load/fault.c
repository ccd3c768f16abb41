/* fault.c: the list of faults, and how text of the operator is shown in them. */
#include "gateway/policy/load/fault.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/policy/load/text.h"

struct fault {
    struct place at;
    bool warning;
    unsigned sequence;
    char *text;
};

static struct fault *fault_new(struct faults *f) {
    if (f->count == FAULTS_TOLD_MAX) return NULL;
    if (f->count == f->capacity) {
        size_t capacity = f->capacity ? 2 * f->capacity : 64;
        struct fault *all = realloc(f->all, capacity * sizeof *all);
        if (!all) {
            f->nomem = true;
            return NULL;
        }
        f->all = all;
        f->capacity = capacity;
    }
    return &f->all[f->count];
}

static void add(struct faults *f, struct place at, bool warning, const char *format,
                va_list arguments) {
    if (warning)
        f->warnings++;
    else
        f->faults++;
    struct fault *fault = fault_new(f);
    if (!fault) return;
    char *text;
    if (vasprintf(&text, format, arguments) < 0) {
        f->nomem = true;
        return;
    }
    *fault = (struct fault){at, warning, (unsigned)f->count, text};
    f->count++;
}

void fault_add(struct faults *f, struct place at, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add(f, at, false, format, arguments);
    va_end(arguments);
}

void fault_warn(struct faults *f, struct place at, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add(f, at, true, format, arguments);
    va_end(arguments);
}

/* Faults first: warnings must not bury them. */
static int compare(const void *a, const void *b) {
    const struct fault *x = a, *y = b;
    if (x->warning != y->warning) return x->warning ? 1 : -1;
    if (x->at.file->order != y->at.file->order) {
        return x->at.file->order < y->at.file->order ? -1 : 1;
    }
    if (x->at.line != y->at.line) return x->at.line < y->at.line ? -1 : 1;
    if (x->at.column != y->at.column) return x->at.column < y->at.column ? -1 : 1;
    return x->sequence < y->sequence ? -1 : 1;
}

void faults_print(struct faults *f, FILE *report) {
    if (f->count > 1) qsort(f->all, f->count, sizeof *f->all, compare);
    for (size_t i = 0; i < f->count; i++) {
        const struct fault *x = &f->all[i];
        fprintf(report, "%s:%" PRIu32 ":%" PRIu32 ": %s%s\n", shown(x->at.file->path).text,
                x->at.line, x->at.column, x->warning ? "warning: " : "", x->text);
    }
    size_t all = (size_t)f->faults + f->warnings;
    if (all > f->count && f->count > 0) {
        fprintf(report, "%s:1:1: %zu more faults and warnings are not shown; correct these first\n",
                shown(f->all[0].at.file->path).text, all - f->count);
    }
}

void faults_free(struct faults *f) {
    for (size_t i = 0; i < f->count; i++) free(f->all[i].text);
    free(f->all);
    *f = (struct faults){0};
}

#define SHOWN_MAX 100 /* bytes of the original; each takes at most 4 */

struct shown shown(const char *text) {
    struct shown s;
    size_t at = 0, used = 0;
    while (text[at] != '\0' && at < SHOWN_MAX) {
        uint32_t point;
        size_t size = text_utf8(text + at, &point);
        if (size > 0 && text_showable(point)) {
            memcpy(s.text + used, text + at, size);
            used += size;
            at += size;
            continue;
        }
        size_t bytes = size > 0 ? size : 1;
        for (size_t i = 0; i < bytes; i++) {
            used += (size_t)snprintf(s.text + used, 5, "\\x%02x", (uint8_t)text[at + i]);
        }
        at += bytes;
    }
    if (text[at] != '\0') {
        memcpy(s.text + used, "...", 3);
        used += 3;
    }
    s.text[used] = '\0';
    return s;
}

#define WORD_MAX 64

unsigned word_distance(const char *a, const char *b, unsigned most) {
    size_t m = strlen(a), n = strlen(b);
    if (m > WORD_MAX || n > WORD_MAX || (m > n ? m - n : n - m) > most) return most + 1;
    unsigned rows[3][WORD_MAX + 1]; /* two rows up, one row up, this one, in turn */
    for (size_t j = 0; j <= n; j++) rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= m; i++) {
        unsigned *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        unsigned least = row[0];
        for (size_t j = 1; j <= n; j++) {
            unsigned d = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < d) d = up[j] + 1;
            if (row[j - 1] + 1 < d) d = row[j - 1] + 1;
            bool swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swap && up2[j - 2] + 1 < d) d = up2[j - 2] + 1;
            row[j] = d;
            if (d < least) least = d;
        }
        if (least > most) return most + 1;
    }
    unsigned d = rows[m % 3][n];
    return d > most ? most + 1 : d;
}

bool word_nearer(const char *word, const char *candidate, unsigned *best) {
    /* One letter in three may be wrong, three at most: farther away is another word. */
    unsigned most = (unsigned)strlen(word) / 3 + 1;
    if (most > 3) most = 3;
    if (*best != 0 && *best - 1 < most) most = *best - 1;
    unsigned d = word_distance(word, candidate, most);
    if (d > most || *best == 0) return false;
    *best = d;
    return true;
}
