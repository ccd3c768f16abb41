/* dns.c: writing queries and answers, reading replies. */
#include "tests/scenario/dns.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MAX_OUT 65535

static const struct { const char *name; uint16_t number; } types[] = {
    {"A", 1}, {"NS", 2}, {"CNAME", 5}, {"SOA", 6}, {"NULL", 10}, {"PTR", 12}, {"HINFO", 13},
    {"MX", 15}, {"TXT", 16}, {"AAAA", 28}, {"SRV", 33}, {"DNAME", 39}, {"SVCB", 64},
    {"HTTPS", 65}, {"ANY", 255}};
static const char *const rcodes[] = {"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP",
                                     "REFUSED", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                     NULL, NULL, "BADVERS"};

uint16_t dns_type(const char *text) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, text) == 0)
            return types[i].number;
    return strncmp(text, "TYPE", 4) == 0 ? (uint16_t)strtoul(text + 4, NULL, 10) : 0;
}

static const char *type_name(unsigned number, char text[16]) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number)
            return types[i].name;
    snprintf(text, 16, "TYPE%u", number);
    return text;
}

int dns_rcode(const char *text) {
    for (size_t i = 0; i < sizeof rcodes / sizeof *rcodes; i++)
        if (rcodes[i] && strcmp(rcodes[i], text) == 0)
            return (int)i;
    return -1;
}

const char *dns_rcode_name(unsigned rcode) {
    return rcode < sizeof rcodes / sizeof *rcodes && rcodes[rcode] ? rcodes[rcode] : "?";
}

/* ---- writing ---------------------------------------------------------------------------------- */

static int put16(uint8_t *out, int at, unsigned value) {
    out[at] = (uint8_t)(value >> 8);
    out[at + 1] = (uint8_t)value;
    return at + 2;
}

static int put32(uint8_t *out, int at, uint32_t value) {
    return put16(out, put16(out, at, value >> 16), value & 0xffff);
}

/* Case kept, nothing checked but the label lengths: tests write wrong names too. */
static int put_name(uint8_t *out, int at, const char *text) {
    while (*text && strcmp(text, ".") != 0) {
        int length = at++;
        while (*text && *text != '.') {
            if (*text == '\\' && isdigit((unsigned char)text[1]) && text[2] && text[3]) {
                char digits[4] = {text[1], text[2], text[3], 0};
                out[at++] = (uint8_t)strtoul(digits, NULL, 10);
                text += 4;
            } else {
                if (*text == '\\' && text[1])
                    text++;
                out[at++] = (uint8_t)*text++;
            }
        }
        out[length] = (uint8_t)(at - length - 1);
        if (*text == '.')
            text++;
        if (at > 60000)
            return -1;
    }
    out[at++] = 0;
    return at;
}

int dns_write_query(const struct dns_query *q, uint8_t *out) {
    int at = put16(out, 0, q->id);
    at = put16(out, at, q->opcode << 11 | 0x0100);
    at = put16(out, at, 1);
    at = put32(out, at, 0);
    at = put16(out, at, q->edns || q->version ? 1 : 0);
    at = put_name(out, at, q->name);
    if (at < 0)
        return -1;
    at = put16(out, put16(out, at, q->type), q->class);
    if (q->edns || q->version) {
        out[at++] = 0;
        at = put16(out, put16(out, at, 41), q->edns);
        at = put32(out, at, q->version << 16);
        at = put16(out, at, 0);
    }
    return at;
}

int dns_begin_answer(uint16_t id, const char *name, uint16_t type, unsigned rcode, uint8_t *out) {
    int at = put16(out, 0, id);
    at = put16(out, at, 0x8180 | rcode);
    at = put16(out, at, 1);
    at = put16(out, put32(out, at, 0), 0);
    at = put_name(out, at, name);
    return at < 0 ? -1 : put16(out, put16(out, at, type), 1);
}

