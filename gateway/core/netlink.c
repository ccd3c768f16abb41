/* netlink.c: batches, dumps and events over libmnl. */
#include "gateway/core/netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Beyond the socket's limits by the FORCE variants; the plain ones as a fallback, so that tests in
 * odd environments still run with what they get. */
static void buffer_set(int fd, int size) {
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

int netlink_open(struct netlink *ret, int protocol, uint32_t groups, int buffer) {
    struct netlink n = {.fd = -1, .protocol = protocol, .groups = groups, .buffer = buffer};
    int on = 1, error;

    n.reply = malloc(NETLINK_REPLY_MAX);
    if (!n.reply) return -ENOMEM;
    n.socket = mnl_socket_open2(protocol, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (!n.socket) goto fail;
    n.fd = mnl_socket_get_fd(n.socket);
    buffer_set(n.fd, buffer);
    /* An error reply then repeats the head of the message only: a batch of thousands fits. */
    if (mnl_socket_setsockopt(n.socket, NETLINK_CAP_ACK, &on, sizeof on) < 0) goto fail;
    if (mnl_socket_bind(n.socket, groups, MNL_SOCKET_AUTOPID) < 0) goto fail;
    n.port = mnl_socket_get_portid(n.socket);
    *ret = n;
    return 0;
fail:
    error = errno;
    netlink_close(&n);
    return -error;
}

void netlink_close(struct netlink *n) {
    if (n->socket) mnl_socket_close(n->socket);
    free(n->reply);
    *n = (struct netlink){.fd = -1};
}

uint32_t netlink_sequence(struct netlink *n) {
    if (++n->sequence == 0) n->sequence = 1;
    return n->sequence;
}

static int send_all(struct netlink *n, const void *messages, size_t size) {
    ssize_t sent;
    do sent = mnl_socket_sendto(n->socket, messages, size);
    while (sent < 0 && errno == EINTR);
    if (sent < 0) return -errno;
    return (size_t)sent == size ? 0 : -EMSGSIZE;
}

/* The next datagram from the kernel: its size, 0 when none waits, -errno. Datagrams of other
 * processes are thrown away: root can send to any netlink port. */
static ssize_t receive_one(struct netlink *n) {
    for (;;) {
        struct sockaddr_nl from = {0};
        struct iovec iov = {.iov_base = n->reply, .iov_len = NETLINK_REPLY_MAX};
        struct msghdr head = {
            .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &iov, .msg_iovlen = 1};
        ssize_t size = recvmsg(n->fd, &head, MSG_DONTWAIT);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return errno == EAGAIN ? 0 : -errno;
        if (head.msg_flags & MSG_TRUNC) return -EMSGSIZE;
        if (from.nl_pid != 0 || size == 0) continue;
        return size;
    }
}

/* The code in an NLMSG_ERROR or NLMSG_DONE message; both begin with an int. */
static int message_code(const struct nlmsghdr *m) {
    int code;
    if (m->nlmsg_len < NLMSG_HDRLEN + sizeof code) return m->nlmsg_type == NLMSG_DONE ? 0 : -EPROTO;
    memcpy(&code, mnl_nlmsg_get_payload(m), sizeof code);
    return code > 0 ? -EPROTO : code;
}

static void verdict_note(struct netlink_verdict *v, const struct nlmsghdr *m, uint32_t last) {
    int code = message_code(m);
    if (code == 0) {
        if (m->nlmsg_seq == last) v->acknowledged = true;
        return;
    }
    if (v->errors++ == 0) {
        v->error = code;
        v->error_sequence = m->nlmsg_seq;
    }
}

int netlink_batch(struct netlink *n, const void *messages, size_t size, uint32_t last,
                  struct netlink_verdict *verdict) {
    struct netlink_verdict v = {0};
    uint32_t first = ((const struct nlmsghdr *)messages)->nlmsg_seq;
    bool lost = false;
    int error = send_all(n, messages, size);

    if (error < 0) v.error = error;
    for (;;) {
        ssize_t got = receive_one(n);
        if (got == -ENOBUFS) {
            lost = true;
            continue;
        }
        if (got < 0 && error == 0) error = (int)got;
        if (got <= 0) break;
        int left = (int)got;
        for (const struct nlmsghdr *m = (void *)n->reply; mnl_nlmsg_ok(m, left);
             m = mnl_nlmsg_next(m, &left))
            if (m->nlmsg_type == NLMSG_ERROR && m->nlmsg_seq - first <= last - first)
                verdict_note(&v, m, last);
    }
    if (verdict) *verdict = v;
    if (error < 0) return error;
    if (v.errors > 0) return v.error;
    if (lost) return -ENOBUFS;
    return v.acknowledged ? 0 : -EPROTO;
}

int netlink_request(struct netlink *n, struct nlmsghdr *message) {
    message->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
    message->nlmsg_seq = netlink_sequence(n);
    return netlink_batch(n, message, message->nlmsg_len, message->nlmsg_seq, NULL);
}

struct query {
    netlink_fn fn;
    void *ctx;
    uint32_t sequence;
    int result;
    bool done, interrupted;
};

static void query_take(struct query *q, const struct nlmsghdr *m) {
    if (m->nlmsg_seq != q->sequence) return;
    if (m->nlmsg_flags & NLM_F_DUMP_INTR) q->interrupted = true;
    if (m->nlmsg_type == NLMSG_ERROR || m->nlmsg_type == NLMSG_DONE) {
        int code = message_code(m);
        q->done = true;
        if (code < 0 && q->result == 0) q->result = code;
    } else if (m->nlmsg_type >= NLMSG_MIN_TYPE && q->result == 0) {
        int code = q->fn(q->ctx, m);
        if (code < 0) q->result = code;
    }
}

/* The rest of a dump of a large map costs as much as the whole, and an unfinished one would make the
 * next -EBUSY; closing the socket ends it at once. */
static int query_abandon(struct netlink *n, int result) {
    struct netlink fresh;
    uint32_t sequence = n->sequence;
    int error = netlink_open(&fresh, n->protocol, n->groups, n->buffer);
    if (error < 0) return error;
    netlink_close(n);
    *n = fresh;
    n->sequence = sequence;
    return result;
}

int netlink_query(struct netlink *n, struct nlmsghdr *message, netlink_fn fn, void *ctx) {
    struct query q = {.fn = fn, .ctx = ctx, .sequence = netlink_sequence(n)};
    int error;

    message->nlmsg_flags |= NLM_F_REQUEST;
    /* What is not a dump ends with the acknowledgement, so both kinds have an end. */
    if ((message->nlmsg_flags & NLM_F_DUMP) != NLM_F_DUMP) message->nlmsg_flags |= NLM_F_ACK;
    message->nlmsg_seq = q.sequence;
    error = send_all(n, message, message->nlmsg_len);
    if (error < 0) return error;
    while (!q.done) {
        ssize_t got = receive_one(n);
        if (got == 0) return -EPROTO; /* no end was seen */
        if (got < 0) return (int)got;
        int left = (int)got;
        for (const struct nlmsghdr *m = (void *)n->reply; mnl_nlmsg_ok(m, left);
             m = mnl_nlmsg_next(m, &left))
            query_take(&q, m);
        if (q.result < 0 && !q.done && n->groups == 0) return query_abandon(n, q.result);
    }
    if (q.result < 0) return q.result;
    return q.interrupted ? -EINTR : 0;
}

int netlink_events(struct netlink *n, unsigned limit, netlink_fn fn, void *ctx) {
    int count = 0;
    for (unsigned i = 0; i < limit; i++) {
        ssize_t got = receive_one(n);
        if (got == 0) break;
        if (got < 0) return (int)got;
        int left = (int)got;
        for (const struct nlmsghdr *m = (void *)n->reply; mnl_nlmsg_ok(m, left);
             m = mnl_nlmsg_next(m, &left)) {
            if (m->nlmsg_type < NLMSG_MIN_TYPE) continue;
            int code = fn(ctx, m);
            if (code < 0) return code;
            count++;
        }
    }
    return count;
}
