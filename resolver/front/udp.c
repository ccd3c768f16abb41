/* udp.c: datagrams, read and sent in batches, with the local address kept from query to reply. */
#include <errno.h>
#include <string.h>

#include "gateway/base/log.h"
#include "resolver/front/internal.h"

int udp_prepare(int fd, int index) {
    int on = 1;
    int r = index == 0 ? setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on)
                       : setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
    return r < 0 ? -errno : 0;
}

/* ---- reading ---------------------------------------------------------------------------------- */

static void in_reset(struct udp_batch *b) {
    for (unsigned i = 0; i < UDP_BATCH; i++) {
        b->data[i] = (struct iovec){b->bytes[i], UDP_QUERY_MAX};
        b->messages[i].msg_hdr = (struct msghdr){
            .msg_name = &b->peers[i], .msg_namelen = sizeof b->peers[i],
            .msg_iov = &b->data[i], .msg_iovlen = 1,
            .msg_control = b->control[i].bytes, .msg_controllen = sizeof b->control[i].bytes};
    }
}

static void take_local(struct msghdr *h, struct flow_peer *peer) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;
            memcpy(&info, CMSG_DATA(c), sizeof info);
            uint8_t bytes[4];
            memcpy(bytes, &info.ipi_spec_dst, sizeof bytes);
            peer->local = addr_from4(bytes);
            peer->interface = (uint32_t)info.ipi_ifindex;
        } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo info;
            memcpy(&info, CMSG_DATA(c), sizeof info);
            peer->local = addr_from6(info.ipi6_addr.s6_addr);
            peer->interface = info.ipi6_ifindex;
        }
    }
}

static void take(struct front *f, struct udp_batch *b, unsigned i) {
    struct msghdr *h = &b->messages[i].msg_hdr;
    struct flow_peer peer = {.transport = TRANSPORT_UDP};
    if ((h->msg_flags & MSG_TRUNC) ||
        addr_from_sockaddr((struct sockaddr *)&b->peers[i], &peer.client, &peer.port) < 0 ||
        peer.port == 0) /* nothing can be sent there */
        return;
    take_local(h, &peer);
    f->sink.query(f->sink.ctx, &peer, b->bytes[i], b->messages[i].msg_len);
}

void udp_readable(uv_poll_t *poll, int status, int events) {
    struct listener *l = poll->data;
    struct front *f = l->front;
    (void)status, (void)events;
    for (int turn = 0; turn < UDP_TURNS && !f->closing; turn++) {
        in_reset(f->in);
        int got = recvmmsg(l->fd, f->in->messages, UDP_BATCH, MSG_DONTWAIT, NULL);
        if (got <= 0)
            break;
        for (int i = 0; i < got; i++)
            take(f, f->in, (unsigned)i);
        f->sink.idle(f->sink.ctx);
        if (got < UDP_BATCH)
            break;
    }
}

/* ---- sending ---------------------------------------------------------------------------------- */

static int index_of(const struct flow_peer *to) { return to->client.family == 6; }

uint8_t *udp_room(struct front *f, const struct flow_peer *to, size_t *ret_size) {
    int index = index_of(to);
    struct udp_batch *b = f->out[index];
    if (!b)
        return NULL;
    if (b->count == UDP_BATCH)
        udp_flush(f, index);
    *ret_size = UDP_QUERY_MAX;
    return b->bytes[b->count];
}

static void put_local(struct msghdr *h, union udp_control *control, const struct flow_peer *to) {
    if (to->local.family == 0)
        return;
    bool six = to->client.family == 6;
    h->msg_control = control->bytes;
    h->msg_controllen = six ? CMSG_SPACE(sizeof(struct in6_pktinfo))
                            : CMSG_SPACE(sizeof(struct in_pktinfo));
    memset(control, 0, sizeof *control);
    struct cmsghdr *c = CMSG_FIRSTHDR(h);
    if (six) {
        struct in6_pktinfo info = {.ipi6_ifindex = to->interface};
        memcpy(&info.ipi6_addr, to->local.bytes, 16);
        c->cmsg_level = IPPROTO_IPV6;
        c->cmsg_type = IPV6_PKTINFO;
        c->cmsg_len = CMSG_LEN(sizeof info);
        memcpy(CMSG_DATA(c), &info, sizeof info);
    } else {
        struct in_pktinfo info = {.ipi_ifindex = (int)to->interface};
        memcpy(&info.ipi_spec_dst, to->local.bytes, 4);
        c->cmsg_level = IPPROTO_IP;
        c->cmsg_type = IP_PKTINFO;
        c->cmsg_len = CMSG_LEN(sizeof info);
        memcpy(CMSG_DATA(c), &info, sizeof info);
    }
}

void udp_send(struct front *f, const struct flow_peer *to, size_t used) {
    struct udp_batch *b = f->out[index_of(to)];
    unsigned i = b->count++;
    b->data[i] = (struct iovec){b->bytes[i], used};
    struct msghdr *h = &b->messages[i].msg_hdr;
    *h = (struct msghdr){.msg_name = &b->peers[i], .msg_iov = &b->data[i], .msg_iovlen = 1};
    h->msg_namelen = addr_to_sockaddr(&to->client, to->port, &b->peers[i]);
    if (to->client.family == 6) /* link-local clients are only somewhere on an interface */
        ((struct sockaddr_in6 *)&b->peers[i])->sin6_scope_id =
            IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)to->client.bytes) ? to->interface : 0;
    put_local(h, &b->control[i], to);
}

/* What cannot be sent now is lost, as datagrams are: the client asks again. */
void udp_flush(struct front *f, int index) {
    struct udp_batch *b = f->out[index];
    if (!b || b->count == 0)
        return;
    unsigned from = 0;
    while (from < b->count) {
        int sent = sendmmsg(f->udp[index]->fd, b->messages + from, b->count - from,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            log_debug("reply not sent: %s", strerror(errno));
            sent = 1; /* sendmmsg() fails when the first one does */
        }
        from += (unsigned)sent;
    }
    b->count = 0;
}
