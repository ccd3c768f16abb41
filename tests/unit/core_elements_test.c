/* core_elements_test.c: the maps of openings on the real kernel. */
#include "tests/unit/core_kernel.h"

static int stop(void *ctx, const struct element *element) {
    (void)ctx;
    (void)element;
    return -ECANCELED;
}

static struct name name_of(const char *text) {
    struct name n;
    ck_assert_int_eq(name_from_text(text, &n), 0);
    return n;
}

START_TEST(element_comes_back) {
    struct lab l;
    struct name name = name_of("api.search.example");
    lab_start(&l);
    for (int family = 4; family <= 6; family += 2) {
        struct element_change c = lab_change(ELEMENT_ADD, family == 4 ? AGENT4 : AGENT6,
                                             family == 4 ? REMOTE4 : REMOTE6, IPPROTO_TCP, 443,
                                             50000);
        c.name = &name;
        c.mark = 0x12345678;
        ck_assert_int_eq(lab_commit(&l, &c), 0);
        struct seen s = dumped(&l, family);
        ck_assert_uint_eq(s.count, 1);
        ck_assert_mem_eq(&s.last.key, &c.key, sizeof c.key);
        ck_assert_uint_eq(s.last.mark, c.mark);
        ck_assert_uint_le(s.last.remaining_ms, 50000);
        ck_assert_uint_gt(s.last.remaining_ms, 45000);
        ck_assert(name_equal(&s.last.name, &name));
    }
    lab_stop(&l);
}
END_TEST

/* Names up to 251 octets of text are kept; longer ones are left out, and the element is made all the
 * same. */
START_TEST(element_names) {
    struct lab l;
    lab_start(&l);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT6, REMOTE6, IPPROTO_TCP, 443, 50000);
    struct name name = {0};
    for (uint8_t last = 57; last <= 61; last++) {
        name.length = (uint8_t)(194 + last);
        memset(name.wire, 'a', name.length - 1u);
        name.wire[0] = name.wire[64] = name.wire[128] = 63;
        name.wire[192] = last;
        ck_assert(name_valid(&name)); /* of 192 + last octets as text */
        c.name = &name;
        c.op = last == 57 ? ELEMENT_ADD : ELEMENT_REFRESH;
        ck_assert_int_eq(lab_commit(&l, &c), 0);
        struct seen s = dumped(&l, 6);
        ck_assert_uint_eq(s.count, 1);
        if (192 + last <= 251) ck_assert(name_equal(&s.last.name, &name));
        else ck_assert_uint_eq(s.last.name.length, 0);
    }
    /* Escaped octets take more. */
    memset(name.wire + 1, '\1', 63);
    ck_assert(name_valid(&name));
    c.op = ELEMENT_REFRESH;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_uint_eq(dumped(&l, 6).last.name.length, 0);
    struct name odd = name_of("a\\.b\\032c\\000.example");
    c.name = &odd;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    struct seen s = dumped(&l, 6);
    ck_assert(name_equal(&s.last.name, &odd));
    lab_stop(&l);
}
END_TEST

