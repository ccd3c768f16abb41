/* opening_test.c: what counts as open: whose, which answer, under which policy and epoch, until when. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "gateway/base/arena.h"
#include "gateway/policy/load/load.h"
#include "resolver/opening/opening.h"
#include "resolver/opening/slots.h"
#include "tests/unit/dns_message.h"

#define NOW (1000 * USEC_PER_SEC)

static struct load_result image;
static struct policy policy;

static struct addr client_number(unsigned n) {
    uint8_t bytes[4] = {10, 77, 1, (uint8_t)(16 + n)};
    return addr_from4(bytes);
}

static struct vetted *vetted_of(const char *text, unsigned last) {
    struct name name = name_of(text);
    struct wire_record record = {.owner = name, .type = 1, .class = 1, .ttl = 60};
    uint8_t bytes[4] = {5, 5, 5, (uint8_t)last};
    record.addr = addr_from4(bytes);
    struct wire_answer answer = {.count = 1, .records = &record};
    struct vetted *v = NULL;
    ck_assert_int_eq(vet_answer(&name, 1, &answer, &v), 0);
    return v;
}

static struct permitted *permitted_of(struct vetted *v, const char *text) {
    struct name name = name_of(text);
    struct addr client = client_number(0);
    struct decision d;
    struct permitted *p = NULL;
    policy_decide(&policy, &client, &name, 1, &d);
    ck_assert_int_eq(d.reason, REASON_ALLOWED);
    ck_assert_int_eq(vet_permit(v, &policy, &d, &p), 0);
    return p;
}

static struct asking *ask(struct opening *o, unsigned client, struct vetted *v, uint64_t id) {
    struct addr c = client_number(client);
    struct name name = name_of("api.example.com");
    struct asking *a = NULL;
    ck_assert_int_eq(opening_ask(o, &c, &name, id, 75, permitted_of(v, "api.example.com"), NOW, &a),
                     0);
    return a;
}

static int acknowledge(struct opening *o, struct asking *a, uint64_t epoch, unsigned seconds,
                       const struct opened **ret) {
    struct msg_opened m = {.id = a->id, .epoch = epoch, .result = REASON_ALLOWED, .count = 1,
                           .deadline = NOW + seconds * USEC_PER_SEC};
    return opening_answered(o, a, &m, NOW, ret);
}

/* Four places in all, so that everything meets in the same ones. */
START_TEST(memo_is_for_one_client_answer_and_policy) {
    struct opening *o = opening_new(4, 1 << 20, 4, 1);
    struct vetted *v = vetted_of("api.example.com", 1), *other = vetted_of("api.example.com", 1);
    const struct opened *opened = NULL;
    struct addr c0 = client_number(0), c1 = client_number(1);
    opening_epoch(o, 1);
    ck_assert_int_eq(acknowledge(o, ask(o, 0, v, 7), 1, 75, &opened), 0);
    ck_assert_uint_eq(opened_count(opened), 1);
    ck_assert_ptr_eq(opening_find(o, &c0, v, 7, NOW), opened);
    ck_assert_ptr_null(opening_find(o, &c1, v, 7, NOW));
    ck_assert_ptr_null(opening_find(o, &c0, other, 7, NOW)); /* the same words are not the same answer */
    ck_assert_ptr_null(opening_find(o, &c0, v, 8, NOW));
    ck_assert_ptr_nonnull(opening_find(o, &c0, v, 7, NOW + 75 * USEC_PER_SEC - 1));
    ck_assert_ptr_null(opening_find(o, &c0, v, 7, NOW + 75 * USEC_PER_SEC));
    ck_assert_uint_eq(opening_memos(o), 0);
    vetted_unref(v);
    vetted_unref(other);
    opening_free(o);
}
END_TEST

