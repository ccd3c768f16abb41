/* output.h: the recorder's queue and file, and what happens when the file cannot be written. */
#ifndef GATEWAY_RECORDER_OUTPUT_H
#define GATEWAY_RECORDER_OUTPUT_H

#include "gateway/recorder/recorder.h"

/* Opens the log and continues where the last recorder was. */
void output_start(struct recorder *r);
/* Puts r->record, made with the next sequence number, into the queue. `important` ones may use its
 * last part. False: there is no room, or the record was a mistake; then it is not there. */
bool output_put(struct recorder *r, bool important);
/* The same with an event of the recorder itself, at the present time. */
bool output_put_own(struct recorder *r, struct own_record *o);
/* Puts a record for each loss that was not told yet. */
void output_tell_losses(struct recorder *r);
/* Writes the queue. */
void output_flush(struct recorder *r);
/* Makes sure of what was written, and that the file is still where it belongs. */
void output_sync(struct recorder *r);
/* While failing: tries again. */
void output_retry(struct recorder *r);
/* Sends LOG_STATE if r->tell. */
void output_tell(struct recorder *r);

/* Whether the log cannot be written at the moment. */
bool output_failing(const struct recorder *r);
/* Whether policy wants nothing new opened then. */
bool output_refuses(const struct recorder *r);
/* Whether the queue has room for one more ordinary record, however long. */
bool output_room(const struct recorder *r);

#endif
