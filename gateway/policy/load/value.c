/* value.c: the scalars. */
#include "gateway/policy/load/value.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

bool text_read(const struct reader *r, const struct node *n, const char *what, size_t most,
               const char **ret) {
    if (n->kind == NODE_BROKEN) return false;
    if (n->kind != NODE_TEXT) {
        fault_add(r->f, node_place(r, n), "%s must be one value, not a %s", what,
                  n->kind == NODE_LIST ? "list" : "mapping");
        return false;
    }
    if (n->text[0] == '\0') {
        fault_add(r->f, node_place(r, n), "%s is empty; give it a value, or remove the line", what);
        return false;
    }
    if (strlen(n->text) > most) {
        fault_add(r->f, node_place(r, n), "%s is longer than %zu bytes; shorten it", what, most);
        return false;
    }
    *ret = n->text;
    return true;
}

bool word_read(const struct reader *r, const struct node *n, const char *what, const char *extra,
               size_t most, const char **ret) {
    const char *text;
    if (!text_read(r, n, what, most, &text)) return false;
    for (const char *c = text; *c != '\0'; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (letter || (*c >= '0' && *c <= '9') || strchr(extra, *c)) continue;
        fault_add(r->f, node_place(r, n), "%s \"%s\" may hold letters, digits and %s only", what,
                  shown(text).text, extra);
        return false;
    }
    *ret = text;
    return true;
}

bool digits_parse(const char *text, size_t size, uint32_t most, uint32_t *ret) {
    uint64_t value = 0;
    if (size == 0 || size > 10 || (size > 1 && text[0] == '0')) return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    if (value > most) return false;
    *ret = (uint32_t)value;
    return true;
}

bool bool_read(const struct reader *r, const struct node *n, const char *what, uint32_t *ret) {
    const char *text;
    if (!text_read(r, n, what, 64, &text)) return false;
    bool yes = strcmp(text, "true") == 0;
    if (!yes && strcmp(text, "false") != 0) {
        fault_add(r->f, node_place(r, n), "%s is \"%s\"; write true or false", what,
                  shown(text).text);
        return false;
    }
    *ret = yes;
    return true;
}

bool number_read(const struct reader *r, const struct node *n, const char *what, uint32_t least,
                 uint32_t most, uint32_t *ret) {
    const char *text;
    uint32_t value;
    if (!text_read(r, n, what, 64, &text)) return false;
    if (!digits_parse(text, strlen(text), most, &value) || value < least) {
        fault_add(r->f, node_place(r, n),
                  "%s is \"%s\"; write a number from %" PRIu32 " to %" PRIu32, what,
                  shown(text).text, least, most);
        return false;
    }
    *ret = value;
    return true;
}

/* Seconds of one unit letter; 0: none. */
static uint32_t unit_seconds(char unit) {
    switch (unit) {
    case 's':
        return 1;
    case 'm':
        return 60;
    case 'h':
        return 3600;
    default:
        return 0;
    }
}

static const char *duration_text(uint32_t seconds, char text[16]) {
    if (seconds > 0 && seconds % 3600 == 0)
        snprintf(text, 16, "%" PRIu32 "h", seconds / 3600);
    else if (seconds > 0 && seconds % 60 == 0)
        snprintf(text, 16, "%" PRIu32 "m", seconds / 60);
    else
        snprintf(text, 16, "%" PRIu32 "s", seconds);
    return text;
}

bool duration_read(const struct reader *r, const struct node *n, const char *what, uint32_t least,
                   uint32_t most, uint32_t *ret) {
    const char *text;
    uint32_t count = 0;
    if (!text_read(r, n, what, 64, &text)) return false;
    size_t size = strlen(text);
    uint32_t unit = unit_seconds(text[size - 1]);
    if (unit == 0 && digits_parse(text, size, UINT32_MAX, &count)) {
        fault_add(r->f, node_place(r, n), "%s is \"%s\" without a unit; write %ss, %sm or %sh",
                  what, text, text, text, text);
        return false;
    }
    if (unit == 0 || !digits_parse(text, size - 1, UINT32_MAX, &count)) {
        fault_add(r->f, node_place(r, n), "%s is \"%s\"; write a duration such as 30s, 5m or 1h",
                  what, shown(text).text);
        return false;
    }
    uint64_t seconds = (uint64_t)count * unit;
    if (seconds < least || seconds > most) {
        char a[16], b[16];
        fault_add(r->f, node_place(r, n), "%s is %s; write a duration from %s to %s", what, text,
                  duration_text(least, a), duration_text(most, b));
        return false;
    }
    *ret = (uint32_t)seconds;
    return true;
}

