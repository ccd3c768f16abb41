/* denied.c: nflog (linux/netfilter/nfnetlink_log.h). */
#include "gateway/core/denied.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/core/netlink.h"

#define EVENT_BUFFER (4 << 20)
#define EVENTS_AT_ONCE 64
#define FLUSH_HUNDREDTHS 5 /* the kernel gathers packets at most this long, in 1/100 s */
#define FLUSH_PACKETS 32
#define NAMES_MAX 32
#define NAME_LIFETIME (10 * USEC_PER_SEC) /* interfaces are renamed seldom */

struct interface_name {
    uint32_t index;
    usec_t until;
    char name[16];
};

struct denied {
    struct netlink log, route;
    const struct clock *clock;
    bool counting;     /* a sequence number was seen */
    uint32_t sequence; /* the next one expected */
    uint64_t lost;
    struct interface_name names[NAMES_MAX];
};

/* ---- binding ----------------------------------------------------------------------------- */

static struct nlmsghdr *config(uint64_t space[32]) {
    struct nlmsghdr *m = mnl_nlmsg_put_header(space);
    struct nfgenmsg *g = mnl_nlmsg_put_extra_header(m, sizeof *g);
    m->nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG;
    *g = (struct nfgenmsg){.version = NFNETLINK_V0, .res_id = htons(DENIED_GROUP)};
    return m;
}

static int bind_group(struct denied *d) {
    uint64_t space[32];
    struct nlmsghdr *m = config(space);
    struct nfulnl_msg_config_cmd command = {.command = NFULNL_CFG_CMD_BIND};
    struct nfulnl_msg_config_mode mode = {.copy_range = htonl(DENIED_BYTES_MAX),
                                          .copy_mode = NFULNL_COPY_PACKET};
    mnl_attr_put(m, NFULA_CFG_CMD, sizeof command, &command);
    int error = netlink_request(&d->log, m);
    /* The kernel's word for a group that another socket has bound. (Without CAP_NET_ADMIN it says the
     * same, but then nothing else of core works either.) */
    if (error == -EPERM) return -EBUSY;
    if (error < 0) return error;
    m = config(space);
    mnl_attr_put(m, NFULA_CFG_MODE, sizeof mode, &mode);
    mnl_attr_put_u32(m, NFULA_CFG_TIMEOUT, htonl(FLUSH_HUNDREDTHS));
    mnl_attr_put_u32(m, NFULA_CFG_QTHRESH, htonl(FLUSH_PACKETS));
    mnl_attr_put_u16(m, NFULA_CFG_FLAGS, htons(NFULNL_CFG_F_SEQ));
    return netlink_request(&d->log, m);
}

int denied_open(struct denied **ret, const struct clock *clock) {
    struct denied *d = calloc(1, sizeof *d);
    if (!d) return -ENOMEM;
    d->clock = clock;
    int error = netlink_open(&d->log, NETLINK_NETFILTER, 0, EVENT_BUFFER);
    if (error == 0) error = netlink_open(&d->route, NETLINK_ROUTE, 0, 1 << 18);
    if (error == 0) error = bind_group(d);
    if (error < 0) {
        denied_close(d);
        return error;
    }
    *ret = d;
    return 0;
}

struct denied *denied_close(struct denied *d) {
    if (!d) return NULL;
    netlink_close(&d->log);
    netlink_close(&d->route);
    free(d);
    return NULL;
}

int denied_fd(const struct denied *d) { return d->log.fd; }

uint64_t denied_lost(struct denied *d) {
    uint64_t lost = d->lost;
    d->lost = 0;
    return lost;
}

/* ---- interface names --------------------------------------------------------------------- */

static int name_take(void *ctx, const struct nlmsghdr *m) {
    const struct nlattr *a;
    char *name = ctx;
    mnl_attr_for_each(a, m, sizeof(struct ifinfomsg)) {
        uint16_t size = mnl_attr_get_payload_len(a);
        if (mnl_attr_get_type(a) == IFLA_IFNAME && size > 0 && size <= 16) {
            memcpy(name, mnl_attr_get_str(a), size);
            name[15] = '\0';
        }
    }
    return 0;
}

