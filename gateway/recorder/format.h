/* format.h: what a message says, as a record. Pure: reads the message and the policy images.
 * Indexes in messages are looked up in the image the message names; what is not known there is
 * left null.
 */
#ifndef GATEWAY_RECORDER_FORMAT_H
#define GATEWAY_RECORDER_FORMAT_H

#include "gateway/proto/proto.h"
#include "gateway/recorder/denials.h"
#include "gateway/recorder/images.h"
#include "gateway/recorder/record.h"

/* Each fills `r`, which the caller has and writes with record_write(). */
void format_query(struct record *r, const struct images *im, uint64_t sequence,
                  const struct msg_query *q, const struct msg_query_item *items, unsigned count);
void format_flow(struct record *r, const struct images *im, uint64_t sequence,
                 const struct msg_flow *f);
void format_denial(struct record *r, const struct images *im, uint64_t sequence,
                   const struct denial *d);
void format_event(struct record *r, const struct images *im, uint64_t sequence,
                  const struct msg_event *e);

struct own_record { /* an event of the recorder itself, kind loss */
    enum own_event event;
    usec_t time;
    uint64_t count;
    int error;        /* errno; 0: null */
    usec_t duration;  /* 0: null */
    uint32_t process; /* PROCESS_COUNT: null */
};
void format_own(struct record *r, const struct images *im, uint64_t sequence,
                const struct own_record *o);

/* Mnemonic of a DNS type, or TYPEn (RFC 3597 section 5). Returns the name or `text`. */
const char *type_name(uint16_t type, char text[16]);
const char *rcode_name(uint32_t rcode, char text[16]);

#endif