bool choice_read(const struct reader *r, const struct node *n, const char *what,
                 const char *const *choices, size_t count, uint32_t *ret) {
    const char *text;
    if (!text_read(r, n, what, 256, &text)) return false;
    char list[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *ret = (uint32_t)i;
            return true;
        }
        const char *joint = i == 0 ? "" : i + 1 < count ? ", " : " or ";
        int size = snprintf(list + used, sizeof list - used, "%s%s", joint, choices[i]);
        used += (size_t)size; /* choices are few and short, see the callers */
    }
    fault_add(r->f, node_place(r, n), "%s is \"%s\"; write %s", what, shown(text).text, list);
    return false;
}

bool prefix_read(const struct reader *r, const struct node *n, const char *what,
                 struct prefix *ret) {
    const char *text;
    if (!text_read(r, n, what, 256, &text)) return false;
    struct place at = node_place(r, n);
    int error = prefix_parse(text, ret);
    if (error == 0) return true;
    if (error == -ERANGE) {
        fault_add(r->f, at, "%s \"%s\" has too many bits; IPv4 has at most /32, IPv6 /128", what,
                  shown(text).text);
    } else if (error == -EDOM) {
        char address[ADDR_TEXT_MAX], right[PREFIX_TEXT_MAX];
        size_t length = strcspn(text, "/");
        struct addr a;
        uint32_t bits = 0;
        memcpy(address, text, length);
        address[length] = '\0';
        addr_parse(address, &a);
        digits_parse(text + length + 1, strlen(text + length + 1), 128, &bits);
        struct prefix p = prefix_of(&a, (uint8_t)bits);
        fault_add(r->f, at,
                  "%s \"%s\" has bits set behind its length; write %s, or %s for the one "
                  "address",
                  what, text, prefix_format(&p, right), address);
    } else {
        fault_add(r->f, at,
                  "%s \"%s\" is no address or prefix; write one such as 10.77.1.0/24 or "
                  "\"fd77:1::/64\"",
                  what, shown(text).text);
    }
    return false;
}

bool addr_read(const struct reader *r, const struct node *n, const char *what, struct addr *ret) {
    const char *text;
    if (!text_read(r, n, what, 256, &text)) return false;
    if (addr_parse(text, ret) == 0) return true;
    fault_add(r->f, node_place(r, n),
              "%s \"%s\" is no address; write one such as 198.51.100.53 or \"2001:db8::53\"", what,
              shown(text).text);
    return false;
}

/* Days since 1970-01-01 in the Gregorian calendar; years from 1970. */
static int64_t days_of(int64_t year, unsigned month, unsigned day) {
    static const unsigned before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int64_t y = year - 1; /* leap days up to the end of the year before */
    int64_t days =
        365 * (year - 1970) + (y / 4 - y / 100 + y / 400) - (1969 / 4 - 1969 / 100 + 1969 / 400);
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days + before[month - 1] + (leap && month > 2) + day - 1;
}

static bool date_parse(const char *text, int64_t *ret) {
    static const unsigned lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (strlen(text) != 10 || text[4] != '-' || text[7] != '-') return false;
    unsigned part[3] = {0};
    static const struct { unsigned from, size; } where[] = {{0, 4}, {5, 2}, {8, 2}};
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned k = 0; k < where[i].size; k++) {
            char c = text[where[i].from + k];
            if (c < '0' || c > '9') return false;
            part[i] = part[i] * 10 + (unsigned)(c - '0');
        }
    }
    unsigned year = part[0], month = part[1], day = part[2];
    if (year < 1970 || month < 1 || month > 12 || day < 1) return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day > lengths[month - 1] + (month == 2 && leap)) return false;
    *ret = days_of(year, month, day);
    return true;
}

bool date_read(const struct reader *r, const struct node *n, const char *what, int64_t *ret) {
    const char *text;
    if (!text_read(r, n, what, 256, &text)) return false;
    if (date_parse(text, ret)) return true;
    fault_add(r->f, node_place(r, n),
              "%s \"%s\" is no date of the calendar; write one such as 2027-03-01", what,
              shown(text).text);
    return false;
}

const char *ranges_text(uint32_t ranges, char text[128]) {
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i <= RANGE_RESERVED; i++) {
        if (!(ranges >> i & 1)) continue;
        int size = snprintf(text + used, 128 - used, "%s%s", used > 0 ? ", " : "",
                            addr_range_name((enum addr_range)i));
        used += (size_t)size; /* all names together are shorter than 128 */
    }
    return text;
}
