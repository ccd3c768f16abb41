/* denials.h: denied packets on their way to the log. Equal ones within a second become one record
 * with a count. The table is bounded, and so is what a flood can write: when it is full, packets
 * are counted by source alone, and past that all together. No packet goes uncounted.
 */
#ifndef GATEWAY_RECORDER_DENIALS_H
#define GATEWAY_RECORDER_DENIALS_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/base/clock.h"
#include "gateway/recorder/packet.h"

#define DENIALS_WINDOW USEC_PER_SEC
#define DENIALS_EXACT 1024  /* records a second of packets told apart */
#define DENIALS_FOLDED 128  /* and of sources whose packets are not told apart */

struct denial {
    /* What makes packets equal. Folded ones have only source, reason and interface, or reason. */
    struct addr source, remote;
    uint32_t reason;
    char interface[16];
    uint16_t port;
    uint8_t protocol, icmp_type, icmp_code;
    uint8_t note; /* enum packet_note */
    uint8_t has_protocol, has_ports, has_icmp;
    uint8_t folded, zero[2];
    /* What is gathered. */
    uint64_t count;
    usec_t first, last; /* realtime */
    usec_t due;         /* monotonic: when it goes to the log */
    uint16_t source_port;
};

struct denials;

struct denials *denials_new(void);
struct denials *denials_free(struct denials *d); /* takes NULL, returns NULL */
void denials_add(struct denials *d, const struct packet *p, uint32_t reason,
                 const char interface[16], usec_t realtime, usec_t now);
/* The oldest entry that is due by `now`, or NULL; UINT64_MAX as `now` takes all in turn. */
const struct denial *denials_due(const struct denials *d, usec_t now);
/* Forgets the entry that denials_due() gave. */
void denials_drop(struct denials *d);
/* When the next entry is due; UINT64_MAX if there is none. */
usec_t denials_next(const struct denials *d);

#endif
