/* answer.c: what an upstream says.
 *
 * The whole message is held to the rules, also the parts nothing is taken from: a sender that gets
 * a count or a length wrong may have got an address wrong.
 */
#include "resolver/wire/scan.h"

#include <errno.h>
#include <string.h>

static uint32_t ttl_of(const struct scan_record *r) {
    return r->ttl & 0x80000000u ? 0 : r->ttl; /* RFC 2181 section 8 */
}

/* The message answers (name, type) asked with `id`; the cursor ends up after the question. */
static int question_check(struct scan *s, uint16_t id, const struct name *name, uint16_t type) {
    uint16_t flags = read16(s->bytes + 2);
    struct name asked;
    if (read16(s->bytes) != id || !(flags & FLAG_QR) || (flags & FLAG_OPCODE) != 0 ||
        read16(s->bytes + 4) != 1)
        return -EPROTO;
    if (scan_name(s, s->size, &asked) < 0 || scan_left(s) < 4) return -EBADMSG;
    if (!name_equal(&asked, name) || read16(s->bytes + s->at) != type ||
        read16(s->bytes + s->at + 2) != CLASS_IN)
        return -EPROTO;
    s->at += 4;
    return 0;
}

static int record_keep(const struct scan *s, const struct scan_record *r, struct arena *arena,
                       struct wire_record *ret) {
    uint8_t rdata[WIRE_RDATA_MAX];
    int size = scan_rdata(s, r, rdata, sizeof rdata);
    if (size < 0) return size;
    uint8_t *copy = arena_alloc(arena, size > 0 ? (size_t)size : 1);
    if (!copy) return -ENOMEM;
    memcpy(copy, rdata, (size_t)size);
    ret->owner = r->owner;
    ret->type = r->type;
    ret->class = r->class;
    ret->ttl = ttl_of(r);
    ret->rdata = copy;
    ret->rdata_size = (uint16_t)size;
    if (r->type == LDNS_RR_TYPE_A)
        ret->addr = addr_from4(copy);
    else if (r->type == LDNS_RR_TYPE_AAAA)
        ret->addr = addr_from6(copy);
    else if (r->type == LDNS_RR_TYPE_CNAME || r->type == LDNS_RR_TYPE_DNAME)
        return name_from_wire(copy, (size_t)size, &ret->target) == size ? 0 : -EBADMSG;
    return 0;
}

static int answers_read(struct scan *s, unsigned count, struct arena *arena,
                        struct wire_answer *ret) {
    if (count == 0) return 0;
    struct wire_record *records = arena_alloc(arena, count * sizeof *records);
    if (!records) return -ENOMEM;
    for (unsigned i = 0; i < count; i++) {
        struct scan_record r;
        if (scan_record(s, &r) < 0 || r.type == LDNS_RR_TYPE_OPT) return -EBADMSG;
        int error = record_keep(s, &r, arena, &records[i]);
        if (error < 0) return error;
    }
    ret->records = records;
    ret->count = (uint16_t)count;
    return 0;
}

/* Only the SOA is of use (RFC 2308); the first one, should there be more. */
static int authority_read(struct scan *s, unsigned count, struct wire_answer *ret) {
    for (unsigned i = 0; i < count; i++) {
        struct scan_record r;
        uint8_t rdata[WIRE_RDATA_MAX];
        if (scan_record(s, &r) < 0 || r.type == LDNS_RR_TYPE_OPT) return -EBADMSG;
        int size = scan_rdata(s, &r, rdata, sizeof rdata);
        if (size < 0) return -EBADMSG;
        if (r.type != LDNS_RR_TYPE_SOA || r.class != CLASS_IN || ret->has_soa) continue;
        uint32_t minimum = read32(rdata + size - 4), ttl = ttl_of(&r);
        ret->has_soa = true;
        ret->soa_owner = r.owner;
        ret->soa_ttl = minimum < ttl ? minimum : ttl;
    }
    return 0;
}

static int additional_read(struct scan *s, unsigned count, struct wire_answer *ret) {
    struct scan_opt opt = {.present = false};
    for (unsigned i = 0; i < count; i++) {
        struct scan_record r;
        uint8_t rdata[WIRE_RDATA_MAX];
        if (scan_record(s, &r) < 0) return -EBADMSG;
        int error = r.type == LDNS_RR_TYPE_OPT ? scan_opt(s, &r, &opt)
                                               : scan_rdata(s, &r, rdata, sizeof rdata);
        if (error < 0) return -EBADMSG;
    }
    ret->extended_rcode = (uint16_t)(opt.extended_rcode << 4 | ret->rcode);
    return 0;
}

static int sections_read(struct scan *s, struct arena *arena, struct wire_answer *ret) {
    unsigned answers = read16(s->bytes + 6), authority = read16(s->bytes + 8);
    unsigned additional = read16(s->bytes + 10);
    /* Before memory is asked for: counts that the octets at hand cannot hold. */
    if (answers > WIRE_RECORDS_MAX || authority > WIRE_RECORDS_MAX ||
        additional > WIRE_RECORDS_MAX ||
        (size_t)(answers + authority + additional) * RECORD_MIN > scan_left(s))
        return -EBADMSG;
    int error = answers_read(s, answers, arena, ret);
    if (error == 0) error = authority_read(s, authority, ret);
    if (error == 0) error = additional_read(s, additional, ret);
    if (error == 0 && scan_left(s) != 0) error = -EBADMSG;
    return error;
}

int wire_answer_parse(const uint8_t *bytes, size_t size, uint16_t id, const struct name *name,
                      uint16_t type, struct arena *arena, struct wire_answer *ret) {
    if (size < HEADER_SIZE || size > WIRE_MAX) return -EBADMSG;
    struct scan s = {.bytes = bytes, .size = size, .at = HEADER_SIZE};
    int error = question_check(&s, id, name, type);
    if (error < 0) return error;
    uint16_t flags = read16(bytes + 2);
    struct wire_answer answer = {.id = id,
                                 .rcode = flags & FLAG_RCODE,
                                 .extended_rcode = flags & FLAG_RCODE,
                                 .truncated = (flags & FLAG_TC) != 0};
    /* RFC 2181 section 9: what is truncated is asked again over TCP, never used; some servers cut
     * it off in mid-record, so the rest is not even read. */
    if (!answer.truncated) error = sections_read(&s, arena, &answer);
    if (error == 0) *ret = answer;
    return error;
}
