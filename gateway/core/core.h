/* core.h: the privileged process. It owns the kernel's ruleset and maps, and takes requests from
 * the other processes as fixed-size messages. One thread; no handler waits for anybody, and what a
 * handler may take of memory and time is bounded whatever the others send.
 *
 *   resolver OPEN -> open.c    checked against the policy, into the kernel, booked, OPENED
 *   supervisor LOADED -> reload.c   another policy: what it no longer covers is taken back
 *   at start and by timer -> reconcile.c   what the kernel holds is compared with the ledger
 *   someone else changed the ruleset -> repair.c
 *   control ASK_... -> status.c    conntrack and nflog -> record.c -> recorder
 *   children.c receives and sends; grant.c says what policy gives; ledger, marks, flows keep state.
 */
#ifndef GATEWAY_CORE_CORE_H
#define GATEWAY_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gateway/base/clock.h"
#include "gateway/core/conntrack.h"
#include "gateway/core/denied.h"
#include "gateway/core/elements.h"
#include "gateway/core/flows.h"
#include "gateway/core/grant.h"
#include "gateway/core/ledger.h"
#include "gateway/core/marks.h"
#include "gateway/core/names.h"
#include "gateway/core/ruleset.h"
#include "gateway/core/uplink.h"
#include "gateway/policy/policy.h"
#include "gateway/proto/proto.h"

#define CORE_EVENTS_MAX 64u  /* events that wait for the recorder */
#define CORE_ASKS_MAX 32u    /* reloads that control waits for: it has as many connections */
#define CORE_KEYS_MAX 4096u
#define CORE_TICK (200 * USEC_PER_MSEC)

struct core_config {
    const struct clock *clock;
    uid_t resolver;
    uint32_t map_size;  /* elements of each map */
    uint32_t flows_max; /* flows tracked */
    int supervisor, resolver_channel, recorder, control; /* channels */
    int image, state, tun; /* handover.h; image is ours from then on; tun -1: no self-test */
};

/* A policy in memory. */
struct core_image {
    struct policy policy;
    void *map;
    size_t size;
    int fd;
    uint64_t id;
};

struct core_child {
    uint32_t pid, restarts;
    bool ending; /* the supervisor was asked to end it: nothing it says is read */
};

#define X(field) uint64_t field;
struct core_counts { STATUS_TABLE(X) };
#undef X

/* An element that has to follow the ledger, and the mark it is believed to have (0: not known). */
struct core_key {
    struct ledger_key key; /* first: sorted and found by it */
    uint32_t was;
};

struct open_group; /* open.c */

struct core {
    struct core_config config;
    struct core_image image;         /* in force */
    const struct core_image *record; /* by which flow records are told; differs amid a reload */

    struct names *names;
    struct ledger *ledger;
    struct flows *flows;
    struct marks *marks;
    struct open_group *open;
    struct core_key *keys;     /* CORE_KEYS_MAX: scratch of reload and reconcile */

    struct elements *elements;
    struct conntrack *conntrack;
    struct denied *denied;
    struct uplink *uplink;
    struct ruleset ruleset;
    uint8_t ruleset_sum[32];   /* of the text that is loaded */
    uint32_t transactions;     /* elements_transactions() when the generation was taken */
    bool rebuild;              /* the ruleset is not ours or not whole */
    bool compare;              /* compare maps and ledger soon */
    usec_t compared;           /* monotonic */
    uint64_t compare_cursor;   /* in the ledger, amid a comparison by parts */
    uint8_t round;             /* of the comparisons */
    bool repair_failed;        /* forwarding is off until it succeeds */
    usec_t repair_next;        /* monotonic: tried again then */
    struct { unsigned requests; uint32_t failed; bool empty; } sync; /* sync.c */

    struct channel supervisor, resolver, recorder, control;
    struct proto_message in, out;
    uint32_t owed;             /* messages that found a full queue; children.c */

    uint64_t epoch;            /* msg_state */
    bool log_ok, ipv6_up, ready, stopping;
    uint32_t log_error;

    struct msg_event events[CORE_EVENTS_MAX];
    unsigned event_first, event_count;
    uint64_t denied_lost;      /* not yet told */
    usec_t second;             /* when the work of once a second was done last */
    uint32_t flow_room;        /* flows that the tracker takes, of all agents together */
    uint64_t flows_cut_told;

    struct { uint64_t id, load; uint32_t uid; } asks[CORE_ASKS_MAX];
    unsigned ask_count;
    uint64_t load;             /* of the LOAD under way, 0: none; and the last number used */
    uint64_t load_last;

    usec_t started;            /* realtime */
    struct core_child children[PROCESS_COUNT];
    struct msg_stats stats;    /* of the resolver */
    struct core_counts counts;
};

/* ---- core.c: life ---- */
/* Takes what the kernel has to give and what policy says into memory; changes nothing. 0, or -errno
 * with the reason logged. */