static int put_hex(uint8_t *out, int at, const char *hex) {
    for (; hex[0] && hex[1]; hex += 2) {
        char digits[3] = {hex[0], hex[1], 0}, *end;
        out[at++] = (uint8_t)strtoul(digits, &end, 16);
        if (*end)
            return -1;
    }
    return at;
}

static int put_rdata(uint8_t *out, int at, unsigned type, char *words[], int count) {
    struct addr a;
    if (count < 1)
        return -1;
    if (strcmp(words[0], "\\#") == 0)
        return count < 2 ? at : put_hex(out, at, words[1]);
    switch (type) {
    case 1:
    case 28:
        if (addr_parse(words[0], &a) < 0 || a.family != (type == 1 ? 4 : 6))
            return -1;
        memcpy(out + at, a.bytes, type == 1 ? 4 : 16);
        return at + (type == 1 ? 4 : 16);
    case 2:
    case 5:
    case 12:
    case 39:
        return put_name(out, at, words[0]);
    case 15:
        return count < 2 ? -1 : put_name(out, put16(out, at, (unsigned)strtoul(words[0], NULL, 10)), words[1]);
    case 16:
        out[at++] = (uint8_t)strlen(words[0]);
        memcpy(out + at, words[0], strlen(words[0]));
        return at + (int)strlen(words[0]);
    case 6: /* mname rname minimum */
        if (count < 3)
            return -1;
        at = put_name(out, put_name(out, at, words[0]), words[1]);
        for (int i = 0; i < 4; i++)
            at = put32(out, at, 1000);
        return put32(out, at, (uint32_t)strtoul(words[2], NULL, 10));
    default:
        return -1;
    }
}

int dns_add(uint8_t *out, int size, const char *text) {
    char copy[2048], *words[8], *save = NULL;
    int count = 0, section = 6;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *w = strtok_r(copy, " \t", &save); w && count < 8; w = strtok_r(NULL, " \t", &save))
        words[count++] = w;
    int first = 0;
    if (count > 0 && strcmp(words[0], "auth:") == 0)
        section = 8, first = 1;
    else if (count > 0 && strcmp(words[0], "add:") == 0)
        section = 10, first = 1;
    if (count - first < 4)
        return -1;
    uint16_t type = dns_type(words[first + 2]);
    int at = put_name(out, size, words[first]);
    if (at < 0 || type == 0)
        return -1;
    at = put16(out, put16(out, at, type), 1);
    at = put32(out, at, (uint32_t)strtoul(words[first + 1], NULL, 10));
    int end = put_rdata(out, at + 2, type, words + first + 3, count - first - 3);
    if (end < 0 || end > SIZE_MAX_OUT)
        return -1;
    put16(out, at, (unsigned)(end - at - 2));
    put16(out, section, (unsigned)((out[section] << 8 | out[section + 1]) + 1));
    return end;
}

/* ---- reading ---------------------------------------------------------------------------------- */

struct reader {
    const uint8_t *bytes;
    size_t size, at;
    bool bad;
};

static unsigned get(struct reader *r, int octets) {
    unsigned value = 0;
    if (r->at + (size_t)octets > r->size) {
        r->bad = true;
        return 0;
    }
    while (octets-- > 0)
        value = value << 8 | r->bytes[r->at++];
    return value;
}

static void get_name(struct reader *r, char *text, size_t size) {
    size_t at = r->at, used = 0;
    bool jumped = false;
    for (int steps = 0; steps < 200; steps++) {
        if (at >= r->size)
            break;
        unsigned length = r->bytes[at];
        if (length >= 0xc0) {
            if (at + 1 >= r->size)
                break;
            if (!jumped)
                r->at = at + 2;
            jumped = true;
            at = (length & 0x3f) << 8 | r->bytes[at + 1];
            continue;
        }
        if (length == 0) {
            if (!jumped)
                r->at = at + 1;
            text[used ? used - 1 : 0] = '\0';
            return;
        }
        if (at + 1 + length > r->size || used + length + 2 > size)
            break;
        memcpy(text + used, r->bytes + at + 1, length);
        used += length;
        text[used++] = '.';
        at += 1 + length;
    }
    text[0] = '\0';
    r->bad = true;
}

