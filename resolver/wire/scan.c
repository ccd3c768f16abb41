/* scan.c: names, record headers and OPT, read from hostile bytes. RFC 9267 lists what goes wrong
 * in code of this kind; each of its points is checked here.
 */
#include "resolver/wire/scan.h"

#include <errno.h>
#include <string.h>

int scan_name_raw(struct scan *s, size_t end, bool pointers, uint8_t *raw) {
    size_t at = s->at;      /* where we read */
    size_t segment = s->at; /* where this run of labels began: a pointer must lead before it */
    size_t after = 0;       /* first octet after the name where it stands; 0: no pointer yet */
    size_t length = 0;
    unsigned followed = 0;

    for (;;) {
        if (at >= end) return -EBADMSG;
        uint8_t octet = s->bytes[at];
        if (octet >= 0xc0) {
            if (!pointers || end - at < 2 || ++followed > POINTERS_MAX) return -EBADMSG;
            size_t target = (size_t)(octet & 0x3f) << 8 | s->bytes[at + 1];
            /* Strictly backwards (RFC 1035 section 4.1.4: "a prior occurrence"), so it ends; and
             * never into the header. */
            if (target < HEADER_SIZE || target >= segment) return -EBADMSG;
            if (after == 0) after = at + 2;
            end = segment; /* what is pointed to lies wholly before what points to it */
            at = segment = target;
            continue;
        }
        /* 0x40 and 0x80 are label types nobody speaks (RFC 6891 section 5). */
        if (octet > NAME_LABEL_MAX || end - at < (size_t)octet + 1 ||
            length + octet + 1 > NAME_WIRE_MAX)
            return -EBADMSG;
        memcpy(raw + length, s->bytes + at, (size_t)octet + 1);
        length += (size_t)octet + 1;
        at += (size_t)octet + 1;
        if (octet == 0) break;
    }
    s->at = after ? after : at;
    return (int)length;
}

int scan_name(struct scan *s, size_t end, struct name *ret) {
    uint8_t raw[NAME_WIRE_MAX];
    size_t start = s->at;
    int length = scan_name_raw(s, end, true, raw);
    if (length < 0) return length;
    if (name_from_wire(raw, (size_t)length, ret) != length) {
        s->at = start;
        return -EBADMSG;
    }
    return 0;
}

int scan_record(struct scan *s, struct scan_record *ret) {
    struct scan look = *s;
    struct scan_record r = {.type = 0};
    if (scan_name(&look, look.size, &r.owner) < 0 || scan_left(&look) < RECORD_MIN - 1)
        return -EBADMSG;
    const uint8_t *fixed = look.bytes + look.at;
    r.type = read16(fixed);
    r.class = read16(fixed + 2);
    r.ttl = read32(fixed + 4);
    r.rdata_size = read16(fixed + 8);
    look.at += RECORD_MIN - 1;
    if (scan_left(&look) < r.rdata_size) return -EBADMSG;
    r.rdata = look.at;
    look.at += r.rdata_size;
    *ret = r;
    *s = look;
    return 0;
}

/* RFC 6891 section 6.1.2: {code, length, data} again and again until the rdata ends. */
static bool options_fit(const uint8_t *p, size_t size) {
    while (size > 0) {
        if (size < 4) return false;
        size_t option = (size_t)4 + read16(p + 2);
        if (option > size) return false;
        p += option;
        size -= option;
    }
    return true;
}

int scan_opt(const struct scan *s, const struct scan_record *r, struct scan_opt *opt) {
    uint8_t version = (uint8_t)(r->ttl >> 16);
    if (opt->present || r->owner.length != 1) return -EBADMSG;
    /* What the rdata of another version looks like is not for us to say. */
    if (version == 0 && !options_fit(s->bytes + r->rdata, r->rdata_size)) return -EBADMSG;
    *opt = (struct scan_opt){.present = true,
                             .udp_size = r->class,
                             .extended_rcode = (uint8_t)(r->ttl >> 24),
                             .version = version,
                             .dnssec_ok = (r->ttl & OPT_DO) != 0};
    return 0;
}
