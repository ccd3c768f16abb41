/* fields.h: the one table of what a record holds. The writer (record.c), the man page
 * tidegate-log(5) (tools/manpage) and the tests are all driven by it, so a field that is not
 * documented cannot be written.
 *
 * Every field of a kind is in every record of that kind, in the order of the table. A value that
 * is unknown or does not apply is null; a list that is empty is []. Records are flat: a value is a
 * scalar or an array of scalars. All text is printable ASCII; see buf_put_json().
 */
#ifndef GATEWAY_RECORDER_FIELDS_H
#define GATEWAY_RECORDER_FIELDS_H

#include <stdint.h>

/*    id      name             what it tells */
#define KIND_TABLE(X)                                                                              \
    X(QUERY,  "query",         "A DNS query was decided; written before its answer leaves.")       \
    X(FLOW,   "flow",          "A flow through an opening ended.")                                 \
    X(DENIED, "denied-packet", "Packets were dropped: equal ones within a second are one record.") \
    X(START,  "start",         "The gateway started, or proved at start that it denies.")          \
    X(STOP,   "stop",          "The gateway stopped in good order.")                               \
    X(POLICY, "policy",        "A policy came into force or was refused.")                         \
    X(LOSS,   "loss",          "Something went unrecorded or was disturbed, and is accounted for.")

enum record_kind {
#define X(id, name, text) KIND_##id,
    KIND_TABLE(X)
#undef X
    KIND_COUNT
};

enum field_type {
    FIELD_TYPE_TIME,    /* string, RFC 3339 in UTC with microseconds */
    FIELD_TYPE_TEXT,    /* string */
    FIELD_TYPE_ADDRESS, /* string, RFC 5952 for IPv6 */
    FIELD_TYPE_NUMBER,  /* integer, 0 .. 2^63 - 1: what JSON readers take */
    FIELD_TYPE_TEXTS,   /* array of strings */
    FIELD_TYPE_NUMBERS, /* array of integers */
};

#define K_Q (1u << KIND_QUERY)
#define K_F (1u << KIND_FLOW)
#define K_D (1u << KIND_DENIED)
#define K_E (1u << KIND_START | 1u << KIND_STOP | 1u << KIND_POLICY | 1u << KIND_LOSS)
#define K_ALL (K_Q | K_F | K_D | K_E)

