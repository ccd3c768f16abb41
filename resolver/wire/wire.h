/* wire.h: DNS messages, bytes <-> struct. The only folder that uses ldns.
 *
 * Parsing never trusts a length, follows at most a bounded number of compression pointers, and
 * keeps nothing that points into the input except where said. Building writes into memory of the
 * caller and says when it does not fit.
 */
#ifndef RESOLVER_WIRE_WIRE_H
#define RESOLVER_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/base/addr.h"
#include "gateway/base/arena.h"
#include "gateway/base/name.h"
#include "gateway/base/reason.h"

#define WIRE_UDP_SIZE 1232 /* RFC 9715: what we announce, and the most we send over UDP */
#define WIRE_MAX 65535     /* over TCP */
#define WIRE_RECORDS_MAX 1024 /* records in one section we are willing to look at */
#define WIRE_RDATA_MAX 4096

/* A client's query. */
struct wire_query {
    uint16_t id;
    bool rd, cd, edns, dnssec_ok;
    uint16_t udp_size;  /* what a UDP answer may take: 512..WIRE_UDP_SIZE */
    struct name name;   /* canonical */
    uint8_t raw[NAME_WIRE_MAX]; /* the name in the client's own case, name.length octets: echoed */
    uint16_t type, class;
    uint8_t opcode;
    enum reason reason; /* REASON_ALLOWED: well formed; else BAD_CLASS, BAD_OPCODE, BAD_VERSION,
                           MALFORMED: answer with that and look no further */
    bool question;      /* name and type are set (a malformed query may lack them) */
};

/* 0 (see reason), or -EBADMSG: not to be answered at all (shorter than a header, or itself a
 * response). Malformed: QDCOUNT other than 1, records in answer or authority, a second OPT, an OPT
 * with another owner than the root, a TSIG or SIG(0) we cannot check (ignored, not malformed),
 * trailing bytes. Class ANY and NONE are BAD_CLASS. */
int wire_query_parse(const uint8_t *bytes, size_t size, struct wire_query *ret);

struct wire_record {
    struct name owner;
    uint16_t type, class;
    uint32_t ttl;          /* RFC 2181 section 8: top bit set means 0 */
    struct addr addr;      /* A, AAAA; else family 0 */
    struct name target;    /* CNAME, DNAME; else length 0 */
    const uint8_t *rdata;  /* uncompressed, canonical names inside; in the arena */
    uint16_t rdata_size;
};

/* An upstream's answer. */
struct wire_answer {
    uint16_t id;
    uint8_t rcode; /* without the extended bits */
    uint16_t extended_rcode;
    bool truncated;
    uint16_t count; /* answer section, in order; the additional section is never kept */
    const struct wire_record *records;
    bool has_soa;   /* of the authority section */
    uint32_t soa_ttl; /* RFC 2308: smaller of the SOA's TTL and its MINIMUM */
    struct name soa_owner;
};

/* Parses an answer to the question (name, type, IN) asked with `id`. -EBADMSG malformed;
 * -EPROTO a well-formed message that does not answer this question: wrong id, not a response,
 * other opcode, question missing or another (names compare without case); -ENOMEM. */
int wire_answer_parse(const uint8_t *bytes, size_t size, uint16_t id, const struct name *name,
                      uint16_t type, struct arena *arena, struct wire_answer *ret);

/* A query to an upstream: RD set, one question in lower case, OPT with WIRE_UDP_SIZE and nothing
 * else. Returns octets, or -ENOSPC. */
int wire_build_upstream(uint16_t id, const struct name *name, uint16_t type, uint8_t *out,
                        size_t size);

/* What an answer to a client holds, apart from its query. */
struct wire_hop { const struct name *target; uint32_t ttl; /* as upstream gave it; not sent */ };
struct wire_reply {
    uint8_t rcode;
    bool synthetic_soa;      /* RFC 2308: negative answers of ours carry one */
    uint32_t soa_ttl;
    const struct wire_hop *chain; /* from the name asked: owner i is target i-1 */
    unsigned chain_count;
    const struct addr *addrs; /* records at the chain's end; TTL for all */
    unsigned addr_count;
    const struct wire_record *others; /* vetted records of other types, owner = chain's end */
    unsigned other_count;
    uint32_t ttl;            /* of every record in the answer section, hops too; with a synthetic
                                SOA the smaller of this and soa_ttl */
    int ede;                 /* info-code, or EDE_NONE; sent only if the query had EDNS */
    const char *ede_text;    /* short UTF-8, or NULL */
    bool hinfo;              /* RFC 8482 answer */
};

/* Builds the reply: id, opcode, RD, CD and question as in the query (client's own case), RA set,
 * AA clear, OPT if the query had one. Records are never split over the size: a reply that does not
 * fit `limit` has TC set and an empty answer section. Returns octets, or -ENOSPC if even that does
 * not fit `size`. */
int wire_build_reply(const struct wire_query *q, const struct wire_reply *r, size_t limit,
                     uint8_t *out, size_t size);

#endif
