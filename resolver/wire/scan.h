/* scan.h: a cursor over a message and the strict reading of names, record headers and rdata.
 * Internal to resolver/wire. Every function leaves the cursor where it was when it fails.
 */
#ifndef RESOLVER_WIRE_SCAN_H
#define RESOLVER_WIRE_SCAN_H

#include <ldns/rr.h> /* the type numbers, and rdata.c the table of types */

#include "resolver/wire/wire.h"

#define HEADER_SIZE 12
#define RECORD_MIN  11 /* root owner, type, class, TTL, RDLENGTH 0 */
#define CLASS_IN    1
#define POINTERS_MAX NAME_LABELS_MAX /* in one name: one a label is what a compressor can need */

/* The second 16 bits of the header (RFC 1035 section 4.1.1, RFC 4035 section 3.2). */
enum { FLAG_QR = 0x8000, FLAG_OPCODE = 0x7800, FLAG_AA = 0x0400, FLAG_TC = 0x0200,
       FLAG_RD = 0x0100, FLAG_RA = 0x0080, FLAG_CD = 0x0010, FLAG_RCODE = 0x000f };
#define OPCODE_SHIFT 11
#define OPT_DO       0x8000u /* in the low half of the OPT's TTL field (RFC 6891 section 6.1.4) */

struct scan {
    const uint8_t *bytes;
    size_t size, at;
};

struct scan_record {
    struct name owner;
    uint16_t type, class;
    uint32_t ttl; /* as on the wire: OPT has flags in it */
    size_t rdata; /* offset */
    uint16_t rdata_size;
};

/* An EDNS pseudo-record. */
struct scan_opt {
    bool present;
    uint16_t udp_size;
    uint8_t extended_rcode, version;
    bool dnssec_ok;
};

static inline uint16_t read16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static inline uint32_t read32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline size_t scan_left(const struct scan *s) { return s->size - s->at; }

/* A name, which must end (with its first pointer, if any) before `end`, <= s->size. Writes it
 * uncompressed and in its own case; `raw` holds NAME_WIRE_MAX. Returns its length, or -EBADMSG. */
int scan_name_raw(struct scan *s, size_t end, bool pointers, uint8_t *raw);
/* The same, pointers allowed, in canonical form. 0 or -EBADMSG. */
int scan_name(struct scan *s, size_t end, struct name *ret);
/* Owner to RDLENGTH, then over the rdata, whose inside is not looked at. 0 or -EBADMSG. */
int scan_record(struct scan *s, struct scan_record *ret);
/* The rdata of `r` written out without compression; names in types that RFC 4034 section 6.2 names
 * are folded. Every field must be there and nothing after the last. Octets, or -EBADMSG (also when
 * it does not fit). */
int scan_rdata(const struct scan *s, const struct scan_record *r, uint8_t *out, size_t size);
/* Takes up a record of type OPT: -EBADMSG for a second one, an owner other than the root, or
 * (version 0) options that do not fill the rdata exactly. */
int scan_opt(const struct scan *s, const struct scan_record *r, struct scan_opt *opt);

#endif
