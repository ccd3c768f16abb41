/* world.h: the engine of resolver/flow with everything around it played by the scenario: clock,
 * clients, upstreams, core with its kernel, recorder. It also holds the engine to its promises at
 * every step, whatever the scenario expects:
 *   - an address in a reply was opened for that client, and TTL + grace ends before the opening does
 *   - each query gets at most one reply, with its own id and question, octet for octet
 *   - each reply has one record, sent before it, that passes the receiver's check
 *   - without a record nothing but SERVFAIL leaves
 */
#ifndef TESTS_SCENARIO_WORLD_H
#define TESTS_SCENARIO_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/base/clock.h"
#include "gateway/policy/policy.h"
#include "gateway/proto/proto.h"
#include "resolver/flow/flow.h"
#include "tests/scenario/dns.h"

#define LABEL_MAX 48
#define QUERIES_MAX 1200
#define ASKS_MAX 2000
#define OPENS_MAX 2000
#define KERNEL_MAX 8000

struct ask { uint64_t id; struct name name; uint16_t type; bool over, cancelled, seen, seen_cancel; };

struct open {
    struct msg_open body;
    unsigned count;
    struct msg_open_addr addrs[PROTO_ADDRS_MAX];
    bool answered, seen;
};

struct back { struct msg_reverse body; bool answered, seen; };

struct asked_query {
    char label[LABEL_MAX];
    struct flow_peer peer;
    int size;
    uint8_t *bytes;
    unsigned replies;
    bool recorded, seen;
    uint8_t *reply_bytes;
    size_t reply_size;
    struct msg_query record;
    char chain[DNS_TEXT_MAX]; /* of the record */
    unsigned record_addrs;
};

struct kernel_entry { struct addr client, remote; usec_t deadline; };

struct world {
    const char *file;
    int line;
    bool failed;
    char directory[64]; /* of the policy's files */
    struct clock_fake fake;
    struct policy policy;
    void *image;
    struct flow *flow;
    uint64_t epoch, randomness;
    bool recorder_full, core_busy, auto_open;
    struct ask *asks;
    struct open *opens;
    struct back backs[64];
    struct asked_query *queries;
    struct kernel_entry *kernel;
    unsigned ask_count, open_count, back_count, query_count, kernel_count;
};

struct world *world_new(const char *file);
void world_free(struct world *w);
/* Says what is wrong at the present line and marks the scenario as failed. */
void world_fail(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The policy's files: the folder base/, and what the scenario wrote over it. */
int world_write(struct world *w, const char *path, const char *text);
int world_compile(struct world *w, struct policy *ret, void **ret_image); /* -1: faults, printed */
int world_start(struct world *w);
int world_reload(struct world *w);
void world_restart(struct world *w); /* the resolver dies and is started again */

void world_query(struct world *w, const char *label, const struct flow_peer *peer,
                 const struct dns_query *query);
struct asked_query *world_find(struct world *w, const char *label);
void world_answer(struct world *w, const struct ask *a, const uint8_t *bytes, size_t size);
void world_upstream_failed(struct world *w, const struct ask *a, enum reason reason);
/* Core's answer to the oldest unanswered OPEN; ALLOWED enters it into the kernel. Lifetime 0: as
 * asked for; epoch 0: the present one. */
int world_opened(struct world *w, enum reason result, uint32_t lifetime, uint64_t epoch);
int world_reversed(struct world *w, const struct name *name, uint32_t ttl); /* NULL: none */
void world_state(struct world *w, uint64_t epoch, bool log_ok, bool ipv6_up);
void world_advance(struct world *w, usec_t by);
/* Carries out what the engine wants done. Called by all the above. */
void world_settle(struct world *w);

#endif
