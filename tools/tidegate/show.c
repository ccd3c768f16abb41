/* show.c: output for people. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tidegate/cli.h"

#define BLOCK_ROWS 400
#define DIGEST_SHOWN 16 /* digits that tell policies apart for people */
#define CELL_MAX 80 /* wider cells do not push the others to the right */

/* Decodes one character; 0 bytes when it is not UTF-8 (RFC 3629). */
static size_t utf8_next(const unsigned char *s, uint32_t *ret) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = s[0] < 0x80 ? 1 : (s[0] & 0xe0) == 0xc0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3
                : (s[0] & 0xf8) == 0xf0 ? 4 : 0;
    if (size < 2) {
        *ret = s[0];
        return size;
    }
    uint32_t c = s[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0; /* stops at a NUL, too */
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < least[size] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    *ret = c;
    return size;
}

/* Controls (C0, DEL, C1), line and paragraph separators, and marks that turn the direction. */
static bool steers(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

void show_clean(FILE *to, const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    while (*s) {
        uint32_t c;
        size_t size = utf8_next(s, &c);
        if (size == 0) fprintf(to, "\\x%02x", *s++);
        else if (steers(c)) fprintf(to, "\\u%04x", (unsigned)c);
        else fwrite(s, 1, size, to);
        s += size;
    }
}

const char *show_value(const json_t *v, char *room, size_t size) {
    if (json_is_string(v)) return json_string_value(v);
    if (json_is_integer(v)) {
        snprintf(room, size, "%lld", (long long)json_integer_value(v));
        return room;
    }
    return json_is_true(v) ? "yes" : json_is_false(v) ? "no" : "-";
}

void show_json(const json_t *v) {
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENSURE_ASCII);
    if (text) puts(text);
    free(text);
}

/* Characters, not bytes: names may be shown as U-labels. */
static size_t text_width(const char *text) {
    size_t width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

void show_padded(const char *text, int width) {
    show_clean(stdout, text);
    printf("%*s", (int)((size_t)width > text_width(text) ? (size_t)width - text_width(text) : 0), "");
}

void show_digest(const json_t *digest) {
    char room[32], start[DIGEST_SHOWN + 1];
    snprintf(start, sizeof start, "%s", show_value(digest, room, sizeof room));
    show_clean(stdout, start);
}

void show_field(const char *key, const json_t *value) {
    char room[32];
    if (!value || json_is_null(value)) return;
    printf("%-10s ", key);
    show_clean(stdout, show_value(value, room, sizeof room));
    putchar('\n');
}

const char *show_duration(long long s, char text[32]) {
    if (s >= 86400) snprintf(text, 32, "%lldd %02lldh", s / 86400, s / 3600 % 24);
    else if (s >= 3600) snprintf(text, 32, "%lldh %02lldm", s / 3600, s / 60 % 60);
    else if (s >= 60) snprintf(text, 32, "%lldm %02llds", s / 60, s % 60);
    else snprintf(text, 32, "%llds", s);
    return text;
}

struct table {
    const char *const *titles;
    unsigned columns, rows;
    bool started;
    size_t widths[TABLE_COLUMNS_MAX];
    char *cells[BLOCK_ROWS][TABLE_COLUMNS_MAX];
};

struct table *table_new(const char *const *titles, unsigned columns) {
    struct table *t = calloc(1, sizeof *t);
    if (!t || columns > TABLE_COLUMNS_MAX) abort();
    t->titles = titles;
    t->columns = columns;
    for (unsigned i = 0; i < columns; i++) t->widths[i] = strlen(titles[i]);
    return t;
}

static void table_line(const struct table *t, const char *const *cells) {
    for (unsigned i = 0; i < t->columns; i++) {
        fputs(cells[i], stdout);
        if (i + 1 == t->columns) break;
        size_t width = text_width(cells[i]);
        printf("%*s", (int)((width < t->widths[i] ? t->widths[i] - width : 0) + 2), "");
    }
    putchar('\n');
}

static void table_flush(struct table *t) {
    if (t->rows && !t->started) table_line(t, t->titles);
    if (t->rows) t->started = true;
    for (unsigned r = 0; r < t->rows; r++) {
        table_line(t, (const char *const *)t->cells[r]);
        for (unsigned i = 0; i < t->columns; i++) free(t->cells[r][i]);
    }
    t->rows = 0;
}

void table_row(struct table *t, const char *const *cells) {
    for (unsigned i = 0; i < t->columns; i++) {
        size_t size = 0;
        char **cell = &t->cells[t->rows][i];
        FILE *clean = open_memstream(cell, &size);
        if (!clean) abort();
        show_clean(clean, cells[i]);
        fclose(clean);
        size_t width = text_width(*cell);
        if (width > CELL_MAX) width = CELL_MAX;
        if (width > t->widths[i]) t->widths[i] = width;
    }
    if (++t->rows == BLOCK_ROWS) table_flush(t);
}

struct table *table_free(struct table *t) {
    table_flush(t);
    free(t);
    return NULL;
}
