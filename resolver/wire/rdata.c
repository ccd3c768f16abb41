/* rdata.c: the inside of records, by ldns's table of types.
 *
 * ldns knows the fields of every type, and that knowledge is what we take from it. Its own reader
 * (ldns_wire2rr) does not check what we must: a name may run past RDLENGTH, missing fields and
 * octets after the last one pass silently, pointers lead forwards, and it dereferences NULL when
 * memory is short. So the walk over the fields is ours, makes no allocation, and the tests hold its
 * result against ldns's.
 */
#include "resolver/wire/scan.h"

#include <errno.h>
#include <string.h>

/* RFC 4034 section 6.2 without HINFO and NSEC (RFC 6840 section 5.1). Only in these does a receiver
 * follow pointers, too (RFC 3597 section 4); in any other type a pointer is malformed. */
/* clang-format off */
static bool type_folds(uint16_t type) {
    switch (type) {
    case LDNS_RR_TYPE_NS: case LDNS_RR_TYPE_MD: case LDNS_RR_TYPE_MF: case LDNS_RR_TYPE_CNAME:
    case LDNS_RR_TYPE_SOA: case LDNS_RR_TYPE_MB: case LDNS_RR_TYPE_MG: case LDNS_RR_TYPE_MR:
    case LDNS_RR_TYPE_PTR: case LDNS_RR_TYPE_MINFO: case LDNS_RR_TYPE_MX: case LDNS_RR_TYPE_RP:
    case LDNS_RR_TYPE_AFSDB: case LDNS_RR_TYPE_RT: case LDNS_RR_TYPE_SIG: case LDNS_RR_TYPE_PX:
    case LDNS_RR_TYPE_NXT: case LDNS_RR_TYPE_NAPTR: case LDNS_RR_TYPE_KX: case LDNS_RR_TYPE_SRV:
    case LDNS_RR_TYPE_DNAME: case LDNS_RR_TYPE_RRSIG: return true;
    default: return false;
    }
}
/* clang-format on */

/* How long a field is that does not hold a name. */
enum { FIELD_REST = -2, FIELD_SHORT = -3 };

static int counted(const uint8_t *p, size_t left) {
    return left < 1 ? FIELD_SHORT : p[0] + 1;
}

/* clang-format off */
static int field_size(ldns_rdf_type field, const uint8_t *p, size_t left) {
    switch (field) {
    case LDNS_RDF_TYPE_CLASS: case LDNS_RDF_TYPE_ALG: case LDNS_RDF_TYPE_INT8:
    case LDNS_RDF_TYPE_CERTIFICATE_USAGE: case LDNS_RDF_TYPE_SELECTOR:
    case LDNS_RDF_TYPE_MATCHING_TYPE: return 1;
    case LDNS_RDF_TYPE_INT16: case LDNS_RDF_TYPE_TYPE: case LDNS_RDF_TYPE_CERT_ALG: return 2;
    case LDNS_RDF_TYPE_INT32: case LDNS_RDF_TYPE_A: case LDNS_RDF_TYPE_TIME:
    case LDNS_RDF_TYPE_PERIOD: return 4;
    case LDNS_RDF_TYPE_TSIGTIME: case LDNS_RDF_TYPE_EUI48: return 6;
    case LDNS_RDF_TYPE_ILNP64: case LDNS_RDF_TYPE_EUI64: return 8;
    case LDNS_RDF_TYPE_AAAA: return 16;
    case LDNS_RDF_TYPE_STR: case LDNS_RDF_TYPE_TAG: case LDNS_RDF_TYPE_B32_EXT:
    case LDNS_RDF_TYPE_NSEC3_SALT: case LDNS_RDF_TYPE_NSEC3_NEXT_OWNER: return counted(p, left);
    case LDNS_RDF_TYPE_INT16_DATA: return left < 2 ? FIELD_SHORT : read16(p) + 2;
    case LDNS_RDF_TYPE_HIP: return left < 4 ? FIELD_SHORT : p[0] + read16(p + 2) + 4;
    /* And whatever a later ldns adds: taken as it is, up to the end. */
    default: return FIELD_REST;
    }
}
/* clang-format on */

/* One name inside rdata, `look` within it; returns octets written. */
static int put_name(struct scan *look, size_t end, bool folds, uint8_t *out, size_t size) {
    uint8_t raw[NAME_WIRE_MAX];
    struct name name;
    int length = scan_name_raw(look, end, folds, raw);
    if (length < 0 || (size_t)length > size) return -EBADMSG;
    if (folds) {
        if (name_from_wire(raw, (size_t)length, &name) != length) return -EBADMSG;
        memcpy(out, name.wire, (size_t)length);
    } else {
        memcpy(out, raw, (size_t)length);
    }
    return length;
}

static int put_bytes(struct scan *look, size_t end, int length, uint8_t *out, size_t size) {
    if (length == FIELD_REST) length = (int)(end - look->at);
    if (length < 0 || (size_t)length > end - look->at || (size_t)length > size) return -EBADMSG;
    memcpy(out, look->bytes + look->at, (size_t)length);
    look->at += (size_t)length;
    return length;
}

int scan_rdata(const struct scan *s, const struct scan_record *r, uint8_t *out, size_t size) {
    const ldns_rr_descriptor *table = ldns_rr_descript(r->type);
    size_t minimum = ldns_rr_descriptor_minimum(table);
    size_t maximum = ldns_rr_descriptor_maximum(table);
    struct scan look = {.bytes = s->bytes, .size = s->size, .at = r->rdata};
    size_t end = r->rdata + r->rdata_size, used = 0;
    bool folds = type_folds(r->type);

    for (size_t i = 0; i < maximum && (look.at < end || i < minimum); i++) {
        ldns_rdf_type field = ldns_rr_descriptor_field_type(table, i);
        int put =
            field == LDNS_RDF_TYPE_DNAME
                ? put_name(&look, end, folds, out + used, size - used)
                : put_bytes(&look, end, field_size(field, look.bytes + look.at, end - look.at),
                            out + used, size - used);
        if (put < 0) return -EBADMSG;
        used += (size_t)put;
    }
    return look.at == end ? (int)used : -EBADMSG;
}