START_TEST(ttl_rounds_down_and_leaves_the_grace) {
    struct opening *o = opening_new(4, 1 << 20, 4, 1);
    struct vetted *v = vetted_of("api.example.com", 1);
    const struct opened *opened = NULL;
    ck_assert_int_eq(acknowledge(o, ask(o, 0, v, 7), 1, 75, &opened), 0);
    ck_assert_int_eq(opened_ttl(opened, 15, NOW), 60);
    ck_assert_int_eq(opened_ttl(opened, 15, NOW + 1), 59);
    ck_assert_int_eq(opened_ttl(opened, 15, NOW + 59 * USEC_PER_SEC), 1);
    ck_assert_int_eq(opened_ttl(opened, 15, NOW + 59 * USEC_PER_SEC + 1), 0);
    ck_assert_int_eq(opened_ttl(opened, 15, NOW + 60 * USEC_PER_SEC), 0);
    ck_assert_int_eq(opened_ttl(opened, 15, NOW + 60 * USEC_PER_SEC + 1), -1);
    vetted_unref(v);
    opening_free(o);
}
END_TEST

START_TEST(refusals_and_other_epochs_open_nothing) {
    struct opening *o = opening_new(4, 1 << 20, 4, 1);
    struct vetted *v = vetted_of("api.example.com", 1);
    struct addr c = client_number(0);
    const struct opened *opened = NULL;
    opening_epoch(o, 5);
    struct asking *a = ask(o, 0, v, 7);
    struct msg_opened m = {.id = a->id, .epoch = 5, .result = REASON_MAP_FULL};
    ck_assert_int_eq(opening_answered(o, a, &m, NOW, &opened), -REASON_MAP_FULL);
    m.result = 77; /* no reason at all */
    ck_assert_int_eq(opening_answered(o, a, &m, NOW, &opened), -REASON_OPEN_FAILED);
    ck_assert_int_eq(acknowledge(o, a, 4, 75, &opened), -ESTALE);
    ck_assert_ptr_null(opened);
    ck_assert_ptr_null(opening_find(o, &c, v, 7, NOW));
    uint64_t before = a->id;
    opening_renew(o, a);
    ck_assert_uint_ne(a->id, before);
    ck_assert_ptr_null(opening_by_id(o, before));
    ck_assert_ptr_eq(opening_by_id(o, a->id), a);
    ck_assert_int_eq(acknowledge(o, a, 5, 75, &opened), 0);
    ck_assert_int_eq(opening_epoch(o, 5), 0);
    ck_assert_ptr_nonnull(opening_find(o, &c, v, 7, NOW));
    ck_assert_int_eq(opening_epoch(o, 6), 1);
    ck_assert_ptr_null(opening_find(o, &c, v, 7, NOW));
    vetted_unref(v);
    opening_free(o);
}
END_TEST

START_TEST(asks_are_found_and_bounded) {
    struct opening *o = opening_new(4, 1 << 20, 4, 1);
    struct vetted *v = vetted_of("api.example.com", 1);
    struct addr c0 = client_number(0), c1 = client_number(1), c9 = client_number(9);
    struct name name = name_of("api.example.com");
    struct asking *a = ask(o, 0, v, 7), *b = ask(o, 1, v, 7), *extra = NULL;
    ck_assert_ptr_eq(opening_pending(o, &c0, v, 7), a);
    ck_assert_ptr_eq(opening_pending(o, &c1, v, 7), b);
    ck_assert_ptr_null(opening_pending(o, &c9, v, 7));
    ck_assert_ptr_null(opening_pending(o, &c0, v, 8));
    ask(o, 2, v, 7);
    ask(o, 3, v, 7);
    struct permitted *p = permitted_of(v, "api.example.com");
    ck_assert_int_eq(opening_ask(o, &c9, &name, 7, 75, p, NOW, &extra), -EBUSY);
    permitted_free(p); /* still ours */
    opening_drop(o, a);
    ck_assert_ptr_null(opening_pending(o, &c0, v, 7));
    ck_assert_ptr_nonnull(ask(o, 9, v, 7));
    vetted_unref(v);
    opening_free(o); /* with asks under way */
}
END_TEST

START_TEST(message_is_what_core_takes) {
    static struct proto_message m;
    struct opening *o = opening_new(4, 1 << 20, 4, 1);
    struct vetted *v = vetted_of("api.example.com", 9);
    struct asking *a = ask(o, 0, v, 7);
    opening_message(a, &m);
    const struct msg_open *open = proto_body(&m);
    const struct msg_open_addr *item = proto_item(&m, 0);
    ck_assert_int_eq(proto_check(m.bytes, m.size), 0);
    ck_assert_uint_eq(m.head.items, 1);
    ck_assert_uint_eq(open->id, a->id);
    ck_assert_uint_eq(open->policy, 7);
    ck_assert_uint_eq(item->lifetime, 75);
    ck_assert_uint_eq(item->remote.bytes[3], 9);
    vetted_unref(v);
    opening_free(o);
}
END_TEST

