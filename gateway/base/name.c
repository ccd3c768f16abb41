/* name.c: domain names, canonical form. */
#include "gateway/base/name.h"

#include <errno.h>
#include <string.h>

#include "gateway/base/addr.h"

static uint8_t fold(uint8_t c) {
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

int name_from_wire(const uint8_t *wire, size_t size, struct name *ret) {
    if (size > NAME_WIRE_MAX) size = NAME_WIRE_MAX;
    size_t end = 0; /* of what is known to be labels */
    for (;;) {
        if (end >= size) return -EBADMSG;
        /* Above 63 are compression pointers (192..) and label types that never came to be. */
        if (wire[end] > NAME_LABEL_MAX) return -EBADMSG;
        if (wire[end] == 0) break;
        end += 1 + (size_t)wire[end];
    }
    end++;
    /* Length octets are below 'A', so folding every octet leaves them alone. */
    for (size_t i = 0; i < end; i++) ret->wire[i] = fold(wire[i]);
    memset(ret->wire + end, 0, sizeof ret->wire - end);
    ret->length = (uint8_t)end;
    return (int)end;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Reads one octet of a label, escaped or not. Returns characters used, or -EINVAL. */
static int text_octet(const char *text, uint8_t *ret) {
    if (text[0] < 0x21 || text[0] > 0x7e) return -EINVAL;
    if (text[0] != '\\') {
        *ret = (uint8_t)text[0];
        return 1;
    }
    if (!is_digit(text[1])) {
        if (text[1] < 0x20 || text[1] > 0x7e) return -EINVAL;
        *ret = (uint8_t)text[1];
        return 2;
    }
    if (!is_digit(text[2]) || !is_digit(text[3])) return -EINVAL;
    int value = (text[1] - '0') * 100 + (text[2] - '0') * 10 + (text[3] - '0');
    if (value > 255) return -EINVAL;
    *ret = (uint8_t)value;
    return 4;
}

int name_from_text(const char *text, struct name *ret) {
    uint8_t wire[NAME_WIRE_MAX] = {0};
    size_t label = 0, used = 1; /* where the open label's length octet is; octets used with it */
    if (strcmp(text, ".") == 0) text = "";
    else if (*text == '\0') return -EINVAL;
    while (*text != '\0') {
        if (*text == '.') {
            if (wire[label] == 0 || used == NAME_WIRE_MAX) return -EINVAL;
            label = used++;
            text++;
            continue;
        }
        uint8_t octet = 0;
        int step = text_octet(text, &octet);
        if (step < 0 || wire[label] == NAME_LABEL_MAX || used == NAME_WIRE_MAX) return -EINVAL;
        wire[used++] = octet;
        wire[label]++;
        text += step;
    }
    /* An open label that is empty is the root: after a trailing dot, or of ".". */
    if (wire[label] != 0) {
        if (used == NAME_WIRE_MAX) return -EINVAL;
        used++;
    }
    name_from_wire(wire, used, ret); /* folds; it takes whatever was built above */
    return 0;
}

/* Writes the text of one octet of a label; returns how many characters, at most 4. */
static unsigned octet_text(uint8_t c, char out[4]) {
    if (c <= 0x20 || c >= 0x7f || c == '"') {
        out[0] = '\\';
        out[1] = (char)('0' + c / 100);
        out[2] = (char)('0' + c / 10 % 10);
        out[3] = (char)('0' + c % 10);
        return 4;
    }
    unsigned at = 0;
    if (c == '.' || c == '\\') out[at++] = '\\';
    out[at++] = (char)c;
    return at;
}

int name_to_text(const struct name *n, char *text, size_t size) {
    char all[NAME_TEXT_MAX];
    size_t used = 0;
    for (size_t at = 0; n->wire[at] != 0; at += 1 + (size_t)n->wire[at]) {
        if (at > 0) all[used++] = '.';
        for (size_t i = 1; i <= n->wire[at]; i++) used += octet_text(n->wire[at + i], all + used);
    }
    if (used == 0) all[used++] = '.';
    if (used >= size) return -ENOSPC;
    memcpy(text, all, used);
    text[used] = '\0';
    return (int)used;
}

bool name_valid(const struct name *n) {
    size_t at = 0;
    while (at < n->length && n->wire[at] != 0) {
        size_t label = n->wire[at];
        if (label > NAME_LABEL_MAX) return false;
        at += 1 + label;
    }
    if (n->length == 0 || at != (size_t)n->length - 1) return false;
    for (size_t i = 0; i < at; i++) {
        if (fold(n->wire[i]) != n->wire[i]) return false;
    }
    static const uint8_t zero[NAME_WIRE_MAX];
    return memcmp(n->wire + at, zero, sizeof n->wire - at) == 0;
}

bool name_equal(const struct name *a, const struct name *b) {
    return a->length == b->length && memcmp(a->wire, b->wire, a->length) == 0;
}

unsigned name_labels(const struct name *n) {
    unsigned count = 0;
    for (size_t at = 0; n->wire[at] != 0; at += 1 + (size_t)n->wire[at]) count++;
    return count;
}

bool name_within(const struct name *n, const struct name *base) {
    if (n->length < base->length) return false;
    size_t start = (size_t)n->length - base->length, at = 0;
    while (at < start) at += 1 + (size_t)n->wire[at];
    return at == start && memcmp(n->wire + start, base->wire, base->length) == 0;
}

static bool is_host_octet(uint8_t c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool name_is_host(const struct name *n) {
    if (n->length <= 1) return false; /* the root names no host */
    for (size_t at = 0; n->wire[at] != 0; at += 1 + (size_t)n->wire[at]) {
        for (size_t i = 1; i <= n->wire[at]; i++) {
            if (!is_host_octet(n->wire[at + i])) return false;
        }
    }
    return true;
}

/* Reads a label of decimal digits as an octet of an address; -EINVAL for "01" or "256". */
static int label_octet(const uint8_t *label, uint8_t *ret) {
    if (label[0] > 3 || (label[0] > 1 && label[1] == '0')) return -EINVAL;
    unsigned value = 0;
    for (unsigned i = 1; i <= label[0]; i++) {
        if (!is_digit((char)label[i])) return -EINVAL;
        value = value * 10 + (label[i] - (unsigned)'0');
    }
    if (value > 255) return -EINVAL;
    *ret = (uint8_t)value;
    return 0;
}

/* Reads a label of one hexadecimal digit, in lower case as all names are; -EINVAL if it is none. */
static int label_nibble(const uint8_t *label) {
    if (label[0] != 1) return -EINVAL;
    if (is_digit((char)label[1])) return label[1] - '0';
    if (label[1] >= 'a' && label[1] <= 'f') return label[1] - 'a' + 10;
    return -EINVAL;
}

static int reverse4(const struct name *n, struct addr *ret) {
    uint8_t bytes[4];
    const uint8_t *label = n->wire;
    for (unsigned i = 4; i-- > 0; label += 1 + label[0]) {
        if (label_octet(label, &bytes[i]) < 0) return -EINVAL;
    }
    *ret = addr_from4(bytes);
    return 0;
}

static int reverse6(const struct name *n, struct addr *ret) {
    uint8_t bytes[16];
    for (unsigned i = 0; i < 16; i++) { /* 32 labels of 2 octets each, last nibble first */
        int low = label_nibble(n->wire + 4 * i), high = label_nibble(n->wire + 4 * i + 2);
        if (low < 0 || high < 0) return -EINVAL;
        bytes[15 - i] = (uint8_t)(high << 4 | low);
    }
    *ret = addr_from6(bytes);
    return 0;
}

int name_to_reverse_addr(const struct name *n, struct addr *ret) {
    static const struct name arpa4 = {14, "\7in-addr\4arpa"}, arpa6 = {10, "\3ip6\4arpa"};
    if (name_within(n, &arpa4) && name_labels(n) == 6) return reverse4(n, ret);
    if (name_within(n, &arpa6) && name_labels(n) == 34) return reverse6(n, ret);
    return -EINVAL;
}
