/* packet.c: IPv4 (RFC 791) and IPv6 (RFC 8200) headers, as far as a record needs them. Every read
 * goes through have(), so no offset is trusted before it is compared with the bytes that exist.
 */
#include "gateway/recorder/packet.h"

#include <netinet/in.h>
#include <string.h>

#include "gateway/base/buf.h"

#define EXTENSIONS_MAX 8 /* more in one packet is no honest traffic */

struct cursor {
    const uint8_t *bytes;
    size_t size, at;
};

static bool have(const struct cursor *c, size_t count) { return count <= c->size - c->at; }

static uint16_t u16_at(const struct cursor *c, size_t offset) {
    return (uint16_t)(c->bytes[c->at + offset] << 8 | c->bytes[c->at + offset + 1]);
}

/* Ports or ICMP type; the cursor is at the first byte after the IP headers. */
static void parse_transport(struct cursor *c, struct packet *p) {
    switch (p->protocol) {
    case IPPROTO_TCP:
    case IPPROTO_UDP:
    case IPPROTO_SCTP:
    case IPPROTO_DCCP:
    case IPPROTO_UDPLITE:
        if (!have(c, 4)) {
            p->note = PACKET_TRUNCATED;
            return;
        }
        p->has_ports = true;
        p->source_port = u16_at(c, 0);
        p->port = u16_at(c, 2);
        return;
    case IPPROTO_ICMP:
    case IPPROTO_ICMPV6:
        if (!have(c, 2)) {
            p->note = PACKET_TRUNCATED;
            return;
        }
        p->has_icmp = true;
        p->icmp_type = c->bytes[c->at];
        p->icmp_code = c->bytes[c->at + 1];
        return;
    default:
        return;
    }
}

static void parse_v4(struct cursor *c, struct packet *p) {
    if (!have(c, 20)) {
        p->note = PACKET_TRUNCATED;
        return;
    }
    const uint8_t *header = c->bytes;
    size_t length = (size_t)(header[0] & 0x0f) * 4;
    if (header[0] >> 4 != 4 || length < 20) {
        p->note = PACKET_MALFORMED;
        return;
    }
    p->source = addr_from4(header + 12);
    p->remote = addr_from4(header + 16);
    p->protocol = header[9];
    p->has_protocol = true;
    if ((u16_at(c, 6) & 0x1fff) != 0) {
        p->note = PACKET_FRAGMENT;
    } else if (!have(c, length)) {
        p->note = PACKET_TRUNCATED;
    } else {
        c->at += length;
        parse_transport(c, p);
    }
}

enum step { STEP_AGAIN, STEP_TRANSPORT, STEP_STOP };

/* Steps over one extension header, or says what p->protocol is instead. */
static enum step parse_extension(struct cursor *c, struct packet *p) {
    size_t length;
    switch (p->protocol) {
    case IPPROTO_HOPOPTS:
    case IPPROTO_ROUTING:
    case IPPROTO_DSTOPTS:
    case IPPROTO_MH:
    case 139: /* HIP, RFC 7401 */
    case 140: /* Shim6, RFC 5533 */
        if (!have(c, 2)) break;
        length = ((size_t)c->bytes[c->at + 1] + 1) * 8;
        if (!have(c, length)) break;
        p->protocol = c->bytes[c->at];
        c->at += length;
        return STEP_AGAIN;
    case IPPROTO_AH: /* RFC 4302 section 2.2: in units of 4 octets, less 2 */
        if (!have(c, 2)) break;
        length = ((size_t)c->bytes[c->at + 1] + 2) * 4;
        if (!have(c, length)) break;
        p->protocol = c->bytes[c->at];
        c->at += length;
        return STEP_AGAIN;
    case IPPROTO_FRAGMENT:
        if (!have(c, 8)) break;
        p->protocol = c->bytes[c->at];
        if ((u16_at(c, 2) & 0xfff8) != 0) {
            p->note = PACKET_FRAGMENT;
            return STEP_STOP;
        }
        c->at += 8;
        return STEP_AGAIN;
    default:
        return STEP_TRANSPORT;
    }
    p->note = PACKET_TRUNCATED;
    return STEP_STOP;
}

static void parse_v6(struct cursor *c, struct packet *p) {
    if (!have(c, 40)) {
        p->note = PACKET_TRUNCATED;
        return;
    }
    const uint8_t *header = c->bytes;
    if (header[0] >> 4 != 6) {
        p->note = PACKET_MALFORMED;
        return;
    }
    p->source = addr_from6(header + 8);
    p->remote = addr_from6(header + 24);
    p->protocol = header[6];
    p->has_protocol = true;
    c->at += 40;
    for (unsigned i = 0; i < EXTENSIONS_MAX; i++) {
        switch (parse_extension(c, p)) {
        case STEP_AGAIN:
            continue;
        case STEP_TRANSPORT:
            parse_transport(c, p);
            return;
        case STEP_STOP:
            return;
        }
    }
    p->note = PACKET_MALFORMED;
}

void packet_parse(const uint8_t *bytes, size_t size, unsigned version, struct packet *ret) {
    struct cursor c = {.bytes = bytes, .size = size};
    memset(ret, 0, sizeof *ret);
    if (version == 4)
        parse_v4(&c, ret);
    else
        parse_v6(&c, ret);
}

const char *protocol_name(uint8_t protocol, char text[4]) {
    switch (protocol) {
    case IPPROTO_ICMP: return "icmp";
    case IPPROTO_IGMP: return "igmp";
    case IPPROTO_IPIP: return "ipip";
    case IPPROTO_TCP: return "tcp";
    case IPPROTO_UDP: return "udp";
    case IPPROTO_DCCP: return "dccp";
    case IPPROTO_IPV6: return "ipv6";
    case IPPROTO_GRE: return "gre";
    case IPPROTO_ESP: return "esp";
    case IPPROTO_AH: return "ah";
    case IPPROTO_ICMPV6: return "icmpv6";
    case IPPROTO_SCTP: return "sctp";
    case IPPROTO_UDPLITE: return "udplite";
    }
    struct buf b = buf_over(text, 4);
    buf_put_u64(&b, protocol);
    text[b.used] = '\0';
    return text;
}
