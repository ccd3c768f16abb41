/* proto.h: the messages between Tidegate's processes.
 *
 * One message is one packet on a SOCK_SEQPACKET pair: a head, one fixed-size body by type, then
 * `items` fixed-size items by type. Nothing in them is free-form: every receiver calls
 * proto_check(), which verifies head, length, item count and every field that has a range, before
 * it looks at anything. A message that fails ends the sender.
 *
 * Both ends are the same build on the same machine: host byte order, natural alignment, explicit
 * padding that must be zero. Some messages carry file descriptors (SCM_RIGHTS), as noted.
 *
 * The supervisor keeps both ends of every pair open, so a pair outlives either process: what was
 * queued is read by the successor, and end-of-file is never seen. Send never blocks: -EAGAIN when
 * the peer is behind; the caller counts and reports the loss or refuses the work.
 */
#ifndef GATEWAY_PROTO_PROTO_H
#define GATEWAY_PROTO_PROTO_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/base/addr.h"
#include "gateway/base/clock.h"
#include "gateway/base/name.h"
#include "gateway/base/reason.h"

#define PROTO_MAGIC 0x54474d31u /* "TGM1" */
#define PROTO_MAX 77824         /* bytes; the largest is a QUERY with all its items */
#define PROTO_FDS_MAX 2
#define PROTO_ADDRS_MAX 256     /* addresses in one answer */
#define PROTO_PAGE_MAX 32       /* openings in one page */
#define PROTO_LIFETIME_MAX 604800 /* seconds an opening may live: a week */
#define PROTO_CHAIN_MAX 9       /* names after the one asked: 8 hops, and one more to show */

/* Who may send what: enum, sender > receiver, body, item. X(id, body, item) */
#define PROTO_TABLE(X)                                                                     \
    /* resolver > core */                                                                  \
    X(OPEN, struct msg_open, struct msg_open_addr)                                         \
    X(REVERSE, struct msg_reverse, struct msg_none)                                        \
    X(STATS, struct msg_stats, struct msg_none)                                            \
    /* core > resolver */                                                                  \
    X(OPENED, struct msg_opened, struct msg_none)                                          \
    X(REVERSED, struct msg_reversed, struct msg_none)                                      \
    X(STATE, struct msg_state, struct msg_none)                                            \
    /* core > resolver, recorder, control; 1 descriptor: the image */                      \
    X(POLICY, struct msg_policy, struct msg_none)                                          \
    /* and back, when it is in use */                                                      \
    X(POLICY_USED, struct msg_policy, struct msg_none)                                     \
    /* resolver > recorder */                                                              \
    X(QUERY, struct msg_query, struct msg_query_item)                                      \
    /* core > recorder */                                                                  \
    X(DENIED, struct msg_denied, struct msg_none)                                          \
    X(FLOW, struct msg_flow, struct msg_none)                                              \
    X(EVENT, struct msg_event, struct msg_none)                                            \
    /* recorder > core */                                                                  \
    X(LOG_STATE, struct msg_log_state, struct msg_none)                                    \
    /* core > supervisor */                                                                \
    X(READY, struct msg_ready, struct msg_none)                                            \
    X(LOAD, struct msg_load, struct msg_none)                                              \
    X(COMMIT, struct msg_commit, struct msg_none)                                          \
    X(END_CHILD, struct msg_child, struct msg_none)                                        \
    X(STOPPED, struct msg_none, struct msg_none)                                           \
    /* supervisor > core; LOADED: 2 descriptors, image (sealed) and report, or report alone */ \
    X(LOADED, struct msg_loaded, struct msg_none)                                          \
    X(CHILD, struct msg_child, struct msg_none)                                            \
    X(STOP, struct msg_none, struct msg_none)                                              \
    /* control > core */                                                                   \
    X(ASK_STATUS, struct msg_ask, struct msg_none)                                         \
    X(ASK_OPENINGS, struct msg_ask, struct msg_none)                                       \
    X(ASK_RELOAD, struct msg_ask, struct msg_none)                                         \
    /* core > control; RELOADED: 1 descriptor, the report (it may be empty) */                               \
    X(STATUS, struct msg_status, struct msg_none)                                          \
    X(OPENINGS, struct msg_openings, struct msg_opening)                                   \
    X(RELOADED, struct msg_reloaded, struct msg_none)

