/* request.c: requests of the control socket. */
#include "gateway/control/request.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gateway/control/rrtype.h"
#include "gateway/policy/policy.h"

enum field { FIELD_CLIENT = 1, FIELD_REMOTE = 2, FIELD_ADDRESS = 4, FIELD_NAME = 8, FIELD_TYPE = 16 };

static const char *const field_names[] = {"client", "remote", "address", "name", "type"};

static const struct {
    const char *name;
    enum request_op op;
    unsigned needs, takes; /* bits of enum field */
} ops[] = {
    {"status", OP_STATUS, 0, 0},
    {"openings", OP_OPENINGS, 0, FIELD_CLIENT | FIELD_REMOTE},
    {"why", OP_WHY, FIELD_ADDRESS, 0},
    {"explain", OP_EXPLAIN, FIELD_CLIENT | FIELD_NAME, FIELD_TYPE},
    {"reload", OP_RELOAD, 0, 0},
    {"version", OP_VERSION, 0, 0},
};

static int field_take(struct request *r, unsigned bit, const char *value) {
    switch (bit) {
    case FIELD_CLIENT: return addr_parse(value, &r->client);
    case FIELD_REMOTE:
    case FIELD_ADDRESS: return addr_parse(value, &r->remote);
    case FIELD_NAME: return name_from_text(value, &r->name);
    default: return rrtype_parse(value, &r->type);
    }
}

static unsigned field_bit(const char *name) {
    for (unsigned i = 0; i < sizeof field_names / sizeof field_names[0]; i++)
        if (!strcmp(name, field_names[i])) return 1u << i;
    return 0;
}

/* All members other than "op". Their names and values are the sender's, and are not repeated in
 * the error other than a field we know. */
static int fields_take(json_t *o, unsigned op, struct request *r, char error[REQUEST_ERROR_MAX]) {
    const char *key;
    json_t *value;
    unsigned seen = 0;
    json_object_foreach(o, key, value) {
        if (!strcmp(key, "op")) continue;
        unsigned bit = field_bit(key);
        if (!(bit & (ops[op].needs | ops[op].takes))) {
            snprintf(error, REQUEST_ERROR_MAX, "\"%s\" has a field that it does not take",
                     ops[op].name);
            return -EINVAL;
        }
        if (!json_is_string(value) || field_take(r, bit, json_string_value(value)) < 0) {
            snprintf(error, REQUEST_ERROR_MAX, "\"%s\" is not valid", key);
            return -EINVAL;
        }
        seen |= bit;
    }
    for (unsigned i = 0; i < sizeof field_names / sizeof field_names[0]; i++)
        if (ops[op].needs & ~seen & (1u << i)) {
            snprintf(error, REQUEST_ERROR_MAX, "\"%s\" needs \"%s\"", ops[op].name, field_names[i]);
            return -EINVAL;
        }
    return 0;
}

int request_parse(const char *line, size_t size, struct request *ret,
                  char error[REQUEST_ERROR_MAX]) {
    struct request r = {.type = TYPE_A};
    json_error_t at;
    int result = -EINVAL;
    json_t *o = json_loadb(line, size, JSON_REJECT_DUPLICATES, &at);
    const char *op = json_string_value(json_object_get(o, "op"));
    if (!o || !json_is_object(o)) {
        snprintf(error, REQUEST_ERROR_MAX, "not a JSON object on one line");
    } else if (!op) {
        snprintf(error, REQUEST_ERROR_MAX, "\"op\" is missing");
    } else {
        snprintf(error, REQUEST_ERROR_MAX,
                 "unknown \"op\": status, openings, why, explain, reload or version");
        for (unsigned i = 0; i < sizeof ops / sizeof ops[0]; i++) {
            if (strcmp(op, ops[i].name)) continue;
            r.op = ops[i].op;
            result = fields_take(o, i, &r, error);
        }
    }
    json_decref(o);
    if (result == 0) *ret = r;
    return result;
}
