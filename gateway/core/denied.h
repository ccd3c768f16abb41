/* denied.h: packets that a rule of our table dropped, as the kernel logs them (nflog). Contents are
 * copied, never read: headers are the recorder's to parse. */
#ifndef GATEWAY_CORE_DENIED_H
#define GATEWAY_CORE_DENIED_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/base/clock.h"
#include "gateway/proto/proto.h"

#define DENIED_GROUP 21575    /* the nflog group of our rules */
#define DENIED_PREFIX "tg:"   /* then reason_tag(): "tg:no-opening" */

struct denied;
/* Binds the group; -EBUSY: another process has it (another gateway in this network namespace). */
int denied_open(struct denied **ret, const struct clock *clock);
struct denied *denied_close(struct denied *d); /* takes NULL, returns NULL */
int denied_fd(const struct denied *d);

typedef int (*denied_fn)(void *ctx, const struct msg_denied *packet);
/* Reads what waits, bounded. Number of packets given to `fn`, -errno, or what `fn` returned
 * (negative). Lost messages are no error: see denied_lost(). */
int denied_receive(struct denied *d, denied_fn fn, void *ctx);
/* Packets lost since the last call, by gaps in the kernel's numbering. */
uint64_t denied_lost(struct denied *d);

#endif
