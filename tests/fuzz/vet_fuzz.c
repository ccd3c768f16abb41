/* vet_fuzz.c: any bytes as an upstream's answer, through vetting to the reply and back: what a
 * client would read is what was vetted.
 */
#include <string.h>

#include "resolver/vet/vet.h"
#include "tests/fuzz/answer_input.h"
#include "tests/fuzz/require.h"

static void check_vetted(const struct vetted *v, const struct answer_input *in,
                         const uint8_t *data, size_t size) {
    const struct wire_hop *chain;
    const struct addr *addrs;
    const struct wire_record *others;
    unsigned hops = vetted_chain(v, &chain), count = vetted_addrs(v, &addrs);
    unsigned other_count = vetted_others(v, &others);
    require(hops <= VET_CHAIN_MAX && count <= VET_ADDRS_MAX);
    require((count > 0) == (vetted_kind(v) == VETTED_ADDRS));
    require((other_count > 0) == (vetted_kind(v) == VETTED_OTHERS));
    require(count == 0 || in->type == TYPE_A || in->type == TYPE_AAAA);
    for (unsigned i = 0; i < count; i++) {
        require(addrs[i].family == (in->type == TYPE_A ? 4 : 6));
        require(memmem(data, size, addrs[i].bytes, addrs[i].family == 4 ? 4 : 16));
        for (unsigned k = 0; k < i; k++)
            require(!addr_equal(&addrs[i], &addrs[k]));
    }
    for (unsigned i = 0; i < hops; i++) {
        require(name_valid(chain[i].target) && !name_equal(chain[i].target, &in->name));
        require(vetted_ttl(v) <= chain[i].ttl);
        for (unsigned k = 0; k < i; k++)
            require(!name_equal(chain[i].target, chain[k].target));
    }
    for (unsigned i = 0; i < other_count; i++)
        require(others[i].type == in->type && others[i].addr.family == 0);
}

static void check_same(const struct vetted *v, const struct vetted *w) {
    const struct wire_hop *chain[2];
    const struct addr *addrs[2];
    const struct wire_record *others[2];
    unsigned hops = vetted_chain(v, &chain[0]), count = vetted_addrs(v, &addrs[0]);
    unsigned other_count = vetted_others(v, &others[0]);
    require(vetted_kind(v) == vetted_kind(w));
    require(vetted_chain(w, &chain[1]) == hops);
    require(vetted_addrs(w, &addrs[1]) == count);
    require(vetted_others(w, &others[1]) == other_count);
    require(vetted_ttl(w) == 7);
    for (unsigned i = 0; i < hops; i++)
        require(name_equal(chain[0][i].target, chain[1][i].target));
    for (unsigned i = 0; i < count; i++)
        require(addr_equal(&addrs[0][i], &addrs[1][i]));
    for (unsigned i = 0; i < other_count; i++)
        require(others[0][i].rdata_size == others[1][i].rdata_size &&
                memcmp(others[0][i].rdata, others[1][i].rdata, others[0][i].rdata_size) == 0);
}

/* As the client is told, and as a client would take it. */
static void round_trip(const struct vetted *v, const struct answer_input *in,
                       struct arena *arena) {
    static uint8_t out[WIRE_MAX];
    struct wire_query q = {.id = in->id, .rd = true, .edns = true, .udp_size = WIRE_UDP_SIZE,
                           .name = in->name, .type = in->type, .class = 1, .question = true,
                           .reason = REASON_ALLOWED};
    struct wire_reply r = {.ttl = 7, .soa_ttl = 7, .ede = EDE_NONE,
                           .synthetic_soa = vetted_kind(v) == VETTED_NODATA ||
                                            vetted_kind(v) == VETTED_NXDOMAIN,
                           .rcode = vetted_kind(v) == VETTED_NXDOMAIN ? RC_NXDOMAIN : RC_NOERROR};
    struct wire_answer a;
    struct vetted *w = NULL;
    memcpy(q.raw, in->name.wire, in->name.length);
    r.chain_count = vetted_chain(v, &r.chain);
    r.addr_count = vetted_addrs(v, &r.addrs);
    r.other_count = vetted_others(v, &r.others);
    int size = wire_build_reply(&q, &r, WIRE_MAX, out, sizeof out);
    require(size > 0);
    require(wire_answer_parse(out, (size_t)size, in->id, &in->name, in->type, arena, &a) == 0);
    require(!a.truncated);
    require(vet_answer(&in->name, in->type, &a, &w) == 0);
    check_same(v, w);
    vetted_unref(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct answer_input in;
    struct wire_answer a;
    struct vetted *v = NULL;
    if (!answer_input_read(data, size, &in))
        return 0;
    struct arena *arena = arena_new(16u << 20);
    require(arena);
    if (wire_answer_parse(data, size, in.id, &in.name, in.type, arena, &a) == 0 &&
        vet_answer(&in.name, in.type, &a, &v) == 0) {
        check_vetted(v, &in, data, size);
        round_trip(v, &in, arena);
        vetted_unref(v);
    }
    arena_free(arena);
    return 0;
}
