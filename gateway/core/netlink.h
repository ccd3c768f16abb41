/* netlink.h: a thin layer over libmnl: one socket per purpose, batches, dumps, bounded replies.
 *
 * A netlink socket is never shared between purposes or processes: replies that wait for somebody
 * else end libraries that do not expect them, and CAP_NET_ADMIN is checked of opener and sender.
 * nfnetlink and rtnetlink answer within sendmsg(), so replies are read without ever blocking.
 */
#ifndef GATEWAY_CORE_NETLINK_H
#define GATEWAY_CORE_NETLINK_H

#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct netlink {
    int fd;
    struct mnl_socket *socket;
    uint32_t port, sequence;
    int protocol, buffer;
    uint32_t groups;
    uint8_t *reply; /* NETLINK_REPLY_MAX bytes */
};

#define NETLINK_REPLY_MAX 65536

/* Opens and binds a socket of NETLINK_NETFILTER or NETLINK_ROUTE, close-on-exec, non-blocking,
 * joined to the multicast groups of `groups` (bit n-1: group n), with kernel buffers of `buffer`
 * bytes both ways (beyond the system limits; needs CAP_NET_ADMIN). 0 or -errno. */
int netlink_open(struct netlink *ret, int protocol, uint32_t groups, int buffer);
/* Takes a struct that is all zero or was closed before. */
void netlink_close(struct netlink *n);
/* The next sequence number for a message. Never 0: that is what events carry. */
uint32_t netlink_sequence(struct netlink *n);

/* What the kernel said about a batch of messages. */
struct netlink_verdict {
    int error;               /* 0, or the first error, as -errno */
    uint32_t error_sequence; /* of the message it belongs to */
    unsigned errors;         /* messages in error */
    bool acknowledged;       /* a zero ack for `last` was seen */
};
/* Sends `size` bytes of whole messages and reads all replies. 0 when no reply was an error and the
 * message with sequence `last` (which carries NLM_F_ACK) was acknowledged; else the first error;
 * -EPROTO when the acknowledgement is missing; -ENOBUFS when replies were lost. `verdict` (may be
 * NULL) is filled in every case. */
int netlink_batch(struct netlink *n, const void *messages, size_t size, uint32_t last,
                  struct netlink_verdict *verdict);

/* Sends one message with NLM_F_REQUEST | NLM_F_ACK set by this function. 0 or -errno. */
int netlink_request(struct netlink *n, struct nlmsghdr *message);

/* Handles one message; negative ends the reading with that value. */
typedef int (*netlink_fn)(void *ctx, const struct nlmsghdr *message);
/* Sends a request (NLM_F_DUMP or a plain get, set by the caller) and gives each message of the
 * reply to `fn`. When that ends a dump early, the socket is opened anew instead of reading the rest
 * (not for sockets with groups: these read on). 0; -EINTR when the kernel says that the dump is inconsistent (what `fn` saw must
 * be thrown away; ask again); -ENOBUFS; -errno, or what `fn` returned. */
int netlink_query(struct netlink *n, struct nlmsghdr *message, netlink_fn fn, void *ctx);
/* Reads what waits on an event socket: at most `limit` datagrams. Number of messages given to
 * `fn`, -ENOBUFS when the kernel dropped some (go on reading afterwards), -errno, or what `fn`
 * returned. */
int netlink_events(struct netlink *n, unsigned limit, netlink_fn fn, void *ctx);

#endif
