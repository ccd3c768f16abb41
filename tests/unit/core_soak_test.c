/* core_soak_test.c: hours of openings by core's clock: what is over is given back, in the kernel, in the
 * ledger and in memory.
 */
#include <malloc.h>

#include "tests/unit/core_rig.h"

#define MINUTES 120
#define WARM 20 /* minutes after which tables have their size */
#define GROUPS 5
#define CLIENTS 8

#ifdef __SANITIZE_ADDRESS__
/* sanitizer/allocator_interface.h, which gcc does not install. */
size_t __sanitizer_get_current_allocated_bytes(void);
#endif

static size_t allocated(void) {
#ifdef __SANITIZE_ADDRESS__
    return __sanitizer_get_current_allocated_bytes();
#else
    return mallinfo2().uordblks;
#endif
}

static usec_t system_realtime(void *ctx) {
    (void)ctx;
    return clock_realtime(&clock_system);
}

static void drop_messages(struct rig *r) {
    struct channel *all[] = {&r->supervisor, &r->resolver, &r->recorder, &r->control};
    for (unsigned i = 0; i < 4; i++)
        while (channel_receive(all[i], &r->m, any_type()) > 0) {}
}

/* c46: names, addresses and clients that are always others, some asked for again and again, some
 * refused. */
static void minute_of_openings(struct rig *r, unsigned minute) {
    for (unsigned g = 0; g < GROUPS; g++) {
        for (unsigned i = 0; i < CLIENTS; i++) {
            char client[32], name[64], one[32], other[32];
            snprintf(client, sizeof client, "10.77.1.%u", 16 + (minute + i) % 16);
            snprintf(name, sizeof name, "n%u-%u-%u.w.search.example", minute, g, i);
            snprintf(one, sizeof one, "93.%u.%u.%u", 100 + minute % 64, g, 1 + i);
            snprintf(other, sizeof other, "93.99.%u.%u", g, 1 + i);
            rig_send_open(r, client, i == 7 ? "other.example" : name, 45,
                          (const char *const[]){one, other}, 2);
        }
        core_from_resolver(&r->core);
        for (unsigned i = 0; i < CLIENTS; i++) {
            struct msg_opened *m = rig_expect(r, &r->resolver, PROTO_OPENED);
            ck_assert_uint_eq(m->result, m->id % CLIENTS == 0 ? REASON_NOT_LISTED : REASON_ALLOWED);
        }
    }
}

START_TEST(hours_of_openings) {
    struct rig r;
    size_t warm = 0;
    rig_start(&r, "");
    struct clock_fake fake = {.monotonic = clock_now(&clock_system)};
    struct clock clock = clock_fake_of(&fake);
    clock.realtime = system_realtime;
    r.core.config.clock = &clock;
    for (unsigned minute = 0; minute < MINUTES; minute++) {
        minute_of_openings(&r, minute);
        ck_assert_uint_eq(ledger_claims(r.core.ledger), GROUPS * (CLIENTS - 1) * 4);
        ck_assert_uint_eq(rig_elements(&r, 4), ledger_openings(r.core.ledger, 4));
        fake.monotonic += 60 * USEC_PER_SEC;
        for (unsigned i = 0; i < 3; i++) { /* the kernel's clock stood: its elements go as strays */
            rig_turn(&r);
            fake.monotonic += USEC_PER_SEC;
        }
        ck_assert_uint_eq(ledger_claims(r.core.ledger), 0);
        r.core.compare = true;
        rig_turn(&r);
        ck_assert_uint_eq(rig_elements(&r, 4), 0);
        drop_messages(&r);
        if (minute == WARM) warm = allocated();
    }
    ck_assert_uint_le(allocated(), warm);
    ck_assert_uint_eq(r.core.counts.openings_made, (uint64_t)MINUTES * GROUPS * (CLIENTS - 1) * 4);
    ck_assert_uint_eq(r.core.counts.openings_expired, r.core.counts.openings_made);
    rig_end(&r);
}
END_TEST

int main(void) {
    const struct lab_test tests[] = {{"hours_of_openings", hours_of_openings}};
    return lab_main("core_soak", tests, 1);
}
