/* main.c: prints the man page tidegate-log(5) in mdoc(7), from the tables that the recorder itself
 * writes by. Built and run by `make man`.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gateway/base/reason.h"
#include "gateway/proto/proto.h"
#include "gateway/recorder/fields.h"

#define LINE_MAX_WIDTH 76

/* One word: backslashes escaped, and `x` in italics. A word may hold several of them. */
static void put_word(const char *word, size_t size) {
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (word[i] == '\\')
            fputs("\\e", stdout);
        else if (word[i] == '`')
            fputs((quoted = !quoted) ? "\\fI" : "\\fR", stdout);
        else
            putchar(word[i]);
    }
}

/* Text of a table as mdoc text: filled lines, and a new line for a new sentence. */
static void put_text(const char *text) {
    size_t column = 0;
    bool sentence_end = false;
    while (*text != '\0') {
        size_t size = strcspn(text, " ");
        if (column > 0 && (sentence_end || column + 1 + size > LINE_MAX_WIDTH)) {
            putchar('\n');
            column = 0;
        }
        if (column > 0) column++, putchar(' ');
        put_word(text, size);
        column += size;
        sentence_end = text[size - 1] == '.';
        text += size;
        text += strspn(text, " ");
    }
    puts(sentence_end ? "" : ".");
}

static const char *type_text(enum field_type type) {
    switch (type) {
    case FIELD_TYPE_TIME:
        return "time";
    case FIELD_TYPE_TEXT:
        return "string";
    case FIELD_TYPE_ADDRESS:
        return "address";
    case FIELD_TYPE_NUMBER:
        return "number";
    case FIELD_TYPE_TEXTS:
        return "array of strings";
    case FIELD_TYPE_NUMBERS:
        return "array of numbers";
    }
    return "";
}

static void put_head(void) {
    puts(".\\\" Generated from gateway/recorder/fields.h, gateway/base/reason.h and");
    puts(".\\\" gateway/proto/proto.h by tools/manpage. Edit those.");
    puts(".Dd November 30, 2026\n.Dt TIDEGATE-LOG 5\n.Os\n.Sh NAME\n.Nm tidegate-log\n"
         ".Nd the audit log of the Tidegate gateway");
    puts(".Sh DESCRIPTION\n"
         "The log is a file of JSON Lines: each line is one record, a flat JSON object\n"
         "whose values are scalars or arrays of scalars, in printable ASCII.\n"
         "The process\n.Sy tidegate-recorder\nalone writes it, in the directory that\n"
         ".Ic log.directory\nof\n.Xr tidegate.yaml 5\nnames.\n.Pp\n"
         "Every record of a kind has all fields of that kind, in the order given here.\n"
         "A value that is unknown or does not apply is\n.Li null ;\na list that is empty is\n.Li [] .\n"
         "Special characters in domain names are escaped as in RFC 1035, section 5.1.\n.Pp\n"
         "Records are in the order of their sequence numbers, which is nearly the order\n"
         "of time: a record bears the time of what it tells, and is written a little\n"
         "later.\n"
         "A query is recorded before its answer leaves, denied packets within about a\n"
         "second.");
}

static void put_kinds(void) {
    puts(".Ss Kinds\n.Bl -tag -width denied-packet");
#define X(id, name, text) printf(".It Li %s\n", name), put_text(text);
    KIND_TABLE(X)
#undef X
    puts(".El");
}

static void put_field_kinds(uint32_t kinds) {
    if (kinds == K_ALL) {
        fputs("every kind", stdout);
        return;
    }
    const char *between = "";
    for (enum record_kind k = 0; k < KIND_COUNT; k++) {
        if (!(kinds & 1u << k)) continue;
        printf("%s%s", between, kind_name(k));
        between = ", ";
    }
}

static void put_fields(void) {
    puts(".Ss Fields\n.Bl -tag -width opened_until");
    for (enum field f = 0; f < FIELD_TOTAL; f++) {
        printf(".It Va %s\n", field_table[f].name);
        put_text(field_table[f].text);
        printf(".br\n.Em %s ;\n", type_text(field_table[f].type));
        put_field_kinds(field_table[f].kinds);
        puts("");
    }
    puts(".El\n.Pp\nTimes are in UTC, RFC 3339 with microseconds.\n"
         "Numbers are integers from 0 to 2^63 \\- 1.\n"
         "Addresses are IPv4 in dotted decimals or IPv6 as in RFC 5952.");
}

static void put_reasons(void) {
    puts(".Ss Reasons\nValues of\n.Va reason ,\nwith the\n.Va decision\nthat goes with each.\n"
         ".Li allow\nmeans that the gateway let the query or flow through, whatever the\n"
         "upstream then answered;\n.Li deny\nthat it did not.\n.Bl -tag -width upstream-timeout");
    for (uint32_t r = REASON_BASE + 1; r < REASON_END; r++) {
        printf(".It Li %s\n.Pq %s\n", reason_tag(r), decision_of(r));
        put_text(reason_text(r));
    }
    puts(".El");
}

static void put_events(void) {
    char tag[32];
    puts(".Ss Events\nValues of\n.Va event ,\nwith the kind of their records.\n"
         ".Bl -tag -width child-ended-by-core");
    for (uint32_t e = EVENT_NONE + 1; e < EVENT_END; e++) {
        printf(".It Li %s\n.Pq %s\n", event_tag(e, tag), kind_name(event_kind(e)));
        put_text(event_text(e));
    }
#define X(id, name, text) printf(".It Li %s\n.Pq loss\n", name), put_text(text);
    OWN_EVENT_TABLE(X)
#undef X
    puts(".El\n.Pp\nEach record that was lost is counted in exactly one\n.Li lost-records\nor\n"
         ".Li lost-denied\nrecord.");
}

static void put_tail(void) {
    puts(".Ss When the log cannot be written\n"
         "Writing stops when the disk is full (less than 1 MiB is free), when the file\n"
         "system is read-only, or when a write or flush fails; it is tried again twice a\n"
         "second.\n"
         "With\n.Ic log.when_full\nset to\n.Li refuse ,\n"
         "the default, nothing new is opened meanwhile; with\n.Li drop\n"
         "the gateway goes on without a log.\n"
         "Either way about a megabyte of records is kept in memory, and the record\n"
         ".Li log-gap\ntells of it once writing works again.");
    puts(".Sh FILES\n.Bl -tag -width Ds\n"
         ".It Pa tidegate.jsonl\nThe file being written.\n"
         ".It Pa tidegate-20261130T133700Z-4711.jsonl\n"
         "A file that was rotated at that time, when it reached\n.Ic log.segment_bytes ;\n"
         "the number is the sequence of its first record.\nThe oldest are removed when there are\n"
         "more than\n.Ic log.keep .\n"
         ".It Pa tidegate-20261130T133700Z-4711.torn\n"
         "The unfinished record that a crash of the machine left at the end of the file.\n.El");
    puts(".Sh EXAMPLES\nNames that were denied, by agent:\n.Bd -literal -offset indent\n"
         "jq -r 'select(.kind == \"query\" and .decision == \"deny\") |\n"
         "       [.agent, .name, .reason] | @tsv' tidegate.jsonl | sort | uniq -c\n.Ed");
    puts(".Sh SEE ALSO\n.Xr tidegate 1 ,\n.Xr tidegate.yaml 5 ,\n.Xr tidegated 8");
}

int main(void) {
    put_head();
    put_kinds();
    put_fields();
    put_reasons();
    put_events();
    put_tail();
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