static void append(char *list, const char *text) {
    size_t used = strlen(list);
    snprintf(list + used, DNS_TEXT_MAX - used, "%s%s", used ? "," : "", text);
}

static void read_opt(struct reader *r, struct dns_reply *ret, uint32_t ttl, size_t end) {
    ret->opt = true;
    ret->rcode |= ttl >> 24 << 4;
    while (!r->bad && r->at < end) {
        unsigned code = get(r, 2), length = get(r, 2);
        if (r->at + length > end) {
            r->bad = true;
            return;
        }
        if (code == 15 && length >= 2) {
            ret->ede = (int)(r->bytes[r->at] << 8 | r->bytes[r->at + 1]);
            snprintf(ret->ede_text, sizeof ret->ede_text, "%.*s", (int)length - 2,
                     (const char *)r->bytes + r->at + 2);
        }
        r->at += length;
    }
}

static void read_answer(struct reader *r, struct dns_reply *ret, unsigned type, uint32_t ttl,
                        unsigned length) {
    char text[300], number[16];
    ret->answer_count++;
    if (ttl < ret->ttl_min)
        ret->ttl_min = ttl;
    if (ttl > ret->ttl_max)
        ret->ttl_max = ttl;
    if ((type == 1 && length == 4) || (type == 28 && length == 16)) {
        if (ret->addr_count < DNS_ADDRS_MAX)
            ret->addrs[ret->addr_count++] = type == 1 ? addr_from4(r->bytes + r->at)
                                                      : addr_from6(r->bytes + r->at);
        return;
    }
    if (type == 5) {
        get_name(r, text, sizeof text);
        append(ret->chain, text);
        return;
    }
    char other[320];
    ret->other_count++;
    text[0] = '\0';
    if (type == 12)
        get_name(r, text, sizeof text);
    snprintf(other, sizeof other, "%s%s%s", type_name(type, number), text[0] ? ":" : "", text);
    append(ret->others, other);
}

static void read_record(struct reader *r, struct dns_reply *ret, int section) {
    char owner[300];
    get_name(r, owner, sizeof owner);
    unsigned type = get(r, 2);
    get(r, 2);
    uint32_t ttl = get(r, 4);
    unsigned length = get(r, 2);
    size_t end = r->at + length;
    if (r->bad || end > r->size) {
        r->bad = true;
        return;
    }
    if (section == 0)
        read_answer(r, ret, type, ttl, length);
    else if (section == 1 && type == 6) {
        ret->soa = true;
        ret->soa_ttl = ttl;
    } else if (type == 41)
        read_opt(r, ret, ttl, end);
    r->at = end;
}

int dns_read_reply(const uint8_t *bytes, size_t size, struct dns_reply *ret) {
    struct reader r = {.bytes = bytes, .size = size};
    memset(ret, 0, sizeof *ret);
    ret->ede = -1;
    ret->ttl_min = UINT32_MAX;
    ret->id = (uint16_t)get(&r, 2);
    unsigned flags = get(&r, 2), counts[4];
    for (int i = 0; i < 4; i++)
        counts[i] = get(&r, 2);
    if (r.bad || !(flags & 0x8000) || counts[0] > 1)
        return -1;
    ret->rcode = flags & 15;
    ret->truncated = flags & 0x0200;
    ret->question = bytes + r.at;
    if (counts[0] == 1) {
        char name[300];
        get_name(&r, name, sizeof name);
        get(&r, 4);
    }
    ret->question_size = r.at - 12;
    for (int section = 0; section < 3; section++)
        for (unsigned i = 0; i < counts[section + 1] && !r.bad; i++)
            read_record(&r, ret, section);
    return r.bad || r.at != size ? -1 : 0;
}