int core_open(struct core *c, const struct core_config *config);
void core_close(struct core *c); /* the kernel keeps everything */
/* Ruleset, barrier, adoption of what the kernel holds, self-test, forwarding, READY. 0 or -errno,
 * logged; forwarding is off then. */
int core_start(struct core *c);
void core_tick(struct core *c); /* every CORE_TICK */
void core_uplink(struct core *c); /* uplink_fd() is readable */
void core_tell_absent(const struct core *c); /* warns of interfaces that do not exist */

static inline usec_t core_now(const struct core *c) { return clock_now(c->config.clock); }
static inline const struct policy_gateway *core_gateway(const struct core *c) {
    return policy_gateway(&c->image.policy);
}

/* ---- image.c: policies from descriptors ---- */
/* Maps the sealed image and checks it. The struct owns fd on success. -EPERM not sealed, -EBADMSG
 * not a valid image, -errno. */
int core_image_open(struct core_image *ret, int fd);
void core_image_close(struct core_image *i);

/* ---- children.c: messages ---- */
enum {
    OWE_STATE = 1 << 0,
    OWE_POLICY_RESOLVER = 1 << 1,
    OWE_POLICY_RECORDER = 1 << 2,
    OWE_POLICY_CONTROL = 1 << 3,
    OWE_POLICY = OWE_POLICY_RESOLVER | OWE_POLICY_RECORDER | OWE_POLICY_CONTROL,
};
/* The channel is readable: handles a bounded number of messages. */
void core_from_supervisor(struct core *c);
void core_from_resolver(struct core *c);
void core_from_recorder(struct core *c);
void core_from_control(struct core *c);
/* Sends c->out; a full queue is counted. 0 or -errno. */
int core_send(struct core *c, struct channel *to);
/* Notes that these have to be sent, and sends what can be sent. */
void core_owe(struct core *c, uint32_t what);
void core_pay(struct core *c); /* tries again what is owed, events included */
/* Openings may have gone: the resolver must ask anew. */
void core_new_epoch(struct core *c);

/* ---- open.c ---- */
struct open_group *open_group_new(void); /* NULL when out of memory */
struct open_group *open_group_free(struct open_group *g);
/* c->in is an OPEN: joins the group, or is answered at once. */
void open_take(struct core *c);
/* Puts the group into the kernel and answers each request of it. */
void open_commit(struct core *c);
void open_reverse(struct core *c); /* c->in is a REVERSE */

/* ---- sync.c: making the kernel's maps match the ledger ---- */
/* Sets each key, as many as are put between begin and end, to what the ledger has for it: an
 * element with the remaining lifetime, or none. sync_end() says how many failed; if any did, the
 * table will be made anew (repair.c). */
void sync_begin(struct core *c, bool empty); /* `empty`: the maps hold nothing yet */
void sync_key(struct core *c, const struct ledger_key *key, uint32_t was);
uint32_t sync_end(struct core *c);
struct element_key sync_element_key(const struct ledger_key *key);
struct ledger_key sync_ledger_key(const struct element_key *key);

/* ---- reload.c ---- */
void reload_ask(struct core *c);    /* c->in is an ASK_RELOAD */
void reload_loaded(struct core *c); /* c->in is a LOADED */
void reload_resume(struct core *c); /* a LOAD that could not be sent is tried again */
/* Loads the ruleset of the image, if its text differs from the one loaded or `always`. 1 the maps of
 * openings are empty now, 0, or -errno (nothing changed), logged. */
int reload_ruleset(struct core *c, const struct core_image *image, bool rebuild, bool always);

/* ---- reconcile.c ---- */
/* At start: takes over elements and flows that the policy still covers, removes the others. */
int reconcile_adopt(struct core *c);
/* Compares maps and ledger and repairs both ways, when it is time for that. */
void reconcile_tick(struct core *c, usec_t now);
void reconcile_flows(struct core *c); /* events were lost: reads the connection tracker anew */
/* ---- repair.c ---- */
void repair_check(struct core *c); /* cheap when nothing has changed */
/* The ruleset's generation is the one of this moment, by our own hand. */
void repair_accept(struct core *c, uint32_t generation);

/* ---- share.c ---- */
void share_judge(struct core *c, const struct conntrack_flow *told); /* a flow that just began */
void share_restore(struct core *c); /* flows were read anew: whoever has too many loses them */
void share_second(struct core *c);  /* once a second, and before the first flow */

/* ---- status.c ---- */
void status_ask(struct core *c);    /* c->in is an ASK_STATUS */
void status_openings(struct core *c); /* c->in is an ASK_OPENINGS */

/* ---- record.c ---- */
void record_event(struct core *c, enum event_code code, uint64_t count, uint64_t other,
                  uint32_t uid);
bool record_pay(struct core *c);   /* sends waiting events; whether none waits any more */
void record_second(struct core *c); /* once a second: losses */
/* conntrack_fd() is readable. Whether there may be more. */
bool record_flows(struct core *c);
void record_all_flows(struct core *c);
void record_denied(struct core *c); /* denied_fd() is readable */

#endif
