/* build.c: replies to clients and queries to upstreams.
 *
 * Written straight into the caller's memory, no allocation: a reply is a handful of fixed shapes,
 * and this runs once for every query.
 */
#include "resolver/wire/scan.h"

#include <errno.h>
#include <string.h>

#include "gateway/base/buf.h"

#define POINTER_END  0x4000 /* a compression pointer reaches offsets below this */
#define NAMES_MAX    64     /* places to point to that one reply remembers */
#define EDE_OPTION   15     /* RFC 8914 section 2 */
#define EDE_TEXT_MAX 1024

/* The timers of a synthetic SOA; nobody transfers the zone, so only MINIMUM is ever looked at. */
enum { SOA_SERIAL = 1, SOA_REFRESH = 3600, SOA_RETRY = 600, SOA_EXPIRE = 86400 };

/* Where labels stand that a later name can point to, and the octets from there to the root, written
 * out. Only names of equal length are compared, so one name meets each place once at most: hostile
 * chains of long names cost no more than honest ones. */
struct place {
    uint16_t at;
    uint8_t length;
};

struct writer {
    struct buf b;
    unsigned names;
    struct place name[NAMES_MAX];
};

static void put16(struct buf *b, unsigned value) {
    uint8_t octets[2] = {(uint8_t)(value >> 8), (uint8_t)value};
    buf_put(b, octets, sizeof octets);
}

static void put32(struct buf *b, uint32_t value) {
    put16(b, value >> 16);
    put16(b, value & 0xffff);
}