/*    id            name            type     kinds         one line of documentation */
#define FIELD_TABLE(X)                                                                             \
    X(TIME,         "time",         TIME,    K_ALL,                                                \
      "when it happened: arrival of the query, first of the packets, end of the flow")             \
    X(SEQUENCE,     "sequence",     NUMBER,  K_ALL,                                                \
      "number of the record; counts up by one through all files and restarts")                     \
    X(KIND,         "kind",         TEXT,    K_ALL, "which kind of record this is")                \
    X(GATEWAY,      "gateway",      TEXT,    K_ALL, "name of the gateway, by default its host name") \
    X(POLICY,       "policy",       TEXT,    K_ALL,                                                \
      "digest of the policy in force, 64 hexadecimal digits; 16 if the recorder does not have it") \
    X(AGENT,        "agent",        TEXT,    K_ALL, "name of the agent")                           \
    X(TOOL,         "tool",         TEXT,    K_ALL, "the tool whose endpoint matched, name@version") \
    X(RUN,          "run",          TEXT,    K_ALL, "run id; always null in this version")         \
    X(SOURCE,       "source",       ADDRESS, K_ALL, "address the query or packet came from")       \
    X(DECISION,     "decision",     TEXT,    K_ALL, "allow or deny")                               \
    X(REASON,       "reason",       TEXT,    K_ALL, "why, a tag of the list below")                \
    X(RULE,         "rule",         TEXT,    K_ALL,                                                \
      "the line of the policy that made the decision, or default")                                 \
    X(NAME,         "name",         TEXT,    K_Q | K_F,                                            \
      "domain name asked for, escaped as in RFC 1035; of a flow: the name its opening was made for") \
    X(TYPE,         "type",         TEXT,    K_Q, "record type asked for, TYPE123 when it has no name") \
    X(RCODE,        "rcode",        TEXT,    K_Q, "response code given to the client")             \
    X(CHAIN,        "chain",        TEXTS,   K_Q, "names of the CNAME chain, in order")            \
    X(ANSWERS,      "answers",      TEXTS,   K_Q, "addresses given to the client, in order")       \
    X(TTLS,         "ttls",         NUMBERS, K_Q, "seconds told to the client, one for each answer") \
    X(OPENED,       "opened",       NUMBER,  K_Q, "openings that stood for this answer")           \
    X(OPENED_UNTIL, "opened_until", TIME,    K_Q, "when the first of them ends")                   \
    X(UPSTREAM,     "upstream",     ADDRESS, K_Q, "the server that answered")                      \
    X(CACHE,        "cache",        TEXT,    K_Q,                                                  \
      "hit or miss; null when neither cache nor upstream was asked")                               \
    X(LATENCY,      "latency_us",   NUMBER,  K_Q, "microseconds from arrival to this record")      \
    X(TRANSPORT,    "transport",    TEXT,    K_Q, "udp or tcp")                                    \
    X(CLIENT_PORT,  "client_port",  NUMBER,  K_Q | K_F | K_D,                                      \
      "port it came from; of packets: the first one's")                                            \
    X(REF,          "ref",          TEXT,    K_Q,                                                  \
      "record id that the client was shown in the Extended DNS Error")                             \
    X(REMOTE,       "remote",       ADDRESS, K_F | K_D, "address it was sent to")                  \
    X(PORT,         "port",         NUMBER,  K_F | K_D, "port it was sent to")                     \
    X(PROTOCOL,     "protocol",     TEXT,    K_F | K_D,                                            \
      "tcp, udp, icmp, icmpv6, sctp and some others by name, the rest as a number")                \
    X(ICMP_TYPE,    "icmp_type",    NUMBER,  K_D, "type of an ICMP or ICMPv6 message")             \
    X(ICMP_CODE,    "icmp_code",    NUMBER,  K_D, "code of an ICMP or ICMPv6 message")             \
    X(INTERFACE,    "interface",    TEXT,    K_D, "interface the packets came in by")              \
    X(NOTE,         "note",         TEXT,    K_D,                                                  \
      "fragment, truncated or malformed: why parts are null; folded: several of one source")       \
    X(UNTIL,        "until",        TIME,    K_D, "time of the last of the packets")               \
    X(BYTES_OUT,    "bytes_out",    NUMBER,  K_F, "bytes from the agent, IP headers included")     \
    X(BYTES_IN,     "bytes_in",     NUMBER,  K_F, "bytes to the agent, IP headers included")       \
    X(PACKETS_OUT,  "packets_out",  NUMBER,  K_F, "packets from the agent")                        \
    X(PACKETS_IN,   "packets_in",   NUMBER,  K_F, "packets to the agent")                          \
    X(DURATION,     "duration_us",  NUMBER,  K_F | 1u << KIND_LOSS,                                \
      "microseconds the flow lasted, or the log could not be written")                             \
    X(END,          "end",          TEXT,    K_F,                                                  \
      "ended (by itself or timed out), revoked (its opening was withdrawn), killed")               \
    X(FLOW_ID,      "flow_id",      NUMBER,  K_F, "the kernel's number for the flow")              \
    X(MARK,         "mark",         NUMBER,  K_F, "conntrack mark that carried its attribution")   \
    X(EVENT,        "event",        TEXT,    K_E, "what happened, a tag of the list below")        \
    X(COUNT,        "count",        NUMBER,  K_D | K_E,                                            \
      "how many packets; of an event: as its text says")                                           \
    X(OTHER,        "other",        NUMBER,  K_E, "a second number, as the event's text says")     \
    X(PROCESS,      "process",      TEXT,    K_E, "the process an event is about")                 \
    X(UID,          "uid",          NUMBER,  K_E, "user who asked for it")                         \
    X(ERROR,        "error",        TEXT,    1u << KIND_LOSS, "the system's error, such as ENOSPC")   \
    X(TEXT,         "text",         TEXT,    K_E, "the event in one sentence, for people")

enum field {
#define X(id, name, type, kinds, text) FIELD_##id,
    FIELD_TABLE(X)
#undef X
    FIELD_TOTAL
};

/* Events the recorder itself reports, beside EVENT_TABLE of gateway/proto/proto.h. All are of kind
 * loss. Each lost record is counted in exactly one record: lost-records or lost-denied. */
#define OWN_EVENT_TABLE(X)                                                                         \
    X(LOG_GAP, "log-gap", "the log could not be written for a while; what it cost is said by the " \
                          "loss records after this one, and `count` records just before it were "  \
                          "not yet known to be on disk")                                           \
    X(TORN_TAIL, "torn-tail", "`count` bytes of an unfinished record at the end of the log were "  \
                              "moved aside into a file ending in .torn")                           \
    X(LOG_REPLACED, "log-replaced", "the log file was moved or removed by another hand; a new "    \
                                    "one was begun")                                               \
    X(BAD_MESSAGES, "bad-messages", "`count` impossible messages came from process `other`")

enum own_event {
#define X(id, tag, text) OWN_##id,
    OWN_EVENT_TABLE(X)
#undef X
    OWN_COUNT
};

struct field_info {
    const char *name;
    enum field_type type;
    uint32_t kinds; /* bits 1 << enum record_kind */
    const char *text;
};
extern const struct field_info field_table[FIELD_TOTAL];

const char *kind_name(enum record_kind kind);
/* "allow" or "deny": whether the gateway let a query of this outcome through, whatever the
 * upstream then said. */
const char *decision_of(uint32_t reason);
/* Tag of an event of EVENT_TABLE ("child-ended"), its kind and its text; NULL text if none. */
const char *event_tag(uint32_t code, char text[32]);
enum record_kind event_kind(uint32_t code);
const char *event_text(uint32_t code);
/* Whether `other` of this event is an enum process. */
int event_names_process(uint32_t code);

#endif
