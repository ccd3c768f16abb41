/* dns.h: DNS messages for scenarios: written and read by code of its own, so that what wire/ builds is
 * judged by somebody else.
 */
#ifndef TESTS_SCENARIO_DNS_H
#define TESTS_SCENARIO_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/base/addr.h"

#define DNS_ADDRS_MAX 256
#define DNS_TEXT_MAX 1024

struct dns_query {
    uint16_t id, type, class, edns; /* edns 0: none */
    unsigned opcode, version;
    const char *name; /* case kept; \DDD escapes */
};

/* Octets written to `out` of 65535. -1: bad text. */
int dns_write_query(const struct dns_query *q, uint8_t *out);

/* An upstream's answer: header and question, then records from dns_add(). */
int dns_begin_answer(uint16_t id, const char *name, uint16_t type, unsigned rcode, uint8_t *out);
/* "owner ttl type rdata", or "auth: ..." or "add: ..."; returns the new size, -1 for bad text. */
int dns_add(uint8_t *out, int size, const char *text);

struct dns_reply {
    uint16_t id;
    unsigned rcode; /* extended bits included */
    bool truncated, soa, opt;
    uint32_t soa_ttl;
    size_t question_size;
    const uint8_t *question;
    unsigned addr_count, other_count, answer_count;
    struct addr addrs[DNS_ADDRS_MAX];
    uint32_t ttl_min, ttl_max; /* of the answer section */
    char chain[DNS_TEXT_MAX];  /* CNAME targets, comma between */
    char others[DNS_TEXT_MAX]; /* TYPE or TYPE:target */
    int ede;                   /* -1: none */
    char ede_text[DNS_TEXT_MAX];
};

/* 0, or -1 when it is not a well-formed reply. */
int dns_read_reply(const uint8_t *bytes, size_t size, struct dns_reply *ret);

/* Number of a type by name or TYPE123; 0 unknown. */
uint16_t dns_type(const char *text);
/* NOERROR, ...; -1 unknown. */
int dns_rcode(const char *text);
const char *dns_rcode_name(unsigned rcode);

#endif
