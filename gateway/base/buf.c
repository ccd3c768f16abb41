/* buf.c: the bounded output buffer. */
#include "gateway/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void buf_put(struct buf *b, const void *data, size_t size) {
    if (b->overflow || size > b->size - b->used) {
        b->overflow = true;
        return;
    }
    if (size == 0) return; /* memcpy() from or to NULL is undefined even then */
    memcpy(b->data + b->used, data, size);
    b->used += size;
}

void buf_put_text(struct buf *b, const char *text) {
    buf_put(b, text, strlen(text));
}

void buf_put_char(struct buf *b, char c) {
    buf_put(b, &c, 1);
}

void buf_put_u64(struct buf *b, uint64_t value) {
    char digits[20]; /* 2^64 - 1 has 20 */
    unsigned at = sizeof digits;
    do digits[--at] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    buf_put(b, digits + at, sizeof digits - at);
}

void buf_format(struct buf *b, const char *format, ...) {
    if (b->overflow) return;
    size_t room = b->size - b->used;
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf((char *)b->data + b->used, room, format, args);
    va_end(args);
    /* vsnprintf() needs a byte for its NUL, so text that would just fit counts as overflow. */
    if (wanted < 0 || (size_t)wanted >= room)
        b->overflow = true;
    else
        b->used += (size_t)wanted;
}

static bool json_plain(uint8_t c) {
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void put_json_escape(struct buf *b, uint8_t c) {
    static const char hex[] = "0123456789abcdef";
    if (c == '"' || c == '\\') {
        buf_put(b, (char[]){'\\', (char)c}, 2);
        return;
    }
    buf_put(b, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
}

void buf_put_json(struct buf *b, const char *text, size_t size) {
    buf_put_char(b, '"');
    for (size_t i = 0; i < size;) {
        size_t run = i;
        while (run < size && json_plain((uint8_t)text[run])) run++;
        buf_put(b, text + i, run - i);
        if (run < size) put_json_escape(b, (uint8_t)text[run++]);
        i = run;
    }
    buf_put_char(b, '"');
}
