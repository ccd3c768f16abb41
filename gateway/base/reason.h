/* reason.h: why a decision fell as it did. One table yields the enum, the log tag, the DNS answer
 * (RCODE and Extended DNS Error, RFC 8914) and the man-page line.
 *
 * Functions that can fail return 0 or a positive count on success and a negative errno, or
 * -reason for a decision; the two ranges do not meet: reasons start at 1000.
 */
#ifndef GATEWAY_BASE_REASON_H
#define GATEWAY_BASE_REASON_H

#include <stdint.h>

/* RCODEs as on the wire (RFC 1035 section 4.1.1, RFC 6891 section 9). */
enum { RC_NOERROR = 0, RC_FORMERR = 1, RC_SERVFAIL = 2, RC_NXDOMAIN = 3, RC_NOTIMP = 4,
       RC_REFUSED = 5, RC_BADVERS = 16 };

/* How a reason is answered: DENY follows `dns.deny` of the configuration, the rest is fixed. */
enum reason_answer {
    ANSWER_OK,      /* NOERROR with data */
    ANSWER_DENY,    /* NXDOMAIN, REFUSED or NODATA, by configuration; synthetic SOA */
    ANSWER_NODATA,  /* NOERROR, no data, synthetic SOA */
    ANSWER_NX,      /* NXDOMAIN whatever is configured; synthetic SOA */
    ANSWER_FAIL,    /* SERVFAIL: transient, never a statement about the name */
    ANSWER_REFUSED, /* REFUSED */
    ANSWER_FORMERR,
    ANSWER_NOTIMP,
    ANSWER_BADVERS,
    ANSWER_HINFO,   /* RFC 8482 section 4.2 */
    ANSWER_NONE,    /* concerns packets, not queries */
};

/* Extended DNS Error info-codes (RFC 8914 section 4); EDE_NONE: no option is sent. */
enum { EDE_NONE = -1, EDE_OTHER = 0, EDE_BLOCKED = 15, EDE_PROHIBITED = 18,
       EDE_NO_REACHABLE_AUTHORITY = 22, EDE_NETWORK_ERROR = 23 };