/* c07: the deadline is a new one, whether the ledger was right about the element or not. */
START_TEST(refresh_extends) {
    struct lab l;
    lab_start(&l);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT4, REMOTE4, IPPROTO_TCP, 443, 20000);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    nap(300);
    ck_assert_uint_lt(dumped(&l, 4).last.remaining_ms, 19800);
    c.op = ELEMENT_REFRESH;
    usec_t before = clock_now(&clock_system);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    uint64_t remaining = dumped(&l, 4).last.remaining_ms;
    /* The whole time less what has passed since, in ticks of 4 ms. */
    ck_assert_uint_ge(remaining + (clock_now(&clock_system) - before) / USEC_PER_MSEC + 8, 20000);
    /* With another mark, told and not told. */
    c.was = c.mark;
    c.mark = 0x98;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_uint_eq(dumped(&l, 4).last.mark, 0x98);
    ck_assert_uint_eq(elements_retries(l.elements), 0);
    c.was = 0;
    c.mark = 0x97;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_uint_eq(dumped(&l, 4).last.mark, 0x97);
    ck_assert_uint_eq(elements_retries(l.elements), 1);
    /* Believed absent, but it lives: longer, and shorter, and another mark. */
    c.op = ELEMENT_ADD;
    c.timeout_ms = 60000;
    c.mark = 0x99;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_uint_eq(elements_retries(l.elements), 2);
    ck_assert_uint_gt(dumped(&l, 4).last.remaining_ms, 58000);
    ck_assert_uint_eq(dumped(&l, 4).last.mark, 0x99);
    c.timeout_ms = 100;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_uint_le(dumped(&l, 4).last.remaining_ms, 100);
    /* Believed live, but it has run out. */
    nap(200);
    ck_assert_uint_eq(dumped(&l, 4).count, 0);
    c.op = ELEMENT_REFRESH;
    c.timeout_ms = 5000;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    struct seen s = dumped(&l, 4);
    ck_assert_uint_eq(s.count, 1);
    ck_assert_uint_gt(s.last.remaining_ms, 4500);
    ck_assert_uint_eq(elements_retries(l.elements), 3);
    lab_stop(&l);
}
END_TEST

/* One key, and a dump that ends early: the next one begins at once. */
START_TEST(element_get) {
    struct lab l;
    struct element e;
    lab_start(&l);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT6, REMOTE6, IPPROTO_TCP, 443, 50000);
    ck_assert_int_eq(elements_get(l.elements, &c.key, &e), 0);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_int_eq(elements_get(l.elements, &c.key, &e), 1);
    ck_assert_uint_eq(e.mark, c.mark);
    ck_assert_mem_eq(&e.key, &c.key, sizeof c.key);
    c.key.port++;
    ck_assert_int_eq(elements_get(l.elements, &c.key, &e), 0);
    c.timeout_ms = 50;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    nap(100);
    ck_assert_int_eq(elements_get(l.elements, &c.key, &e), 0);
    elements_begin(l.elements);
    elements_request(l.elements);
    for (unsigned i = 0; i < 2000; i++) {
        struct element_change many = lab_change(ELEMENT_ADD, AGENT6, REMOTE6, IPPROTO_UDP,
                                                (uint16_t)(1 + i), 50000);
        ck_assert_int_eq(elements_put(l.elements, &many), 0);
    }
    ck_assert_int_eq(elements_commit(l.elements), 1);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(elements_dump(l.elements, 6, stop, NULL), -ECANCELED);
    /* A dump while the kernel still makes the table larger may miss an element. */
    unsigned count = 0;
    for (unsigned tries = 0; tries < 200 && count != 2001; tries++) {
        if (tries) nap(20);
        count = dumped(&l, 6).count;
    }
    ck_assert_uint_eq(count, 2001);
    lab_stop(&l);
}
END_TEST

/* c11, c12 seen from the packets: past the deadline nothing new begins. */
START_TEST(opening_expires) {
    struct lab l;
    lab_start(&l);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT6, REMOTE6, IPPROTO_UDP, 5000, 1500);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    PASSES(l.agent, l.uplink, packet_udp(AGENT6, REMOTE6, 4000, 5000));
    nap(1600);
    DROPPED(l.agent, l.uplink, packet_udp(AGENT6, REMOTE6, 4001, 5000));
    lab_stop(&l);
}
END_TEST

static void put(struct lab *l, enum element_op op, const char *remote, uint16_t port) {
    struct element_change c = lab_change(op, AGENT4, remote, IPPROTO_TCP, port, 60000);
    ck_assert_int_eq(elements_put(l->elements, &c), 0);
}

