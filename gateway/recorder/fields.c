/* fields.c: the tables of fields.h as data. */
#include "gateway/recorder/fields.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "gateway/base/reason.h"
#include "gateway/proto/proto.h"

const struct field_info field_table[FIELD_TOTAL] = {
#define X(id, name, type, kinds, text) [FIELD_##id] = {name, FIELD_TYPE_##type, kinds, text},
    FIELD_TABLE(X)
#undef X
};

const char *kind_name(enum record_kind kind) {
    static const char *const names[KIND_COUNT] = {
#define X(id, name, text) [KIND_##id] = name,
        KIND_TABLE(X)
#undef X
    };
    return names[kind];
}

const char *decision_of(uint32_t reason) {
    switch (reason) {
    case REASON_ALLOWED:
    case REASON_NO_IPV6:
    case REASON_NO_NAME:
    case REASON_NO_DATA:
    case REASON_UPSTREAM_TIMEOUT:
    case REASON_UPSTREAM_NETWORK:
    case REASON_UPSTREAM_ERROR:
        return "allow";
    default:
        return "deny";
    }
}

static const struct {
    const char *id, *kind, *text;
} events[] = {
    [EVENT_NONE] = {NULL, NULL, NULL},
#define X(id, kind, text) [EVENT_##id] = {#id, kind, text},
    EVENT_TABLE(X)
#undef X
};

const char *event_tag(uint32_t code, char text[32]) {
    if (code == EVENT_NONE || code >= EVENT_END) return NULL;
    const char *id = events[code].id;
    size_t i = 0;
    for (; id[i] != '\0' && i < 31; i++)
        text[i] = id[i] == '_' ? '-' : (char)tolower((unsigned char)id[i]);
    text[i] = '\0';
    return text;
}

enum record_kind event_kind(uint32_t code) {
    if (code == EVENT_NONE || code >= EVENT_END) return KIND_LOSS;
    for (enum record_kind k = 0; k < KIND_COUNT; k++)
        if (strcmp(kind_name(k), events[code].kind) == 0) return k;
    return KIND_LOSS;
}

const char *event_text(uint32_t code) {
    return code == EVENT_NONE || code >= EVENT_END ? NULL : events[code].text;
}

int event_names_process(uint32_t code) {
    return code == EVENT_CHILD_ENDED || code == EVENT_CHILD_ENDED_BY_CORE ||
           code == EVENT_LOST_RECORDS;
}