/*   id                 tag                   answer          EDE           what it means */
#define REASON_TABLE(X)                                                                          \
    X(ALLOWED,          "allowed",            ANSWER_OK,      EDE_NONE,                          \
      "an endpoint of one of the agent's tools matches")                                         \
    X(NOT_LISTED,       "not-listed",         ANSWER_DENY,    EDE_BLOCKED,                       \
      "no endpoint of the agent's tools matches the name")                                       \
    X(DENY_LIST,        "deny-list",          ANSWER_DENY,    EDE_BLOCKED,                       \
      "a pattern of the deny list matches the name")                                             \
    X(CHAIN_DENIED,     "chain-denied",       ANSWER_DENY,    EDE_BLOCKED,                       \
      "the CNAME chain passes through a name on the deny list")                                  \
    X(REBINDING,        "rebinding",          ANSWER_DENY,    EDE_BLOCKED,                       \
      "the answer holds an address in a forbidden range")                                        \
    X(CANARY,           "canary",             ANSWER_NX,      EDE_BLOCKED,                       \
      "a canary name by which clients ask whether encrypted DNS may bypass the resolver")        \
    X(UNKNOWN_CLIENT,   "unknown-client",     ANSWER_REFUSED, EDE_PROHIBITED,                    \
      "no agent has this source address")                                                        \
    X(TYPE_NOT_LISTED,  "type-not-listed",    ANSWER_NODATA,  EDE_BLOCKED,                       \
      "the endpoint does not list this record type")                                             \
    X(TYPE_BYPASS,      "type-bypass",        ANSWER_NODATA,  EDE_NONE,                          \
      "HTTPS and SVCB answers would carry addresses around the control")                         \
    X(NO_IPV6,          "no-ipv6",            ANSWER_NODATA,  EDE_NONE,                          \
      "AAAA is not answered because the uplink has no IPv6")                                     \
    X(NO_FAMILY,        "no-family",          ANSWER_NODATA,  EDE_NONE,                          \
      "asked over the other IP family, of which the agent has no address or too many to open")   \
    X(TYPE_ANY,         "type-any",           ANSWER_HINFO,   EDE_NONE,                          \
      "ANY gets the minimal answer of RFC 8482")                                                 \
    X(PTR_UNKNOWN,      "ptr-unknown",        ANSWER_NX,      EDE_BLOCKED,                       \
      "a reverse query for an address this client has no opening to")                            \
    X(BAD_CLASS,        "bad-class",          ANSWER_REFUSED, EDE_NONE,                          \
      "class other than IN")                                                                     \
    X(BAD_OPCODE,       "bad-opcode",         ANSWER_NOTIMP,  EDE_NONE,                          \
      "opcode other than QUERY")                                                                 \
    X(BAD_VERSION,      "bad-version",        ANSWER_BADVERS, EDE_NONE,                          \
      "EDNS version other than 0")                                                               \
    X(MALFORMED,        "malformed",          ANSWER_FORMERR, EDE_NONE,                          \
      "the query does not parse")                                                                \
    X(NO_NAME,          "no-name",            ANSWER_NX,      EDE_NONE,                          \
      "the upstream says that the allowed name does not exist")                                  \
    X(NO_DATA,          "no-data",            ANSWER_NODATA,  EDE_NONE,                          \
      "the upstream has no record of this type for the allowed name")                            \
    X(UPSTREAM_TIMEOUT, "upstream-timeout",   ANSWER_FAIL,    EDE_NO_REACHABLE_AUTHORITY,        \
      "no upstream answered in time")                                                            \
    X(UPSTREAM_NETWORK, "upstream-network",   ANSWER_FAIL,    EDE_NETWORK_ERROR,                 \
      "no upstream could be reached")                                                            \
    X(UPSTREAM_ERROR,   "upstream-error",     ANSWER_FAIL,    EDE_NO_REACHABLE_AUTHORITY,        \
      "the upstream answered with an error")                                                     \
    X(BAD_ANSWER,       "bad-answer",         ANSWER_FAIL,    EDE_OTHER,                         \
      "the upstream's answer is malformed, loops or has too long a chain")                       \
    X(OPEN_FAILED,      "open-failed",        ANSWER_FAIL,    EDE_OTHER,                         \
      "the kernel refused the opening")                                                          \
    X(OPEN_LATE,        "open-late",          ANSWER_FAIL,    EDE_OTHER,                         \
      "the kernel did not acknowledge the opening in time")                                      \
    X(MAP_FULL,         "map-full",           ANSWER_FAIL,    EDE_OTHER,                         \
      "the map of openings is full, or the agent has as much of it as is left for others")       \
    X(CLIENT_CAP,       "client-cap",         ANSWER_FAIL,    EDE_OTHER,                         \
      "the client has as many openings as limits.openings_per_client allows")                    \
    X(NAME_CAP,         "name-cap",           ANSWER_FAIL,    EDE_OTHER,                         \
      "the answer has more addresses than limits.addresses_per_name allows")                     \
    X(PENDING_CAP,      "pending-cap",        ANSWER_FAIL,    EDE_OTHER,                         \
      "the client has limits.pending_per_client queries in flight, or its agent too many")                              \
    X(RATE_LIMIT,       "rate-limit",         ANSWER_FAIL,    EDE_OTHER,                         \
      "the client asks faster than limits.queries_per_second")                                   \
    X(LOG_FULL,         "log-full",           ANSWER_FAIL,    EDE_OTHER,                         \
      "the record cannot be written, so nothing new is opened")                                  \
    X(STALE_POLICY,     "stale-policy",       ANSWER_FAIL,    EDE_OTHER,                         \
      "the decision was made under a policy that is no longer in force")                         \
    X(NO_OPENING,       "no-opening",         ANSWER_NONE,    EDE_NONE,                          \
      "packet: no opening for this source, destination, protocol and port")                      \
    X(SPOOFED,          "spoofed",            ANSWER_NONE,    EDE_NONE,                          \
      "packet: the source address does not belong to the interface it came in by")               \
    X(ENCRYPTED_DNS,    "encrypted-dns",      ANSWER_NONE,    EDE_NONE,                          \
      "packet: DNS over TLS or QUIC (port 853) to another resolver")                             \
    X(INVALID_STATE,    "invalid-state",      ANSWER_NONE,    EDE_NONE,                          \
      "packet: belongs to no tracked flow and does not start one")                               \
    X(LOCAL_SERVICE,    "local-service",      ANSWER_NONE,    EDE_NONE,                          \
      "packet: to a service of the gateway itself that agents may not reach")                    \
    X(UNSOLICITED,      "unsolicited",        ANSWER_NONE,    EDE_NONE,                          \
      "packet: from the uplink towards an agent, part of no flow the agent opened")

enum reason {
    REASON_BASE = 999,
#define X(id, tag, answer, ede, text) REASON_##id,
    REASON_TABLE(X)
#undef X
    REASON_END
};

/* Whether `value` is a reason of the table. */
int reason_valid(uint32_t value);
/* The log tag, e.g. "not-listed"; "unknown" when the value is none of the table. */
const char *reason_tag(uint32_t value);
/* One sentence for people. */
const char *reason_text(uint32_t value);
enum reason_answer reason_answer(uint32_t value);
/* EDE info-code, or EDE_NONE. */
int reason_ede(uint32_t value);

#endif