enum proto_type {
    PROTO_TYPE_NONE = 0,
#define X(id, body, item) PROTO_##id,
    PROTO_TABLE(X)
#undef X
    PROTO_TYPE_END
};

/* A hole in a message would carry bytes nobody wrote into another process. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

struct proto_head {
    uint32_t magic;
    uint16_t type;  /* enum proto_type */
    uint16_t items; /* how many items follow the body */
    uint64_t sequence; /* counts this sender's messages on this pair, from 1; a gap is a loss */
};

struct msg_none { char none[0]; };

/* ---- openings ------------------------------------------------------------------------------ */

struct msg_open_addr {
    struct addr remote;
    uint32_t lifetime; /* seconds from now the opening must live, grace included; 1..604800 */
};

/* "This client asked for `name`; open what policy gives it, to these addresses." Core decides
 * again on its own image: endpoints, ports and limits are not the resolver's to say. Items: 1..256
 * distinct addresses of one family. All are opened in one kernel transaction, or none. */
struct msg_open {
    uint64_t id;     /* chosen by the resolver, echoed in OPENED */
    uint64_t policy; /* policy_id() of the image the resolver decided on */
    struct addr client;
    struct name name; /* as asked, not the end of a chain */
    uint32_t zero;
};

struct msg_opened {
    uint64_t id;
    uint64_t epoch;    /* see msg_state */
    uint32_t result;   /* REASON_ALLOWED: acknowledged by the kernel; else why not */
    uint32_t count;    /* map elements this answer now has */
    usec_t deadline;   /* monotonic time at which the first of them ends; 0 on failure */
};

/* "By which name does this client know this address?" Answered from live openings. */
struct msg_reverse {
    uint64_t id;
    struct addr client, remote;
};
struct msg_reversed {
    uint64_t id;
    uint32_t found; /* 0 or 1 */
    uint32_t ttl;   /* seconds, rest of the opening less grace */
    struct name name; /* length 0 when not found */
};

/* Sent at the start of core and on each change. When `epoch` changes, openings may have gone:
 * the resolver forgets what it believes to be open and asks again. */
struct msg_state {
    uint64_t epoch;
    uint32_t log_ok;  /* 0: nothing new may be opened */
    uint32_t ipv6_up; /* 0: AAAA is answered NODATA */
};

struct msg_policy { uint64_t policy; };

#define STATS_TABLE(X)                                                                   \
    X(queries) X(answered) X(denied) X(failed) X(cache_hits) X(upstream_queries)         \
    X(upstream_timeouts) X(upstream_mismatched) X(holds) X(open_late) X(malformed)       \
    X(rate_limited) X(tcp_connections) X(cache_entries) X(pending)
/* Resolver's counters since its start; once a second while they change. */
struct msg_stats {
#define X(field) uint64_t field;
    STATS_TABLE(X)
#undef X
};

/* ---- records ------------------------------------------------------------------------------- */

enum query_transport { TRANSPORT_UDP, TRANSPORT_TCP };
enum query_source { FROM_NONE, FROM_CACHE, FROM_UPSTREAM };

struct msg_query_item {
    uint32_t kind; /* 0: hop of the CNAME chain (name, remote empty); 1: address (remote, ttl as told,
                      name empty) */
    uint32_t ttl;
    struct addr remote;
    struct name name;
};

/* One decided query. Sent before the answer leaves. Items: up to
 * PROTO_CHAIN_MAX hops in order, then up to PROTO_ADDRS_MAX addresses. */
struct msg_query {
    usec_t time;       /* realtime of arrival */
    uint64_t policy;
    uint64_t ref;      /* record id, as shown to the client in EXTRA-TEXT (16 hex digits) */
    struct addr client;
    uint16_t client_port;
    uint16_t type;
    struct name name;  /* length 0 only if the answer is FORMERR, NOTIMP or BADVERS: none was read */
    uint32_t reason;   /* not one that concerns packets */
    uint32_t rcode;
    uint32_t agent, endpoint, deny; /* indexes of image `policy`, or POLICY_NONE */
    uint32_t opened;                /* map elements */
    uint32_t opened_seconds;        /* how long they live from `time`; 0: nothing opened */
    uint32_t latency_usec;
    uint32_t transport, from;
    struct addr upstream; /* family 0 unless FROM_UPSTREAM */
    uint32_t zero;
};

