/* wire_answer_fuzz.c: any bytes as an upstream's answer. What we accept, ldns accepts too and reads
 * the same addresses and names out of it; no address that the message does not hold.
 */
#include <ldns/ldns.h>
#include <string.h>

#include "tests/fuzz/answer_input.h"
#include "tests/fuzz/require.h"

static void check_record(const struct wire_record *r, const ldns_rr *rr, const uint8_t *data,
                         size_t size) {
    struct name name;
    const ldns_rdf *owner = ldns_rr_owner(rr);
    require(name_valid(&r->owner));
    require(name_from_wire(ldns_rdf_data(owner), ldns_rdf_size(owner), &name) > 0);
    require(name_equal(&name, &r->owner));
    require(ldns_rr_get_type(rr) == r->type && ldns_rr_get_class(rr) == r->class);
    require(r->ttl == (ldns_rr_ttl(rr) & 0x80000000u ? 0 : ldns_rr_ttl(rr)));
    size_t total = 0;
    for (size_t i = 0; i < ldns_rr_rd_count(rr); i++)
        total += ldns_rdf_size(ldns_rr_rdf(rr, i));
    require(total == r->rdata_size);
    if (r->addr.family != 0) {
        size_t octets = r->addr.family == 4 ? 4 : 16;
        require(addr_valid(&r->addr));
        require(r->type == (octets == 4 ? 1 : 28) && r->rdata_size == octets);
        require(memcmp(ldns_rdf_data(ldns_rr_rdf(rr, 0)), r->addr.bytes, octets) == 0);
        require(memmem(data, size, r->addr.bytes, octets));
    }
    if (r->target.length > 0) {
        const ldns_rdf *target = ldns_rr_rdf(rr, 0);
        require(r->type == 5 || r->type == 39);
        require(name_from_wire(ldns_rdf_data(target), ldns_rdf_size(target), &name) > 0);
        require(name_equal(&name, &r->target));
    }
}

static void check_answer(const struct wire_answer *a, const uint8_t *data, size_t size) {
    ldns_pkt *p = NULL;
    if (a->truncated) {
        require(a->count == 0 && !a->records && !a->has_soa);
        return;
    }
    require(ldns_wire2pkt(&p, data, size) == LDNS_STATUS_OK);
    require(ldns_pkt_ancount(p) == a->count);
    for (unsigned i = 0; i < a->count; i++)
        check_record(&a->records[i], ldns_rr_list_rr(ldns_pkt_answer(p), i), data, size);
    require(a->extended_rcode % 16 == a->rcode);
    if (a->has_soa)
        require(name_valid(&a->soa_owner) && a->soa_ttl <= 0x7fffffffu);
    ldns_pkt_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct answer_input in;
    struct wire_answer a;
    if (!answer_input_read(data, size, &in))
        return 0;
    struct arena *arena = arena_new(8u << 20);
    require(arena);
    if (wire_answer_parse(data, size, in.id, &in.name, in.type, arena, &a) == 0)
        check_answer(&a, data, size);
    arena_free(arena);
    return 0;
}
