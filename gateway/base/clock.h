/* clock.h: the one source of time and of randomness. Tests inject their own; nothing else in the
 * project calls clock_gettime(), time() or getrandom().
 */
#ifndef GATEWAY_BASE_CLOCK_H
#define GATEWAY_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t usec_t; /* microseconds */
#define USEC_PER_MSEC ((usec_t)1000)
#define USEC_PER_SEC ((usec_t)1000000)

struct clock {
    usec_t (*monotonic)(void *ctx); /* CLOCK_BOOTTIME: counts suspend, never jumps */
    usec_t (*realtime)(void *ctx);  /* since 1970, UTC: for records only, never for deadlines */
    void *ctx;
};

extern const struct clock clock_system;

static inline usec_t clock_now(const struct clock *c) { return c->monotonic(c->ctx); }
static inline usec_t clock_realtime(const struct clock *c) { return c->realtime(c->ctx); }

/* A clock that tests move by hand. */
struct clock_fake { usec_t monotonic, realtime; };
struct clock clock_fake_of(struct clock_fake *f);

#define TIME_TEXT_MAX 32
/* RFC 3339 in UTC with microseconds: 2026-11-30T13:37:00.123456Z. Returns `text`. */
const char *time_format(usec_t realtime, char text[TIME_TEXT_MAX]);

/* Fills from getrandom(2); aborts if the kernel cannot (no fallback would be safe). */
void random_bytes(void *buffer, size_t size);
/* Uniform in 0..bound-1; bound > 0. */
uint32_t random_below(uint32_t bound);

#endif
