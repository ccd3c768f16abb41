/* wire_query_fuzz.c: any bytes as a client's query; what is answered must be readable by others. */
#include <ldns/ldns.h>
#include <string.h>

#include "resolver/wire/wire.h"
#include "tests/fuzz/require.h"

static void check_reply(const struct wire_query *q, const uint8_t *reply, size_t size) {
    ldns_pkt *p = NULL;
    require(ldns_wire2pkt(&p, reply, size) == LDNS_STATUS_OK);
    require(ldns_pkt_qr(p) && ldns_pkt_id(p) == q->id);
    require(ldns_pkt_rd(p) == q->rd && ldns_pkt_cd(p) == q->cd && ldns_pkt_ra(p));
    require((unsigned)ldns_pkt_get_opcode(p) == q->opcode);
    require(ldns_pkt_edns(p) == q->edns);
    require(ldns_pkt_qdcount(p) == q->question);
    if (q->question) { /* the client's own octets */
        require(size >= 12u + q->name.length + 4u);
        require(memcmp(reply + 12, q->raw, q->name.length) == 0);
    }
    require(!ldns_pkt_tc(p) || ldns_pkt_ancount(p) == 0);
    ldns_pkt_free(p);
}

/* Replies of several shapes at several limits. */
static void build_replies(const struct wire_query *q, uint8_t choice) {
    static const uint8_t bytes[4] = {198, 51, 100, 1};
    struct addr addrs[100];
    struct name hop;
    memset(&hop, 0, sizeof hop);
    name_from_text("cdn.example.net", &hop);
    struct wire_hop chain[] = {{&hop, 1}, {q->question ? &q->name : &hop, 1}, {&hop, 1}};
    for (unsigned i = 0; i < 100; i++)
        addrs[i] = addr_from4(bytes);
    struct wire_reply r = {.rcode = choice & 31, .synthetic_soa = choice & 32, .soa_ttl = 5,
                           .chain = chain, .chain_count = choice % 4, .addrs = addrs,
                           .addr_count = choice % 101, .ttl = 30, .hinfo = choice & 64,
                           .ede = choice & 128 ? EDE_NONE : EDE_BLOCKED, .ede_text = "text"};
    size_t limits[] = {q->udp_size, WIRE_UDP_SIZE, WIRE_MAX, 12, 290};
    uint8_t *out = malloc(WIRE_MAX);
    require(out);
    for (unsigned i = 0; i < 5; i++) {
        int size = wire_build_reply(q, &r, limits[i], out, WIRE_MAX);
        require(size <= (int)limits[i]);
        require(size > 0 || i >= 3); /* the least reply fits 512 octets */
        if (size > 0)
            check_reply(q, out, (size_t)size);
    }
    free(out);
}

static void check_query(const struct wire_query *q) {
    require(q->udp_size >= 512 && q->udp_size <= WIRE_UDP_SIZE);
    require(q->reason == REASON_ALLOWED || q->reason == REASON_BAD_CLASS ||
            q->reason == REASON_BAD_OPCODE || q->reason == REASON_BAD_VERSION ||
            q->reason == REASON_MALFORMED);
    if (q->reason == REASON_ALLOWED)
        require(q->question && q->class == 1 && q->opcode == 0);
    if (q->question) {
        struct name again;
        require(name_valid(&q->name));
        require(name_from_wire(q->raw, q->name.length, &again) == q->name.length);
        require(name_equal(&again, &q->name));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct wire_query q;
    if (wire_query_parse(data, size, &q) < 0)
        return 0;
    check_query(&q);
    build_replies(&q, data[size - 1]);
    if (q.reason == REASON_ALLOWED) { /* and what goes up holds the name and nothing else */
        uint8_t out[300];
        struct wire_query up;
        int built = wire_build_upstream(q.id, &q.name, q.type, out, sizeof out);
        require(built == 12 + q.name.length + 4 + 11);
        require(wire_query_parse(out, (size_t)built, &up) == 0);
        require(up.reason == REASON_ALLOWED && name_equal(&up.name, &q.name));
        require(memcmp(up.raw, q.name.wire, q.name.length) == 0);
    }
    return 0;
}
