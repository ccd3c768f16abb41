/* record.c: values of one record, checked against the field table, and their JSON. */
#include "gateway/recorder/record.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool type_fits(enum field_type declared, enum value_type value) {
    switch (declared) {
    case FIELD_TYPE_TIME:
    case FIELD_TYPE_TEXT:
    case FIELD_TYPE_ADDRESS:
        return value == VALUE_TEXT;
    case FIELD_TYPE_NUMBER:
        return value == VALUE_NUMBER;
    case FIELD_TYPE_TEXTS:
    case FIELD_TYPE_NUMBERS:
        return value == VALUE_LIST;
    }
    return false;
}

/* Where a value goes; a mistaken one goes nowhere, and record_write() refuses the record. */
static struct value *value_at(struct record *r, enum field f, enum value_type type) {
    if (f >= FIELD_TOTAL || !(field_table[f].kinds & 1u << r->kind) ||
        !type_fits(field_table[f].type, type)) {
        r->fault = true;
        return &r->nowhere;
    }
    r->values[f].type = type;
    return &r->values[f];
}

void record_begin(struct record *r, enum record_kind kind, usec_t time, uint64_t sequence) {
    r->kind = kind;
    r->fault = false;
    memset(r->values, 0, sizeof r->values);
    r->space = buf_over(r->scratch, sizeof r->scratch);
    record_time(r, FIELD_TIME, time);
    record_number(r, FIELD_SEQUENCE, sequence);
    record_text(r, FIELD_KIND, kind_name(kind));
    for (enum field f = 0; f < FIELD_TOTAL; f++) {
        if (type_fits(field_table[f].type, VALUE_LIST) && field_table[f].kinds & 1u << kind)
            r->values[f] = (struct value){.type = VALUE_LIST, .text = "[]", .size = 2};
    }
}

void record_number(struct record *r, enum field f, uint64_t number) {
    /* Larger ones are not to be seen, but a liar may send one; few readers could take it. */
    value_at(r, f, VALUE_NUMBER)->number = number < INT64_MAX ? number : INT64_MAX;
}

void record_text(struct record *r, enum field f, const char *text) {
    if (text == NULL) return;
    struct value *v = value_at(r, f, VALUE_TEXT);
    v->text = text;
    v->size = strlen(text);
}

/* Keeps a copy of `text` in the record's own space. */
static void text_keep(struct record *r, enum field f, const char *text, size_t size) {
    struct value *v = value_at(r, f, VALUE_TEXT);
    v->text = r->scratch + r->space.used;
    v->size = size;
    buf_put(&r->space, text, size);
}

void record_copy(struct record *r, enum field f, const char *text) {
    text_keep(r, f, text, strlen(text));
}

/* Times come from other processes: past the year 9999 the text would have another length. */
#define TIME_LAST (UINT64_C(253402300800) * USEC_PER_SEC - 1)

void record_time(struct record *r, enum field f, usec_t realtime) {
    char text[TIME_TEXT_MAX];
    time_format(realtime < TIME_LAST ? realtime : TIME_LAST, text);
    text_keep(r, f, text, strlen(text));
}

void record_address(struct record *r, enum field f, const struct addr *a) {
    if (a->family == 0) return;
    char text[ADDR_TEXT_MAX];
    addr_format(a, text);
    text_keep(r, f, text, strlen(text));
}

void record_name(struct record *r, enum field f, const struct name *n) {
    char text[NAME_TEXT_MAX];
    if (n->length == 0) return;
    int size = name_to_text(n, text, sizeof text);
    if (size > 0) text_keep(r, f, text, (size_t)size);
}

void record_format(struct record *r, enum field f, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (size < 0) return;
    text_keep(r, f, text, (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
}

void record_list_begin(struct record *r, enum field f) {
    struct value *v = value_at(r, f, VALUE_LIST);
    v->text = r->scratch + r->space.used;
    v->size = 0;
    buf_put_char(&r->space, '[');
}

static void list_separate(struct record *r, enum field f) {
    const struct value *v = value_at(r, f, VALUE_LIST);
    if (r->fault) return;
    if (r->scratch + r->space.used != v->text + 1) buf_put_char(&r->space, ',');
}

void record_list_name(struct record *r, enum field f, const struct name *n) {
    char text[NAME_TEXT_MAX];
    int size = name_to_text(n, text, sizeof text);
    list_separate(r, f);
    buf_put_json(&r->space, text, size > 0 ? (size_t)size : 0);
}

void record_list_address(struct record *r, enum field f, const struct addr *a) {
    char text[ADDR_TEXT_MAX];
    list_separate(r, f);
    addr_format(a, text);
    buf_put_json(&r->space, text, strlen(text));
}

void record_list_number(struct record *r, enum field f, uint64_t number) {
    list_separate(r, f);
    buf_put_u64(&r->space, number);
}

void record_list_end(struct record *r, enum field f) {
    buf_put_char(&r->space, ']');
    struct value *v = value_at(r, f, VALUE_LIST);
    if (!r->fault) v->size = (size_t)(r->scratch + r->space.used - v->text);
}

static void value_write(const struct value *v, struct buf *out) {
    switch (v->type) {
    case VALUE_NONE:
        buf_put_text(out, "null");
        break;
    case VALUE_NUMBER:
        buf_put_u64(out, v->number);
        break;
    case VALUE_TEXT:
        buf_put_json(out, v->text, v->size);
        break;
    case VALUE_LIST:
        buf_put(out, v->text, v->size);
        break;
    }
}

int record_write(const struct record *r, struct buf *out) {
    if (r->fault || r->space.overflow) return -EINVAL;
    struct buf before = *out;
    char between = '{';
    for (enum field f = 0; f < FIELD_TOTAL; f++) {
        if (!(field_table[f].kinds & 1u << r->kind)) continue;
        buf_put_char(out, between);
        buf_put_char(out, '"');
        buf_put_text(out, field_table[f].name);
        buf_put_text(out, "\":");
        value_write(&r->values[f], out);
        between = ',';
    }
    buf_put_text(out, "}\n");
    if (out->overflow) {
        *out = before;
        return -ENOSPC;
    }
    return (int)(out->used - before.used);
}

/* The head of a line is fixed: {"time":"2026-11-30T13:37:00.123456Z","sequence":N, */
uint64_t record_line_sequence(const void *line, size_t size) {
    static const char before[] = "{\"time\":\"", after[] = "Z\",\"sequence\":";
    const size_t time = 26, digits = sizeof before - 1 + time + sizeof after - 1;
    const char *text = line;
    if (size <= digits || memcmp(text, before, sizeof before - 1) != 0 ||
        memcmp(text + sizeof before - 1 + time, after, sizeof after - 1) != 0)
        return 0;
    uint64_t n = 0;
    size_t i = digits;
    for (; i < size && text[i] >= '0' && text[i] <= '9'; i++) {
        if (n > (UINT64_MAX - 9) / 10) return 0;
        n = n * 10 + (uint64_t)(text[i] - '0');
    }
    return i > digits && i < size && text[i] == ',' ? n : 0;
}
