/* upstream.h: asks upstreams a question and gives back one answer or one failure.
 *
 * Every attempt has a socket of its own with a random port, connected to the server, and a random
 * id: only that server's packets arrive, and of those only the answer to this question is taken.
 * Whatever else comes is dropped and counted and the wait goes on, so that forged packets gain
 * nothing, not even an early end. A truncated answer is asked for again over TCP.
 */
#ifndef RESOLVER_UPSTREAM_UPSTREAM_H
#define RESOLVER_UPSTREAM_UPSTREAM_H

#include <stdint.h>
#include <uv.h>

#include "gateway/base/clock.h"
#include "gateway/base/name.h"
#include "gateway/policy/policy.h"
#include "gateway/proto/proto.h"
#include "resolver/wire/wire.h"

struct upstream;

/* Called from the loop, never from within upstream_ask(). After either, the question is over. The
 * answer has rcode NOERROR or NXDOMAIN and is good until the call returns. */
struct upstream_events {
    void (*answer)(void *ctx, uint64_t id, const struct wire_answer *answer,
                   const struct addr *server);
    void (*failed)(void *ctx, uint64_t id, enum reason reason);
    void *ctx;
};

struct upstream_limits {
    usec_t budget;    /* for one question, all attempts together */
    unsigned sockets; /* at once; questions beyond that wait their turn, within their budget */
};
extern const struct upstream_limits upstream_limits_default;

/* NULL: out of memory. */
struct upstream *upstream_new(uv_loop_t *loop, const struct clock *clock,
                              const struct upstream_limits *limits,
                              const struct upstream_events *events);
/* Takes the servers of a configuration; questions under way go on with them. How many are usable. */
unsigned upstream_configure(struct upstream *u, const struct policy_gateway *g);
/* `id` is the caller's and not in use. Asking cannot fail here: failures are events. */
void upstream_ask(struct upstream *u, uint64_t id, const struct name *name, uint16_t type);
/* No event comes for it any more. Unknown ids are ignored. */
void upstream_cancel(struct upstream *u, uint64_t id);
/* Adds this module's counters to *m. */
void upstream_stats(const struct upstream *u, struct msg_stats *m);
unsigned upstream_sockets(const struct upstream *u); /* open now */
/* Cancels everything; memory goes when the loop has run the closing callbacks. */
void upstream_close(struct upstream *u);

#endif