#define DENIED_BYTES_MAX 96
/* One denied packet as the kernel logged it; the recorder reads the headers, core does not. */
struct msg_denied {
    usec_t time;
    uint32_t reason;     /* REASON_NO_OPENING .. REASON_UNSOLICITED, from the rule that logged it */
    uint32_t interface;  /* index it came in by */
    char interface_name[16];
    uint32_t length;     /* bytes used below, 1..DENIED_BYTES_MAX */
    uint32_t protocol;   /* 4 or 6: which IP version the kernel says it is */
    uint8_t bytes[DENIED_BYTES_MAX]; /* from the IP header on */
};

enum flow_end { FLOW_ENDED, FLOW_REVOKED, FLOW_KILLED };

struct msg_flow {
    usec_t time; /* realtime of the end */
    uint64_t policy;
    uint64_t id; /* conntrack id */
    struct addr client, remote;
    uint16_t client_port, remote_port;
    uint32_t protocol;
    uint32_t mark;
    uint32_t agent, endpoint; /* of image `policy`; POLICY_NONE: no longer in it */
    uint32_t end;             /* enum flow_end */
    struct name name;         /* length 0: not known (address endpoint, or before a restart) */
    uint64_t bytes_out, bytes_in, packets_out, packets_in; /* out: from the client */
    uint64_t duration_usec;
};

#define EVENT_TABLE(X)                                                                         \
    X(START, "start", "core took over: `count` openings adopted, `other` stale ones removed")  \
    X(STOP, "stop", "orderly stop; the closed ruleset stays")                                  \
    X(POLICY, "policy", "another policy is in force: `count` openings and `other` flows revoked") \
    X(POLICY_REFUSED, "policy", "a policy was refused: `count` faults; the last good one stays") \
    X(CHILD_ENDED, "loss", "process `other` ended and is started again")                       \
    X(CHILD_ENDED_BY_CORE, "loss", "process `other` sent an impossible message and was ended") \
    X(REPAIRED, "loss", "the ruleset was changed by another hand and rebuilt, `count` openings set again") \
    X(DRIFT, "loss", "`count` openings differed from the kernel's and were set right")         \
    X(LOST_DENIED, "loss", "`count` denied packets went unrecorded")                           \
    X(LOST_FLOWS, "loss", "flow events went unrecorded; conntrack was read again")             \
    X(LOST_RECORDS, "loss", "`count` records of process `other` were lost")                    \
    X(LOG_STOPPED, "loss", "the log could not be written: new openings stopped")               \
    X(LOG_RESUMED, "loss", "the log is written again")                                         \
    X(SELF_TEST, "start", "self-test passed: a denied packet was dropped")

enum event_code {
    EVENT_NONE = 0,
#define X(id, kind, text) EVENT_##id,
    EVENT_TABLE(X)
#undef X
    EVENT_END
};

struct msg_event {
    usec_t time;
    uint64_t policy;
    uint32_t code; /* enum event_code */
    uint32_t uid;  /* who asked (reload, stop); UINT32_MAX: nobody */
    uint64_t count, other;
};

struct msg_log_state {
    uint32_t ok;    /* 0: cannot write */
    uint32_t error; /* errno, 0 when ok */
    uint64_t written, lost; /* records since the recorder's first start */
};

/* ---- supervision --------------------------------------------------------------------------- */

enum process { PROCESS_CORE, PROCESS_RESOLVER, PROCESS_RECORDER, PROCESS_CONTROL, PROCESS_LOADER,
               PROCESS_COUNT };
const char *process_name(uint32_t process); /* "core", "resolver", ... */

struct msg_ready { uint64_t policy; };
struct msg_load { uint64_t id; };
struct msg_loaded {
    uint64_t id;
    uint32_t ok; /* 1: two descriptors, 0: the report alone */
    uint32_t faults;
};
struct msg_commit { /* core took (1) or refused (0) the image of LOADED `id` */
    uint64_t id;
    uint32_t taken, zero;
};
struct msg_child {
    uint32_t process; /* enum process */
    uint32_t pid;
    uint32_t running; /* CHILD: 1 started, 0 ended */
    uint32_t status;  /* as waitpid() gives it, when ended */
    uint32_t restarts, zero;
};