/* The name of an interface, "" when it has gone; remembered for a while. */
static const char *interface_name(struct denied *d, uint32_t index) {
    struct interface_name *n = &d->names[index % NAMES_MAX];
    usec_t now = clock_now(d->clock);
    uint64_t space[16];
    if (n->index == index && now < n->until) return n->name;
    struct nlmsghdr *m = mnl_nlmsg_put_header(space);
    struct ifinfomsg *head = mnl_nlmsg_put_extra_header(m, sizeof *head);
    m->nlmsg_type = RTM_GETLINK;
    head->ifi_index = (int)index;
    *n = (struct interface_name){.index = index, .until = now + NAME_LIFETIME};
    if (netlink_query(&d->route, m, name_take, n->name) < 0) n->name[0] = '\0';
    return n->name;
}

/* ---- packets ----------------------------------------------------------------------------- */

/* The reason is in the prefix our rule has; 0 when the packet was not logged by one of ours. */
static uint32_t reason_read(const struct nlattr *a) {
    size_t size = mnl_attr_get_payload_len(a), skip = strlen(DENIED_PREFIX);
    const char *text = mnl_attr_get_str(a);
    if (size <= skip || text[size - 1] != '\0' || memcmp(text, DENIED_PREFIX, skip) != 0) return 0;
    for (uint32_t r = REASON_NO_OPENING; r <= REASON_UNSOLICITED; r++)
        if (strcmp(text + skip, reason_tag(r)) == 0) return r;
    return 0;
}

static void sequence_note(struct denied *d, uint32_t sequence) {
    if (d->counting) d->lost += (uint32_t)(sequence - d->sequence);
    d->counting = true;
    d->sequence = sequence + 1;
}

static uint32_t version_read(const struct nlattr *a) {
    struct nfulnl_msg_packet_hdr head;
    if (mnl_attr_get_payload_len(a) < sizeof head) return 0;
    memcpy(&head, mnl_attr_get_payload(a), sizeof head);
    if (ntohs(head.hw_protocol) == ETH_P_IP) return 4;
    return ntohs(head.hw_protocol) == ETH_P_IPV6 ? 6 : 0;
}

static bool packet_read(struct denied *d, const struct nlmsghdr *m, struct msg_denied *ret) {
    const struct nfgenmsg *g = mnl_nlmsg_get_payload(m);
    const struct nlattr *a;
    mnl_attr_for_each(a, m, sizeof *g) {
        size_t size = mnl_attr_get_payload_len(a);
        switch (mnl_attr_get_type(a)) {
        case NFULA_PACKET_HDR: ret->protocol = version_read(a); break;
        case NFULA_PREFIX: ret->reason = reason_read(a); break;
        case NFULA_IFINDEX_INDEV:
            if (size == 4) ret->interface = ntohl(mnl_attr_get_u32(a));
            break;
        case NFULA_SEQ:
            if (size == 4) sequence_note(d, ntohl(mnl_attr_get_u32(a)));
            break;
        case NFULA_PAYLOAD:
            ret->length = (uint32_t)(size < DENIED_BYTES_MAX ? size : DENIED_BYTES_MAX);
            memcpy(ret->bytes, mnl_attr_get_payload(a), ret->length);
            break;
        default: break;
        }
    }
    /* The hook's family says it as well, should a device not give the ethertype. */
    if (ret->protocol == 0) ret->protocol = g->nfgen_family == AF_INET ? 4 : 6;
    return ret->reason != 0 && ret->length > 0;
}

struct take {
    struct denied *denied;
    denied_fn fn;
    void *ctx;
    int count;
};

static int packet_take(void *ctx, const struct nlmsghdr *m) {
    struct take *t = ctx;
    struct msg_denied packet = {0};
    if (m->nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET)) return 0;
    if (!packet_read(t->denied, m, &packet)) return 0;
    packet.time = clock_realtime(t->denied->clock);
    if (packet.interface != 0) {
        const char *name = interface_name(t->denied, packet.interface);
        memcpy(packet.interface_name, name, strnlen(name, sizeof packet.interface_name - 1));
    }
    t->count++;
    return t->fn(t->ctx, &packet);
}

int denied_receive(struct denied *d, denied_fn fn, void *ctx) {
    struct take t = {.denied = d, .fn = fn, .ctx = ctx};
    int result = netlink_events(&d->log, EVENTS_AT_ONCE, packet_take, &t);
    /* The kernel says once that it had to drop some; how many shows as a gap in the numbers of what
     * comes next. */
    if (result == -ENOBUFS)
        result = netlink_events(&d->log, EVENTS_AT_ONCE, packet_take, &t);
    if (result == -ENOBUFS) return t.count;
    return result < 0 ? result : t.count;
}