/* Memos pin answers: neither their number nor their bytes grow without end. */
START_TEST(memos_are_bounded) {
    struct opening *o = opening_new(64, 4096, 4, 1);
    const struct opened *opened = NULL;
    struct vetted *probe = vetted_of("api.example.com", 0);
    size_t each = vetted_bytes(probe);
    vetted_unref(probe);
    for (unsigned i = 0; i < 1000; i++) {
        struct vetted *v = vetted_of("api.example.com", i);
        ck_assert_int_eq(acknowledge(o, ask(o, i % 10, v, 7), 1, 75, &opened), 0);
        struct addr c = client_number(i % 10);
        ck_assert_ptr_eq(opening_find(o, &c, v, 7, NOW), opened); /* the newest is never dropped */
        ck_assert_uint_le(opening_memos(o), 64);
        ck_assert_uint_le(opening_memos(o) * each, 4096 + each);
        vetted_unref(v);
    }
    opening_free(o);
}
END_TEST

START_TEST(slots_never_take_one_for_another) {
    struct slots s;
    int items[4];
    ck_assert_int_eq(slots_init(&s, 4, 0), 0);
    uint64_t ids[4];
    for (int i = 0; i < 4; i++) {
        ids[i] = slots_take(&s, &items[i]);
        ck_assert_uint_ne(ids[i], 0);
    }
    ck_assert_uint_eq(slots_take(&s, items), 0);
    slots_release(&s, ids[2]);
    slots_release(&s, ids[2]);
    ck_assert_ptr_null(slots_find(&s, ids[2]));
    uint64_t again = slots_take(&s, &items[0]);
    ck_assert_uint_ne(again, ids[2]);
    ck_assert_ptr_null(slots_find(&s, ids[2]));
    slots_release(&s, ids[2]); /* late: not its any more */
    ck_assert_ptr_eq(slots_find(&s, again), &items[0]);
    ck_assert_ptr_null(slots_find(&s, 0));
    ck_assert_ptr_null(slots_find(&s, UINT64_MAX));
    ck_assert_ptr_eq(slots_find(&s, ids[3]), &items[3]);
    slots_destroy(&s);
}
END_TEST

/* The largest start of all still leaves numbers that are not 0 and that are found again. */
START_TEST(slots_begin_where_they_are_told) {
    static const uint64_t starts[] = {0, 7, UINT64_C(1) << 40, UINT64_MAX};
    uint64_t first[4];
    for (int k = 0; k < 4; k++) {
        struct slots s;
        int items[5];
        ck_assert_int_eq(slots_init(&s, 4, starts[k]), 0);
        for (int i = 0; i < 5; i++) { /* more than there are places: one is used twice */
            uint64_t id = slots_take(&s, &items[i]);
            ck_assert_uint_ne(id, 0);
            ck_assert_ptr_eq(slots_find(&s, id), &items[i]);
            if (i == 0) first[k] = id;
            if (i == 2) slots_release(&s, id);
        }
        slots_destroy(&s);
        for (int j = 0; j < k - 1; j++) ck_assert_uint_ne(first[j], first[k]);
    }
}
END_TEST

int main(void) {
    struct load_source source = {.config = "tests/scenario/base/gateway.yaml",
                                 .public_suffix_list = "conf/public_suffix_list.dat"};
    if (load_policy(&source, stdout, &image) < 0 ||
        policy_open(&policy, image.image, image.size) < 0)
        return EXIT_FAILURE;
    Suite *suite = suite_create("opening");
    TCase *all = tcase_create("opening");
    tcase_add_test(all, memo_is_for_one_client_answer_and_policy);
    tcase_add_test(all, ttl_rounds_down_and_leaves_the_grace);
    tcase_add_test(all, refusals_and_other_epochs_open_nothing);
    tcase_add_test(all, asks_are_found_and_bounded);
    tcase_add_test(all, message_is_what_core_takes);
    tcase_add_test(all, memos_are_bounded);
    tcase_add_test(all, slots_never_take_one_for_another);
    tcase_add_test(all, slots_begin_where_they_are_told);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    load_result_free(&image);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
