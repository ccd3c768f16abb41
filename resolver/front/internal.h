/* internal.h: what the files of front/ share. Private to the folder.
 *
 *   front.c  making and closing; which of the two a reply goes through
 *   udp.c    datagrams in batches
 *   tcp.c    connections
 */
#ifndef RESOLVER_FRONT_INTERNAL_H
#define RESOLVER_FRONT_INTERNAL_H

#include <netinet/in.h>
#include <sys/queue.h>

#include "resolver/front/front.h"
#include "resolver/opening/slots.h"

#define UDP_BATCH 64
#define UDP_QUERY_MAX 4096 /* what is longer is no query */
#define UDP_TURNS 4        /* batches read before others get their turn */
#define TCP_QUERY_MAX 4096 /* the same, over TCP; the connection ends */
#define TCP_ACCEPTS 32     /* a turn */

struct listener {
    uv_poll_t poll;
    struct front *front;
    int fd;
};

union udp_control {
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    struct cmsghdr align;
};

/* One direction of a batch. */
struct udp_batch {
    struct mmsghdr messages[UDP_BATCH];
    struct iovec data[UDP_BATCH];
    struct sockaddr_storage peers[UDP_BATCH];
    union udp_control control[UDP_BATCH];
    uint8_t bytes[UDP_BATCH][UDP_QUERY_MAX];
    unsigned count;
};

struct connection {
    uv_poll_t poll;
    TAILQ_ENTRY(connection) order; /* front->connections, longest without progress first */
    struct front *front;
    int fd;
    int events;                    /* polled for now */
    uint64_t id;
    struct addr client;
    uint16_t port;
    unsigned in_flight;            /* queries not answered yet */
    bool no_more;                  /* the client will ask nothing more (half-closed) */
    bool kicked;                   /* may ask again, see tcp_kicked() */
    usec_t progress;
    size_t in_used;
    uint8_t in[2 + TCP_QUERY_MAX];
    uint8_t *out;                  /* bytes from..used are to be sent */
    size_t out_from, out_used, out_size;
};

TAILQ_HEAD(connection_list, connection);

struct front {
    uv_loop_t *loop;
    struct clock clock;
    struct front_limits limits;
    struct front_sink sink;
    struct listener *udp[2], *tcp[2];
    uv_timer_t timer, kick;
    unsigned handles;
    bool closing;
    struct udp_batch *in, *out[2];
    struct slots ids;
    struct connection_list connections;
    unsigned connection_count;
    uint64_t accepted;
};

/* front.c */
void front_unref(struct front *f); /* a handle has been closed */

/* udp.c */
int udp_prepare(int fd, int index);
void udp_readable(uv_poll_t *poll, int status, int events);
uint8_t *udp_room(struct front *f, const struct flow_peer *to, size_t *ret_size);
void udp_send(struct front *f, const struct flow_peer *to, size_t used);
void udp_flush(struct front *f, int index);

/* tcp.c */
void tcp_acceptable(uv_poll_t *poll, int status, int events);
uint8_t *tcp_room(struct front *f, const struct flow_peer *to, size_t *ret_size);
void tcp_send(struct front *f, const struct flow_peer *to, size_t used);
void tcp_expire(struct front *f);
void tcp_kicked(uv_timer_t *timer);
void connection_close(struct connection *c);

#endif