static uint8_t fold(uint8_t c) {
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

/* Whether the name at offset `at` of what was written equals `wire`, without case. Our own pointers
 * lead strictly backwards, so this ends. */
static bool written_equals(const uint8_t *data, size_t at, const uint8_t *wire) {
    for (;;) {
        while (data[at] >= 0xc0) at = (size_t)(data[at] & 0x3f) << 8 | data[at + 1];
        size_t octets = (size_t)data[at] + 1;
        for (size_t i = 0; i < octets; i++)
            if (fold(data[at + i]) != fold(wire[i])) return false;
        if (octets == 1) return true;
        at += octets;
        wire += octets;
    }
}

/* Writes a name of `length` octets, its tail as a pointer where the same was written before.
 * Returns an offset at which it can be pointed to. */
static size_t put_name(struct writer *w, const uint8_t *wire, size_t length) {
    size_t start = w->b.used;
    unsigned known = w->names; /* only names that stand there whole can be compared */
    while (*wire != 0 && !w->b.overflow) {
        for (unsigned i = 0; i < known; i++) {
            if (w->name[i].length != length || !written_equals(w->b.data, w->name[i].at, wire))
                continue;
            bool whole = w->b.used == start;
            put16(&w->b, 0xc000u | w->name[i].at);
            return whole ? w->name[i].at : start;
        }
        size_t at = w->b.used, octets = (size_t)*wire + 1;
        buf_put(&w->b, wire, octets);
        if (at < POINTER_END && w->names < NAMES_MAX && !w->b.overflow)
            w->name[w->names++] = (struct place){(uint16_t)at, (uint8_t)length};
        wire += octets;
        length -= octets;
    }
    buf_put(&w->b, "", 1);
    return start;
}

static void put_owner(struct writer *w, size_t owner) {
    if (owner >= POINTER_END) w->b.overflow = true;
    put16(&w->b, 0xc000u | (unsigned)owner);
}

static void put_fixed(struct writer *w, size_t owner, unsigned type, uint32_t ttl) {
    put_owner(w, owner);
    put16(&w->b, type);
    put16(&w->b, CLASS_IN);
    put32(&w->b, ttl);
}

/* Fills in an RDLENGTH or a count that was left open at `at`. */
static void patch16(struct writer *w, size_t at, unsigned value) {
    if (w->b.overflow) return;
    w->b.data[at] = (uint8_t)(value >> 8);
    w->b.data[at + 1] = (uint8_t)value;
}

static unsigned put_chain(struct writer *w, const struct wire_reply *r, uint32_t ttl,
                          size_t *owner) {
    for (unsigned i = 0; i < r->chain_count; i++) {
        put_fixed(w, *owner, LDNS_RR_TYPE_CNAME, ttl);
        size_t length = w->b.used;
        put16(&w->b, 0);
        *owner = put_name(w, r->chain[i].target->wire, r->chain[i].target->length);
        patch16(w, length, (unsigned)(w->b.used - length - 2));
    }
    return r->chain_count;
}

static unsigned put_answers(struct writer *w, const struct wire_reply *r, size_t owner) {
    for (unsigned i = 0; i < r->addr_count; i++) {
        bool six = r->addrs[i].family == 6;
        put_fixed(w, owner, six ? LDNS_RR_TYPE_AAAA : LDNS_RR_TYPE_A, r->ttl);
        put16(&w->b, six ? 16 : 4);
        buf_put(&w->b, r->addrs[i].bytes, six ? 16 : 4);
    }
    for (unsigned i = 0; i < r->other_count; i++) {
        put_fixed(w, owner, r->others[i].type, r->ttl);
        put16(&w->b, r->others[i].rdata_size);
        buf_put(&w->b, r->others[i].rdata, r->others[i].rdata_size);
    }
    if (r->hinfo) { /* RFC 8482 section 4.2: CPU "RFC8482", empty OS */
        static const uint8_t hinfo[] = {7, 'R', 'F', 'C', '8', '4', '8', '2', 0};
        put_fixed(w, owner, LDNS_RR_TYPE_HINFO, r->ttl);
        put16(&w->b, sizeof hinfo);
        buf_put(&w->b, hinfo, sizeof hinfo);
    }
    return r->addr_count + r->other_count + (r->hinfo ? 1 : 0);
}

/* The owner is the name itself, not a zone above it: a cache that takes a SOA as the word of a
 * whole zone then learns nothing about any other name. MNAME and RNAME are the root: nobody. */
static void put_soa(struct writer *w, size_t owner, uint32_t ttl) {
    put_fixed(w, owner, LDNS_RR_TYPE_SOA, ttl);
    put16(&w->b, 2 + 20);
    buf_put(&w->b, "\0", 2);
    put32(&w->b, SOA_SERIAL);
    put32(&w->b, SOA_REFRESH);
    put32(&w->b, SOA_RETRY);
    put32(&w->b, SOA_EXPIRE);
    put32(&w->b, ttl);
}

static void put_opt(struct writer *w, const struct wire_query *q, const struct wire_reply *r,
                    bool ede, bool text) {
    size_t text_size = text && r->ede_text ? strnlen(r->ede_text, EDE_TEXT_MAX + 1) : 0;
    if (text_size > EDE_TEXT_MAX)
        text_size = 0; /* whole or not at all: a cut could fall inside a character */
    buf_put(&w->b, "", 1);
    put16(&w->b, LDNS_RR_TYPE_OPT);
    put16(&w->b, WIRE_UDP_SIZE);
    put32(&w->b, (uint32_t)(r->rcode >> 4) << 24 | (q->dnssec_ok ? OPT_DO : 0)); /* RFC 3225 s. 3 */
    if (!ede || r->ede == EDE_NONE) {
        put16(&w->b, 0);
        return;
    }
    put16(&w->b, (unsigned)(4 + 2 + text_size));
    put16(&w->b, EDE_OPTION);
    put16(&w->b, (unsigned)(2 + text_size));
    put16(&w->b, (unsigned)r->ede);
    buf_put(&w->b, r->ede_text, text_size);
}

/* What a reply keeps, from all of it down to the least. EDE is a comment, so it goes before the
 * answer does (RFC 8914 section 3). */
struct keep {
    bool records, ede, text;
};
static const struct keep keep_steps[] = {
    {true, true, true},  {true, true, false},  {true, false, false},
    {false, true, true}, {false, true, false}, {false, false, false},
};
#define KEEP_STEPS (sizeof keep_steps / sizeof keep_steps[0])

static unsigned header_flags(const struct wire_query *q, const struct wire_reply *r, bool cut) {
    /* Extended RCODEs need an OPT to be told; a client without EDNS never asks for one. */
    unsigned rcode = r->rcode > FLAG_RCODE && !q->edns ? RC_SERVFAIL : r->rcode;
    return FLAG_QR | (unsigned)q->opcode << OPCODE_SHIFT | (cut ? FLAG_TC : 0u) |
           (q->rd ? FLAG_RD : 0u) | FLAG_RA | (q->cd ? FLAG_CD : 0u) | (rcode & FLAG_RCODE);
}

/* Returns octets, or 0 when it does not fit. */
static size_t put_reply(const struct wire_query *q, const struct wire_reply *r,
                        const struct keep *keep, uint8_t *out, size_t limit) {
    struct writer w = {.b = buf_over(out, limit)};
    unsigned answers = 0, authority = 0;
    size_t owner = HEADER_SIZE;

    put16(&w.b, q->id);
    put16(&w.b, header_flags(q, r, !keep->records));
    put16(&w.b, q->question);
    put16(&w.b, 0); /* answers: patched below */
    put16(&w.b, 0); /* authority */
    put16(&w.b, q->edns);
    if (q->question) {
        put_name(&w, q->raw, q->name.length);
        put16(&w.b, q->type);
        put16(&w.b, q->class);
    }
    if (q->question && keep->records) {
        uint32_t ttl = r->synthetic_soa && r->soa_ttl < r->ttl ? r->soa_ttl : r->ttl;
        answers = put_chain(&w, r, ttl, &owner);
        answers += put_answers(&w, r, owner);
        if (r->synthetic_soa) {
            put_soa(&w, owner, r->soa_ttl);
            authority = 1;
        }
    }
    if (q->edns) put_opt(&w, q, r, keep->ede, keep->text);
    patch16(&w, 6, answers);
    patch16(&w, 8, authority);
    return w.b.overflow ? 0 : w.b.used;
}

int wire_build_reply(const struct wire_query *q, const struct wire_reply *r, size_t limit,
                     uint8_t *out, size_t size) {
    if (limit > size) limit = size;
    if (limit > WIRE_MAX) limit = WIRE_MAX;
    for (size_t i = 0; i < KEEP_STEPS; i++) {
        size_t used = put_reply(q, r, &keep_steps[i], out, limit);
        if (used > 0) return (int)used;
    }
    return -ENOSPC;
}

int wire_build_upstream(uint16_t id, const struct name *name, uint16_t type, uint8_t *out,
                        size_t size) {
    struct buf b = buf_over(out, size);
    put16(&b, id);
    put16(&b, FLAG_RD);
    put16(&b, 1);
    put16(&b, 0);
    put16(&b, 0);
    put16(&b, 1);
    buf_put(&b, name->wire, name->length);
    put16(&b, type);
    put16(&b, CLASS_IN);
    buf_put(&b, "", 1);
    put16(&b, LDNS_RR_TYPE_OPT);
    put16(&b, WIRE_UDP_SIZE);
    put32(&b, 0);
    put16(&b, 0);
    return b.overflow ? -ENOSPC : (int)b.used;
}
