/* cache.h: what upstreams said, kept for as long as it may be told again. Pure: no I/O, no clock of
 * its own; every call is told `now` (clock_now()), and the same calls give the same results.
 *
 * A cache holds vetted answers (addresses, other records, NODATA, NXDOMAIN) and failures, by (name,
 * type), independent of client and policy: whether a client may have an answer is decided at every
 * hit. It is bounded in entries and bytes; to make room it drops what has expired first, then what
 * was used least recently. An expired entry is never handed out.
 */
#ifndef RESOLVER_CACHE_CACHE_H
#define RESOLVER_CACHE_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/base/clock.h"
#include "gateway/base/name.h"
#include "gateway/base/reason.h"
#include "resolver/vet/vet.h"

#define CACHE_FAILURE_MIN 1  /* seconds; RFC 9520 section 3.2: at least 1, at most 300 */
#define CACHE_FAILURE_MAX 30 /* seconds; doubles from the minimum with every failure in a row */

struct cache;

enum cache_hit { CACHE_MISS, CACHE_ANSWER, CACHE_FAILURE };

struct cache_found {
    struct vetted *vetted; /* CACHE_ANSWER: a reference of the caller's; vetted_unref() it */
    enum reason reason;    /* CACHE_FAILURE: what went wrong; answered as SERVFAIL */
    usec_t expiry;         /* later than now; TTL to tell = whole seconds of (expiry - now) */
};

struct cache_stats {
    uint32_t entries;
    size_t bytes;
    uint64_t hits, failure_hits, misses, evicted; /* evicted: unexpired entries dropped for room */
};

/* An empty cache of at most `entries` (at least 1) entries and `bytes` bytes, its own overhead per
 * entry included. NULL when out of memory. */
struct cache *cache_new(uint32_t entries, size_t bytes);

/* Looks up and, on a hit, marks as used. Fills *ret on a hit only. */
enum cache_hit cache_find(struct cache *c, const struct name *name, uint16_t type, usec_t now,
                          struct cache_found *ret);

/* Keeps a reference to `vetted` for `lifetime` seconds (the caller has clamped it: positive and
 * negative answers have limits of their own). Replaces what was there, a failure's back-off too.
 * Lifetime 0: nothing is kept, an older entry goes. 0, -ENOMEM, or -ENOSPC when the answer alone
 * exceeds the bounds; the cache stays usable either way, and the old entry is gone. */
int cache_put(struct cache *c, const struct name *name, uint16_t type, struct vetted *vetted,
              uint32_t lifetime, usec_t now);

/* Notes that resolving failed, for CACHE_FAILURE_MIN seconds, twice as long each time it fails
 * again within CACHE_FAILURE_MAX seconds after the last note ran out. `reason` must be one that is
 * answered with SERVFAIL (-EINVAL otherwise): a failure says nothing about the name. A live answer
 * is not displaced, and a live failure neither extended nor doubled (queries in flight at the same
 * time fail together). 0, -EINVAL, -ENOMEM or -ENOSPC. */
int cache_put_failure(struct cache *c, const struct name *name, uint16_t type, enum reason reason,
                      usec_t now);

/* Drops everything, back-off too. */
void cache_flush(struct cache *c);
void cache_stats(const struct cache *c, struct cache_stats *ret);
/* Takes NULL; returns NULL. Answers that callers still hold live on. */
struct cache *cache_free(struct cache *c);

#endif
