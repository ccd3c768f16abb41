/* clock.c: system time, fake time, and the kernel's random numbers. */
#include "gateway/base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static usec_t system_read(clockid_t id) {
    struct timespec now;
    if (clock_gettime(id, &now) < 0) abort(); /* a constant id: fails only if the kernel lacks it */
    return (usec_t)now.tv_sec * USEC_PER_SEC + (usec_t)now.tv_nsec / 1000;
}

static usec_t system_monotonic(void *ctx) {
    (void)ctx;
    return system_read(CLOCK_BOOTTIME);
}

static usec_t system_realtime(void *ctx) {
    (void)ctx;
    return system_read(CLOCK_REALTIME);
}

const struct clock clock_system = {.monotonic = system_monotonic, .realtime = system_realtime};

static usec_t fake_monotonic(void *ctx) {
    return ((struct clock_fake *)ctx)->monotonic;
}

static usec_t fake_realtime(void *ctx) {
    return ((struct clock_fake *)ctx)->realtime;
}

struct clock clock_fake_of(struct clock_fake *f) {
    return (struct clock){.monotonic = fake_monotonic, .realtime = fake_realtime, .ctx = f};
}

/* Writes `digits` decimal digits of `value` and returns what follows them. */
static char *put_digits(char *at, unsigned digits, uint64_t value) {
    for (unsigned i = digits; i-- > 0; value /= 10) at[i] = (char)('0' + value % 10);
    return at + digits;
}

static char *put_char(char *at, char c) {
    *at = c;
    return at + 1;
}

/* By own arithmetic: gmtime_r() of glibc may open /etc/localtime, which a confined process must
 * not. Years are counted from 1 March 0000, so that the leap day is the last day of a year; 400
 * years have 146097 days, and 1970-01-01 is day 719468. */
const char *time_format(usec_t realtime, char text[TIME_TEXT_MAX]) {
    uint64_t seconds = realtime / USEC_PER_SEC, day = seconds / 86400 + 719468;
    uint64_t era = day / 146097;
    unsigned of_era = (unsigned)(day % 146097), of_day = (unsigned)(seconds % 86400);
    unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year + year / 4 - year / 100);
    unsigned from_march = (5 * of_year + 2) / 153; /* months have 30.6 days, from March on */
    unsigned month = from_march < 10 ? from_march + 3 : from_march - 9;
    uint64_t full_year = era * 400 + year + (month <= 2);

    char *at = put_digits(text, full_year > 9999 ? 6 : 4, full_year);
    at = put_digits(put_char(at, '-'), 2, month);
    at = put_digits(put_char(at, '-'), 2, of_year - (153 * from_march + 2) / 5 + 1);
    at = put_digits(put_char(at, 'T'), 2, of_day / 3600);
    at = put_digits(put_char(at, ':'), 2, of_day / 60 % 60);
    at = put_digits(put_char(at, ':'), 2, of_day % 60);
    at = put_digits(put_char(at, '.'), 6, realtime % USEC_PER_SEC);
    *put_char(at, 'Z') = '\0';
    return text;
}

void random_bytes(void *buffer, size_t size) {
    for (uint8_t *at = buffer; size > 0;) {
        ssize_t got = getrandom(at, size, 0);
        if (got <= 0) abort(); /* up to 256 bytes are never interrupted; more may be */
        at += got;
        size -= (size_t)got;
    }
}

uint32_t random_below(uint32_t bound) {
    /* Values below 2^32 mod bound would make the low results likelier: draw again. */
    uint32_t value, unfair = -bound % bound;
    do random_bytes(&value, sizeof value);
    while (value < unfair);
    return value % bound;
}
