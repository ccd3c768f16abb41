/* front.h: the listeners: DNS over UDP and TCP, IPv4 and IPv6, all feeding the same engine.
 *
 * Replies leave from the address that was asked, by the interface the query came in by. Over TCP
 * queries may be pipelined and are answered in whatever order answers are ready (RFC 7766).
 */
#ifndef RESOLVER_FRONT_FRONT_H
#define RESOLVER_FRONT_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "gateway/base/clock.h"
#include "gateway/proto/proto.h"
#include "resolver/flow/flow.h"

struct front;

struct front_sink {
    /* A query arrived. Whether a reply will follow: what is dropped in silence gets none. */
    bool (*query)(void *ctx, const struct flow_peer *peer, const uint8_t *bytes, size_t size);
    /* Nothing more to read for now: time to act on what was fed in. */
    void (*idle)(void *ctx);
    void *ctx;
};

struct front_limits {
    unsigned connections, per_client; /* TCP, at once */
    usec_t idle;                      /* a connection that neither asks nor takes is closed */
    size_t backlog; /* bytes of untaken replies beyond half of which a client may ask no more */
};
extern const struct front_limits front_limits_default;

struct front_sockets { int udp[2], tcp[2]; }; /* bound, TCP listening; -1: none */

/* Takes the sockets over. NULL: out of memory, or a socket is not what it should be (logged). */
struct front *front_new(uv_loop_t *loop, const struct clock *clock, const struct front_limits *limits,
                        const struct front_sockets *sockets, const struct front_sink *sink);

/* Room to write one reply to this peer into, *ret_size octets of it. NULL: it is gone, and the reply
 * with it. Each call is followed by front_send() before the next. */
uint8_t *front_room(struct front *f, const struct flow_peer *to, size_t *ret_size);
void front_send(struct front *f, const struct flow_peer *to, size_t used);
/* UDP replies are collected; this sends them. */
void front_flush(struct front *f);

void front_stats(const struct front *f, struct msg_stats *m);
unsigned front_connections(const struct front *f);
/* Closes everything; memory goes when the loop has run the closing callbacks. */
void front_close(struct front *f);

#endif