/* One group, five requests: each has its own result, and each is there wholly or not at all. */
START_TEST(group_results) {
    struct lab l;
    lab_network(&l);
    l.config.map_size = 4;
    lab_load(&l, false);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 1);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 2);
    elements_begin(l.elements);
    ck_assert_int_eq(elements_request(l.elements), 0);
    put(&l, ELEMENT_ADD, REMOTE4, 1); /* is there already */
    ck_assert_int_eq(elements_request(l.elements), 1);
    put(&l, ELEMENT_DELETE, REMOTE4, 99); /* is not there */
    ck_assert_int_eq(elements_request(l.elements), 2);
    put(&l, ELEMENT_ADD, REMOTE4, 3);
    put(&l, ELEMENT_ADD, REMOTE4, 4);
    put(&l, ELEMENT_ADD, REMOTE4, 5); /* one too many */
    ck_assert_int_eq(elements_request(l.elements), 3);
    put(&l, ELEMENT_REFRESH, REMOTE4, 77); /* is not there */
    ck_assert_int_eq(elements_request(l.elements), 4);
    ck_assert_uint_eq(elements_pending(l.elements), 6);
    ck_assert_int_eq(elements_commit(l.elements), 4);
    ck_assert_int_eq(elements_result(l.elements, 0), 0);
    ck_assert_int_eq(elements_result(l.elements, 1), 0);
    ck_assert_int_eq(elements_result(l.elements, 2), -ENFILE);
    ck_assert_int_eq(elements_result(l.elements, 3), 0);
    ck_assert_int_eq(elements_result(l.elements, 4), 0);
    ck_assert_int_eq(elements_result(l.elements, 5), -EINVAL);
    ck_assert_uint_eq(dumped(&l, 4).count, 3); /* 1, 2, 77 */
    lab_stop(&l);
}
END_TEST

/* c47: on a full map what lives can be refreshed and deleted, and deletes of nothing succeed. */
START_TEST(full_map) {
    struct lab l;
    lab_network(&l);
    l.config.map_size = 2;
    lab_load(&l, false);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 1);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 2);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT4, REMOTE4, IPPROTO_TCP, 3, 60000);
    ck_assert_int_eq(lab_commit(&l, &c), -ENFILE);
    c = lab_change(ELEMENT_REFRESH, AGENT4, REMOTE4, IPPROTO_TCP, 2, 90000);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    c.op = ELEMENT_ADD; /* by the long way */
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    c = lab_change(ELEMENT_DELETE, AGENT4, REMOTE4, IPPROTO_TCP, 9, 0);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    c = lab_change(ELEMENT_DELETE, AGENT4, REMOTE4, IPPROTO_TCP, 1, 0);
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 3);
    ck_assert_uint_eq(dumped(&l, 4).count, 2);
    lab_stop(&l);
}
END_TEST

/* Many requests on a full map, and on none: each has its result, and it does not take for ever. */
START_TEST(large_group_fails) {
    struct lab l;
    lab_network(&l);
    l.config.map_size = 2;
    lab_load(&l, false);
    lab_open(&l, AGENT4, REMOTE4, IPPROTO_TCP, 1);
    for (int gone = 0; gone < 2; gone++) {
        usec_t before = clock_now(&clock_system);
        elements_begin(l.elements);
        for (uint16_t i = 0; i < 500; i++) {
            ck_assert_int_eq(elements_request(l.elements), i);
            put(&l, i == 499 ? ELEMENT_REFRESH : ELEMENT_ADD, REMOTE4, i == 499 ? 1 : (uint16_t)(i + 2));
        }
        ck_assert_int_eq(elements_commit(l.elements), gone ? 0 : 2);
        ck_assert_int_eq(elements_result(l.elements, 0), gone ? -ENOENT : 0);
        for (unsigned i = 1; i < 499; i++)
            ck_assert_int_eq(elements_result(l.elements, i), gone ? -ENOENT : -ENFILE);
        ck_assert_int_eq(elements_result(l.elements, 499), gone ? -ENOENT : 0);
        ck_assert_uint_lt(clock_now(&clock_system) - before, USEC_PER_SEC);
        if (!gone) RUN("nft", "delete table inet tidegate");
    }
    lab_stop(&l);
}
END_TEST

