/* query.c: what a client asks. */
#include "resolver/wire/scan.h"

#include <errno.h>
#include <string.h>

#define UDP_SIZE_MIN 512 /* RFC 1035 section 4.2.1; RFC 6891 section 6.2.3: less means this */

/* The one question, kept in both cases; false when it does not parse. */
static bool question_read(struct scan *s, struct wire_query *q) {
    int length = scan_name_raw(s, s->size, false, q->raw);
    if (length < 0 || name_from_wire(q->raw, (size_t)length, &q->name) != length ||
        scan_left(s) < 4)
        return false;
    q->type = read16(s->bytes + s->at);
    q->class = read16(s->bytes + s->at + 2);
    q->question = true;
    s->at += 4;
    return true;
}

/* The additional section: an OPT is taken up, anything else (TSIG and SIG(0) too, which we have no
 * keys to check) passed over. */
static bool additional_read(struct scan *s, unsigned count, struct scan_opt *opt) {
    for (unsigned i = 0; i < count; i++) {
        struct scan_record r;
        if (scan_record(s, &r) < 0) return false;
        if (r.type == LDNS_RR_TYPE_OPT && scan_opt(s, &r, opt) < 0) return false;
    }
    return true;
}

static uint16_t udp_size(const struct scan_opt *opt) {
    if (!opt->present || opt->udp_size < UDP_SIZE_MIN) return UDP_SIZE_MIN;
    return opt->udp_size > WIRE_UDP_SIZE ? WIRE_UDP_SIZE : opt->udp_size;
}

static enum reason query_read(struct scan *s, struct wire_query *q) {
    unsigned questions = read16(s->bytes + 4), additional = read16(s->bytes + 10);
    bool bare = read16(s->bytes + 6) == 0 && read16(s->bytes + 8) == 0;
    struct scan_opt opt = {.present = false};

    /* The question is read even when the query is refused: the refusal echoes it, and the record
     * says what was asked. */
    bool asked = questions == 1 && question_read(s, q);
    if (q->opcode != 0) return REASON_BAD_OPCODE;
    if (!asked || !bare || additional > WIRE_RECORDS_MAX) return REASON_MALFORMED;
    bool sound = additional_read(s, additional, &opt) && scan_left(s) == 0;
    q->edns = opt.present;
    q->dnssec_ok = opt.dnssec_ok;
    q->udp_size = udp_size(&opt);
    if (!sound) return REASON_MALFORMED;
    if (opt.version != 0) return REASON_BAD_VERSION;
    return q->class == CLASS_IN ? REASON_ALLOWED : REASON_BAD_CLASS;
}

int wire_query_parse(const uint8_t *bytes, size_t size, struct wire_query *ret) {
    if (size < HEADER_SIZE || size > WIRE_MAX) return -EBADMSG;
    uint16_t flags = read16(bytes + 2);
    /* A response is never answered: two servers would answer each other for ever. */
    if (flags & FLAG_QR) return -EBADMSG;
    memset(ret, 0, sizeof *ret);
    ret->id = read16(bytes);
    ret->rd = (flags & FLAG_RD) != 0;
    ret->cd = (flags & FLAG_CD) != 0;
    ret->opcode = (uint8_t)((flags & FLAG_OPCODE) >> OPCODE_SHIFT);
    ret->udp_size = UDP_SIZE_MIN;
    struct scan s = {.bytes = bytes, .size = size, .at = HEADER_SIZE};
    ret->reason = query_read(&s, ret);
    return 0;
}
