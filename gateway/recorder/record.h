/* record.h: one record on its way to a line of JSON. Values are set in any order and written in
 * the order of the field table; what was not set is written as null.
 */
#ifndef GATEWAY_RECORDER_RECORD_H
#define GATEWAY_RECORDER_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/base/addr.h"
#include "gateway/base/buf.h"
#include "gateway/base/clock.h"
#include "gateway/base/name.h"
#include "gateway/recorder/fields.h"

/* No record is longer, newline included: 256 answers of 48 bytes with their TTLs (15 KiB), 10 names
 * of 255 octets written as \\DDD (13 KiB), a rule, and the names of the fields. */
#define RECORD_MAX 49152

enum value_type { VALUE_NONE, VALUE_NUMBER, VALUE_TEXT, VALUE_LIST };

struct value {
    enum value_type type;
    uint64_t number;
    const char *text; /* the caller keeps it until record_write() */
    size_t size;
};

struct record {
    enum record_kind kind;
    bool fault; /* a field of another kind or type was set: a mistake in this program */
    struct value values[FIELD_TOTAL];
    struct value nowhere;
    char scratch[RECORD_MAX]; /* text made for this record */
    struct buf space;         /* over scratch */
};

void record_begin(struct record *r, enum record_kind kind, usec_t time, uint64_t sequence);
void record_number(struct record *r, enum field f, uint64_t number);
/* NULL leaves the field null. Times and addresses are text fields of their own type. */
void record_text(struct record *r, enum field f, const char *text);
void record_copy(struct record *r, enum field f, const char *text); /* the caller may drop it */
void record_time(struct record *r, enum field f, usec_t realtime);
void record_address(struct record *r, enum field f, const struct addr *a); /* family 0: null */
void record_name(struct record *r, enum field f, const struct name *n);    /* length 0: null */
void record_format(struct record *r, enum field f, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A list is built in one go: begin, then items of one kind, then end. */
void record_list_begin(struct record *r, enum field f);
void record_list_name(struct record *r, enum field f, const struct name *n);
void record_list_address(struct record *r, enum field f, const struct addr *a);
void record_list_number(struct record *r, enum field f, uint64_t number);
void record_list_end(struct record *r, enum field f);
/* Writes the line with its newline. Bytes written, -EINVAL on a fault, -ENOSPC if out is short
 * (then nothing is left in it). */
int record_write(const struct record *r, struct buf *out);

/* The sequence number of a line that record_write() made; 0 if it is no such line. Reads no byte
 * past `size`. */
uint64_t record_line_sequence(const void *line, size_t size);

#endif