/* c02: the table is gone. */
START_TEST(no_table) {
    struct lab l;
    struct seen s = {0};
    lab_network(&l);
    struct element_change c = lab_change(ELEMENT_ADD, AGENT4, REMOTE4, IPPROTO_TCP, 1, 60000);
    ck_assert_int_eq(lab_commit(&l, &c), -ENOENT);
    ck_assert_int_eq(elements_dump(l.elements, 4, see, &s), -ENOENT);
    c.op = ELEMENT_DELETE;
    ck_assert_int_eq(lab_commit(&l, &c), 0);
    ck_assert_int_eq(ruleset_verify(&l.ruleset), 0);
    lab_stop(&l);
}
END_TEST

START_TEST(bad_changes) {
    struct lab l;
    lab_start(&l);
    const struct element_change good = lab_change(ELEMENT_ADD, AGENT4, REMOTE4, IPPROTO_TCP, 1, 1000);
    struct element_change c = good;
    ck_assert_int_eq(elements_put(l.elements, &c), -EINVAL); /* no request */
    ck_assert_int_eq(elements_request(l.elements), 0);
#define BAD(what)                                                                                  \
    do {                                                                                           \
        c = good;                                                                                  \
        what;                                                                                      \
        ck_assert_msg(elements_put(l.elements, &c) == -EINVAL, "taken: %s", #what);                \
    } while (0)
    BAD(c.mark = 0);
    BAD(c.timeout_ms = 0);
    BAD(c.timeout_ms = UINT64_C(604800001));
    BAD(c.key.port = 0);
    BAD(c.key.protocol = IPPROTO_ICMP);
    BAD(c.key.zero = 1);
    BAD(c.key.remote = lab_addr(REMOTE6));
    BAD(c.key.client.family = 0);
    BAD(c.op = 7);
    ck_assert_uint_eq(elements_pending(l.elements), 0);
    elements_cancel(l.elements);
    ck_assert_int_eq(elements_request(l.elements), 0);
    lab_stop(&l);
}
END_TEST

/* Many messages in one transaction, both families, long names; then all of them taken back. */
START_TEST(large_group) {
    struct lab l;
    char text[256];
    lab_start(&l);
    for (int op = ELEMENT_ADD; op <= ELEMENT_DELETE; op++) {
        uint32_t before = elements_transactions(l.elements);
        elements_begin(l.elements);
        for (unsigned r = 0; r < 100; r++) {
            ck_assert_int_eq(elements_request(l.elements), (int)r);
            for (unsigned i = 0; i < 40; i++) {
                snprintf(text, sizeof text, "%060u.%060u.%060u.%040u.example", r, i, r, i);
                struct name name = name_of(text);
                struct element_change c = lab_change((enum element_op)op, i % 2 ? AGENT4 : AGENT6,
                                                     i % 2 ? REMOTE4 : REMOTE6, IPPROTO_TCP,
                                                     (uint16_t)(1 + r * 40 + i), 60000);
                c.name = &name;
                ck_assert_int_eq(elements_put(l.elements, &c), 0);
            }
        }
        ck_assert_int_eq(elements_commit(l.elements), 100);
        ck_assert_uint_eq(elements_transactions(l.elements), before + 1);
        unsigned left = op == ELEMENT_DELETE ? 0 : 2000;
        ck_assert_uint_eq(dumped(&l, 4).count, left);
        ck_assert_uint_eq(dumped(&l, 6).count, left);
    }
    lab_stop(&l);
}
END_TEST

#define TEST(name) {#name, name}
int main(void) {
    const struct lab_test tests[] = {
        TEST(element_comes_back), TEST(element_names), TEST(refresh_extends), TEST(element_get),
        TEST(opening_expires), TEST(group_results), TEST(full_map), TEST(large_group_fails), TEST(no_table),
        TEST(bad_changes), TEST(large_group),
    };
    return lab_main("core_elements", tests, sizeof tests / sizeof *tests);
}
