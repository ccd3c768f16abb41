/* elements.h: the kernel maps open4 and open6: one element is one opening.
 *
 * Requests gather in one transaction (group commit). The fast path sends each request as at most two
 * messages a map: delete what lives, add all with NLM_F_EXCL. If the kernel refuses the whole (one
 * element had expired, another already existed), each request is tried alone in a form that works
 * whatever the kernel holds: add (with the mark the element has now), delete, add (before Linux 6.12
 * adding an element that exists leaves its deadline alone; before 6.3 there is no delete that tolerates
 * absence; adding one that exists with another mark is an error). So one request's failure
 * never touches another, and each request is in the kernel wholly or not at all.
 *
 * No multi-threading; memory is taken at opening and grows only by elements_put().
 */
#ifndef GATEWAY_CORE_ELEMENTS_H
#define GATEWAY_CORE_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/base/addr.h"
#include "gateway/base/name.h"

struct element_key {
    struct addr client, remote; /* same family */
    uint16_t port;              /* host order */
    uint8_t protocol, zero;     /* IPPROTO_TCP or IPPROTO_UDP */
};

enum element_op {
    ELEMENT_ADD,     /* believed absent; the cheapest, and right but dear if it lives */
    ELEMENT_REFRESH, /* live or just expired: its deadline, mark and name are replaced */
    ELEMENT_DELETE,  /* absent afterwards, whether or not it was there */
};

struct element_change {
    enum element_op op;
    struct element_key key;
    uint32_t mark;           /* not 0 (but for ELEMENT_DELETE) */
    uint32_t was;            /* mark it is believed to have now; 0: `mark` (delete: not known, the
                                kernel is asked, about 3 us). If wrong: right but dear */
    uint64_t timeout_ms;     /* from the moment of the commit; 1..604800000 */
    const struct name *name; /* NULL: none. Read by elements_put() only */
};

#define ELEMENTS_REQUESTS_MAX 512 /* in one group */
#define ELEMENTS_CHANGES_MAX 16384 /* in one group */

struct elements;

int elements_open(struct elements **ret); /* 0 or -errno */
struct elements *elements_close(struct elements *e); /* takes NULL, returns NULL */

/* Forgets what was put and not committed. */
void elements_begin(struct elements *e);
/* Starts the next request of the group. Its number (0..), or -ENOSPC: commit first. */
int elements_request(struct elements *e);
/* Adds a change to the current request. 0, -EINVAL (a field out of range), -ENOSPC (the group is
 * full: commit first; when the request is the only one of its group it is too large), -ENOMEM.
 * After an error the request has to be given up by elements_begin() or dropped by
 * elements_cancel(). */
int elements_put(struct elements *e, const struct element_change *change);
/* Drops the current request and its changes from the group; its number is used again. */
void elements_cancel(struct elements *e);
unsigned elements_pending(const struct elements *e); /* changes put so far */

/* Sends the group, and request by request where needed, and reads every reply. Number of requests
 * that are in the kernel now, or -errno when nothing is known to have happened (-ENOBUFS: replies
 * were lost: dump and compare). Then elements_result() of each request: 0 acknowledged; -ENFILE the
 * map is full (reason map-full; after three in a group the other requests that add are not tried); -ENOENT table or map is gone (load the ruleset); other -errno.
 * Changes without request and requests without changes succeed. Starts a new group. */
int elements_commit(struct elements *e);
/* Of the group committed last. */
int elements_result(const struct elements *e, unsigned request);

/* Transactions the kernel took so far: each made the ruleset's generation one more. */
uint32_t elements_transactions(const struct elements *e);
/* Groups that had to be tried again request by request. */
uint64_t elements_retries(const struct elements *e);

struct element {
    struct element_key key;
    uint32_t mark;
    uint64_t remaining_ms; /* 0 for an element without timeout */
    struct name name;      /* length 0: the element has no comment (a name of more than 251 octets as
                              text; or set by another hand): the name is lost over a restart of core,
                              the mark is not */
};
/* The element with this key. 1 found, 0 not there (expired, or there is no map), -errno. */
int elements_get(struct elements *e, const struct element_key *key, struct element *ret);

/* Negative stops the dump with that value, at once. `element` is valid during the call. Must not call this
 * module. Elements that core cannot have made (interval, port 0, other protocol) are given as they
 * are, with key fields zero where they have none. */
typedef int (*element_fn)(void *ctx, const struct element *element);
/* Gives every element of open4 (family 4) or open6 (6), in no order. Number of elements, -EINTR: the
 * map changed meanwhile, some may be missing or given twice: ask again (callers that only mark what
 * they see may use the result as it is); -ENOENT no such map; -errno. Expired elements that the
 * kernel has not yet collected are left out.
 *
 * The kernel's time for it grows with the square of the number of elements, since each portion of about
 * 300 begins at the start of the table: 10,000 take about 15 ms, 100,000 about 1 s, 1,000,000 about 100 s
 * (seen on 6.18), in which core stands still. Above some ten thousand it is better to ask for the
 * ledger's keys by elements_get(), or to fill an empty map anew. */
int elements_dump(struct elements *e, int family, element_fn fn, void *ctx);

#endif
