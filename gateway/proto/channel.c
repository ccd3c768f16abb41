/* channel.c: messages over one end of a SOCK_SEQPACKET pair. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/proto/proto.h"

_Static_assert(PROTO_TYPE_END <= 64, "a mask has a bit for each type");

union ancillary {
    char bytes[CMSG_SPACE(PROTO_FDS_MAX * sizeof(int))];
    struct cmsghdr first;
};

/* How many descriptors a message of this kind carries. */
static unsigned fds_wanted(struct proto_message *m) {
    switch (m->head.type) {
    case PROTO_POLICY:
    case PROTO_RELOADED: return 1;
    case PROTO_LOADED: return ((const struct msg_loaded *)proto_body(m))->ok ? 2 : 1;
    default: return 0;
    }
}

int channel_send(struct channel *c, struct proto_message *m) {
    if (m->size == 0 || m->fd_count != fds_wanted(m)) return -EINVAL;
    m->head.sequence = ++c->sent; /* spent even if the send fails: the peer then sees a gap */
#ifdef __SANITIZE_ADDRESS__
    /* The receiver would end this process; in a test build say here which message it was. */
    if (proto_check(m->bytes, m->size) < 0) {
        log_error("message of type %u with %u items would be refused", m->head.type, m->head.items);
        abort();
    }
#endif
    struct iovec data = {.iov_base = m->bytes, .iov_len = m->size};
    struct msghdr h = {.msg_iov = &data, .msg_iovlen = 1};
    union ancillary space;
    if (m->fd_count > 0) {
        memset(&space, 0, sizeof space);
        h.msg_control = space.bytes;
        h.msg_controllen = CMSG_SPACE(m->fd_count * sizeof(int));
        struct cmsghdr *part = &space.first;
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(m->fd_count * sizeof(int));
        memcpy(CMSG_DATA(part), m->fds, m->fd_count * sizeof(int));
    }
    ssize_t done;
    do done = sendmsg(c->fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (done < 0 && errno == EINTR);
    if (done >= 0) return 0;
    /* ENOBUFS: the kernel had no memory; for the caller the same as a full queue. */
    if (errno != EAGAIN && errno != ENOBUFS) return -errno;
    c->lost++;
    return -EAGAIN;
}

/* Takes the descriptors that came along into m->fds. False if anything else came. */
static bool take_fds(struct proto_message *m, struct msghdr *h) {
    bool clean = true;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(h); part; part = CMSG_NXTHDR(h, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            clean = false;
            continue;
        }
        /* The kernel sends all of a message's descriptors as one part, and cuts what does not fit
         * into `ancillary`, so they fit into m->fds. */
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(m->fds, CMSG_DATA(part), count * sizeof(int));
        m->fd_count = (unsigned)count;
    }
    return clean;
}

static int refuse(struct proto_message *m) {
    for (unsigned i = 0; i < m->fd_count; i++) {
        close(m->fds[i]);
        m->fds[i] = -1;
    }
    m->fd_count = 0;
    m->size = 0;
    return -EBADMSG;
}

/* A sender that was started again counts from 1: no gap. A receiver that was started again knows no
 * number to expect, unless it has set c->received. */
static void count_gap(struct channel *c, uint64_t sequence) {
    if (c->received > 0 && sequence > c->received + 1) c->missed += sequence - c->received - 1;
    c->received = sequence;
}

int channel_receive(struct channel *c, struct proto_message *m, uint64_t accept) {
    for (unsigned i = 0; i < PROTO_FDS_MAX; i++) m->fds[i] = -1;
    m->fd_count = 0;
    m->size = 0;

    struct iovec data = {.iov_base = m->bytes, .iov_len = sizeof m->bytes};
    union ancillary space;
    struct msghdr h = {.msg_iov = &data, .msg_iovlen = 1,
                       .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
    ssize_t got;
    do got = recvmsg(c->fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0) return errno == EAGAIN ? 0 : -errno;

    /* An empty packet reads like the end of the stream, which is never seen: either is a breach. */
    if (!take_fds(m, &h) || (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) return refuse(m);
    if (proto_check(m->bytes, (size_t)got) < 0) return refuse(m);
    if (!(accept >> m->head.type & 1)) return refuse(m);
    if (m->head.sequence == 0 || m->fd_count != fds_wanted(m)) return refuse(m);
    m->size = (size_t)got;
    count_gap(c, m->head.sequence);
    return 1;
}
