/* scan.c: what is wrong with a file as text, before YAML is looked for in it. A parser would tell
 * such faults by what they lead to; here they are told by what they are.
 */
#include "gateway/policy/load/scan.h"

#include <stdbool.h>
#include <string.h>

#include "gateway/policy/load/text.h"

struct scan {
    struct faults *f;
    struct place at;
    const char *bytes;
    size_t size, offset;
    bool indenting; /* nothing but blanks so far in this line */
    unsigned told;
};

#define TOLD_MAX 100 /* a binary file has a fault in every byte */

static void tell(struct scan *s, const char *text) {
    if (s->told++ < TOLD_MAX) fault_add(s->f, s->at, "%s", text);
}

/* A tab that only blanks or a comment follow indents nothing. */
static bool tab_matters(const struct scan *s) {
    size_t i = s->offset;
    while (i < s->size && (s->bytes[i] == '\t' || s->bytes[i] == ' ')) i++;
    return i < s->size && s->bytes[i] != '\n' && s->bytes[i] != '\r' && s->bytes[i] != '#';
}

static void scan_control(struct scan *s, char c) {
    if (c == '\0')
        tell(s, "holds a NUL byte; save the file as plain text (UTF-8)");
    else if (c == '\r') {
        if (s->bytes[s->offset + 1] != '\n') {
            tell(s, "holds a carriage return without a line feed; end lines with a line feed");
        }
    } else if (c == '\t') {
        if (s->indenting && tab_matters(s)) {
            tell(s, "is indented with a tab, which YAML does not allow; use spaces");
            s->indenting = false;
        }
    } else {
        tell(s, "holds a control character; remove it");
    }
}

static void scan_one(struct scan *s) {
    uint32_t point;
    char c = s->bytes[s->offset];
    if (c > ' ' && c < 0x7f) { /* nearly all of every file */
        s->indenting = false;
        s->at.column++;
        s->offset++;
        return;
    }
    size_t size = text_utf8(s->bytes + s->offset, &point);
    if (size == 0) {
        tell(s, "holds a byte that is not UTF-8; save the file as UTF-8");
        size = 1;
        point = '?';
    } else if (point == '\n') {
        s->at.line++;
        s->at.column = 0;
        s->indenting = true;
    } else if (point < 0x20 || point == 0x7f) {
        scan_control(s, (char)point);
    } else if (!text_showable(point) && point != 0xa0) {
        tell(s, "holds a character that hides or reorders text (see Unicode bidirectional and "
                "zero-width characters); remove it, or write a name as xn--...");
    }
    if (point != ' ' && point != '\t' && point != '\n') s->indenting = false;
    s->at.column++;
    s->offset += size;
}

int scan_text(struct faults *f, const struct source_file *file, const char *bytes, size_t size) {
    struct scan s = {.f = f, .at = {file, 1, 1}, .bytes = bytes, .size = size, .indenting = true};
    if (size >= 2 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0)) {
        fault_add(f, s.at, "is UTF-16; save it as UTF-8");
        return -1;
    }
    if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) s.offset = 3; /* byte order mark */
    while (s.offset < size) scan_one(&s);
    return s.told > 0 ? -1 : 0;
}