/* ---- control ------------------------------------------------------------------------------- */

struct msg_ask {
    uint64_t id;
    uint64_t cursor; /* openings: 0, then what the last page said */
    uint32_t limit;  /* openings: items a page, 1..32 */
    uint32_t uid;    /* of the asker, by SO_PEERCRED */
    struct addr client, remote; /* openings: family 0 means any */
};

struct msg_opening {
    struct addr client, remote;
    uint16_t port;
    uint8_t protocol, zero;
    uint32_t mark;
    uint32_t agent, endpoint; /* of the image in force, POLICY_NONE if gone */
    uint32_t remaining;       /* seconds */
    uint32_t zero2;
    struct name name; /* length 0: not known */
};

struct msg_openings {
    uint64_t id;
    uint64_t cursor; /* for the next page; 0: this is the last */
};

#define STATUS_TABLE(X)                                                                       \
    X(openings) X(openings_made) X(openings_refreshed) X(openings_refused) X(openings_expired) \
    X(openings_revoked) X(transactions) X(transactions_failed) X(flows) X(flows_ended)         \
    X(flows_revoked) X(flows_cut) X(denied_packets) X(denied_lost) X(repairs) X(drift)         \
    X(policy_loads) X(policy_refused) X(records_lost)
struct msg_status {
    uint64_t id;
    uint64_t policy;
    usec_t started;  /* realtime */
    uint32_t ready;  /* self-test passed, forwarding on */
    uint32_t log_ok, log_error, ipv6_up;
    uint32_t map_size, zero;
    struct { uint32_t pid, restarts; } process[PROCESS_COUNT];
    struct msg_stats resolver;
#define X(field) uint64_t field;
    STATUS_TABLE(X)
#undef X
};

struct msg_reloaded {
    uint64_t id;
    uint64_t policy; /* in force now */
    uint32_t ok;     /* 1: the new one is in force */
    uint32_t faults;
    uint64_t openings_revoked, flows_revoked;
};

#pragma GCC diagnostic pop

/* ---- sending and receiving ----------------------------------------------------------------- */

/* A received message in memory of its own, aligned; what `head` and `body` point to is checked. */
struct proto_message {
    int fds[PROTO_FDS_MAX]; /* -1: none; the receiver owns and closes them */
    unsigned fd_count;
    size_t size;
    union {
        struct proto_head head;
        uint8_t bytes[PROTO_MAX];
        uint64_t align;
    };
};

/* Bytes of a message of this type with this many items; 0 if the type or count is impossible.
 * Counts: OPEN 1..PROTO_ADDRS_MAX, QUERY 0..PROTO_CHAIN_MAX + PROTO_ADDRS_MAX, OPENINGS
 * 0..PROTO_PAGE_MAX, others 0. */
size_t proto_size(uint32_t type, size_t items);
static inline void *proto_body(struct proto_message *m) { return m->bytes + sizeof m->head; }
/* The i-th item of a checked message. */
void *proto_item(struct proto_message *m, unsigned i);
/* Whether bytes (aligned to 8) form a valid message: 0 or -EBADMSG. */
int proto_check(const void *bytes, size_t size);

/* One end of a pair. */
struct channel {
    int fd;
    uint64_t sent, received; /* sequence numbers */
    uint64_t lost;           /* sends that failed with -EAGAIN: the peer sees a gap */
    uint64_t missed;         /* messages of the peer that never came, seen by their gap */
};

/* Starts a message in place: clears what the type needs and fills head and counts. Returns its
 * body, or NULL if that many items are impossible. Bytes past m->size stay as they were. */
void *proto_begin(struct proto_message *m, enum proto_type type, unsigned items);
/* Sends the message, with m->fds (the caller still owns and closes them). 0, -EAGAIN (peer is behind; counted in lost), or -errno. */
int channel_send(struct channel *c, struct proto_message *m);
/* Receives and checks the next message. 1 message, 0 none waiting, -EBADMSG (the sender must be
 * ended), or -errno. `accept` is a bit mask of 1 << type that this end takes from its peer; any
 * other type is -EBADMSG. Descriptors of a refused message are closed. */
int channel_receive(struct channel *c, struct proto_message *m, uint64_t accept);
#define PROTO_BIT(id) (UINT64_C(1) << PROTO_##id)

#endif
