/* packet.h: reads the headers of one denied packet. The bytes come from an agent or the internet
 * and are hostile; they may end anywhere.
 */
#ifndef GATEWAY_RECORDER_PACKET_H
#define GATEWAY_RECORDER_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/base/addr.h"

enum packet_note {
    PACKET_WHOLE,     /* everything the protocol has was read */
    PACKET_FRAGMENT,  /* not the first fragment: no ports in it */
    PACKET_TRUNCATED, /* the bytes end before the ports */
    PACKET_MALFORMED, /* the headers contradict themselves */
};

struct packet {
    struct addr source, remote; /* family 0: not even those could be read */
    enum packet_note note;
    bool has_protocol, has_ports, has_icmp;
    uint8_t protocol; /* past IPv6 extension headers */
    uint8_t icmp_type, icmp_code;
    uint16_t source_port, port;
};

/* `version` is 4 or 6, what the kernel took the packet for. Always fills `ret`. */
void packet_parse(const uint8_t *bytes, size_t size, unsigned version, struct packet *ret);
/* "tcp", "udp", ...; the number in decimal when it has no name here. Returns name or `text`. */
const char *protocol_name(uint8_t protocol, char text[4]);

#endif
