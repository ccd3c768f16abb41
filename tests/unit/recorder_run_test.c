/* recorder_run_test.c: the recorder as a whole, in process with a clock moved by hand: what it
 * owes its senders over restarts, gaps, a new policy, a full disk. The real program is driven by
 * recorder_program_test.c.
 */
#include "tests/unit/recorder_setup.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "gateway/recorder/output.h"
#include "gateway/recorder/recorder.h"

/* ---- a recorder and both its senders ------------------------------------------------------- */

struct bench {
    struct place place;
    struct clock_fake fake;
    struct clock clock;
    int state;
    struct channel senders[SENDER_COUNT]; /* our ends */
    int ends[SENDER_COUNT];               /* the recorder's, which outlive it */
    struct recorder *recorder;
    uint64_t policy;
};

static struct proto_message message;

static void bench_run_with(struct bench *b, const char *when_full) {
    b->recorder = calloc(1, sizeof *b->recorder);
    const struct recorder_setup setup = {
        .clock = &b->clock, .channels = {b->ends[0], b->ends[1]},
        .image = image_make(when_full, "first"), .directory = b->place.fd, .state = b->state};
    ck_assert_int_eq(recorder_start(b->recorder, &setup), 0);
    b->policy = images_current(&b->recorder->images)->id;
}

static void bench_make(struct bench *b, const char *when_full) {
    memset(b, 0, sizeof *b);
    b->place = place_make();
    b->fake = (struct clock_fake){.monotonic = USEC_PER_SEC, .realtime = TEST_TIME};
    b->clock = clock_fake_of(&b->fake);
    b->state = memfd_create("state", MFD_CLOEXEC);
    for (enum sender s = 0; s < SENDER_COUNT; s++) {
        int pair[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        b->senders[s] = (struct channel){.fd = pair[0]};
        b->ends[s] = pair[1];
    }
    bench_run_with(b, when_full);
}

/* As if by kill -9: nothing is flushed, the shared state stays. */
static void bench_kill(struct bench *b) {
    recorder_free(b->recorder);
    free(b->recorder);
    b->recorder = NULL;
}

static void bench_remove(struct bench *b) {
    if (b->recorder != NULL) bench_kill(b);
    for (enum sender s = 0; s < SENDER_COUNT; s++) {
        close(b->senders[s].fd);
        close(b->ends[s]);
    }
    close(b->state);
    place_remove(&b->place);
}

static void send_query(struct bench *b, const char *name) {
    query_fill(proto_begin(&message, PROTO_QUERY, 0), b->policy, name);
    ck_assert_int_eq(channel_send(&b->senders[SENDER_RESOLVER], &message), 0);
}

static void send_denied(struct bench *b, uint16_t port) {
    denied_fill(proto_begin(&message, PROTO_DENIED, 0), port);
    ck_assert_int_eq(channel_send(&b->senders[SENDER_CORE], &message), 0);
}

static void send_event(struct bench *b, uint32_t code) {
    struct msg_event *e = proto_begin(&message, PROTO_EVENT, 0);
    *e = (struct msg_event){.time = TEST_TIME, .policy = b->policy, .code = code, .uid = UINT32_MAX};
    ck_assert_int_eq(channel_send(&b->senders[SENDER_CORE], &message), 0);
}

/* What the event loop does when both channels are readable. */
static void turn(struct bench *b) {
    for (enum sender s = 0; s < SENDER_COUNT; s++) {
        int more = 1;
        for (unsigned i = 0; more > 0 && recorder_wants(b->recorder, s) && i < 1000; i++)
            more = recorder_receive(b->recorder, s);
        ck_assert_int_ge(more, 0);
    }
    recorder_flush(b->recorder);
}

static void pass(struct bench *b, usec_t time) {
    b->fake.monotonic += time;
    b->fake.realtime += time;
    recorder_tick(b->recorder);
}

/* The last LOG_STATE core was sent; false if there was none since. */
static bool log_state(struct bench *b, struct msg_log_state *ret) {
    bool any = false;
    while (channel_receive(&b->senders[SENDER_CORE], &message,
                           PROTO_BIT(LOG_STATE) | PROTO_BIT(POLICY_USED)) > 0) {
        if (message.head.type != PROTO_LOG_STATE) continue;
        *ret = *(const struct msg_log_state *)proto_body(&message);
        any = true;
    }
    return any;
}

/* ---- what is in the log -------------------------------------------------------------------- */

struct tally {
    uint64_t records, last_sequence, queries, denied, events;
    uint64_t lost_core, lost_resolver, lost_denied, gaps, gap_count, torn, replaced, bad;
    char last_name[64], last_policy[80], last_agent[32];
    bool consecutive;
};

static void tally_loss(struct tally *t, const json_t *r) {
    const char *event = record_text_of(r, FIELD_EVENT);
    const char *process = record_text_of(r, FIELD_PROCESS);
    uint64_t count = record_number_of(r, FIELD_COUNT);
    if (strcmp(event, "lost-records") == 0)
        *(strcmp(process, "core") == 0 ? &t->lost_core : &t->lost_resolver) += count;
    else if (strcmp(event, "lost-denied") == 0)
        t->lost_denied += count;
    else if (strcmp(event, "log-gap") == 0)
        t->gaps++, t->gap_count += count;
    else if (strcmp(event, "torn-tail") == 0)
        t->torn++;
    else if (strcmp(event, "log-replaced") == 0)
        t->replaced++;
    else if (strcmp(event, "bad-messages") == 0)
        t->bad += count;
    else
        t->events++;
}

static void tally_record(void *ctx, const json_t *r) {
    struct tally *t = ctx;
    uint64_t sequence = record_number_of(r, FIELD_SEQUENCE);
    const char *kind = record_text_of(r, FIELD_KIND);
    if (t->records++ > 0 && sequence != t->last_sequence + 1) t->consecutive = false;
    t->last_sequence = sequence;
    if (strcmp(kind, "query") == 0) {
        t->queries++;
        const char *agent = record_text_of(r, FIELD_AGENT);
        snprintf(t->last_name, sizeof t->last_name, "%s", record_text_of(r, FIELD_NAME));
        snprintf(t->last_policy, sizeof t->last_policy, "%s", record_text_of(r, FIELD_POLICY));
        snprintf(t->last_agent, sizeof t->last_agent, "%s", agent != NULL ? agent : "");
    } else if (strcmp(kind, "denied-packet") == 0) {
        t->denied += record_number_of(r, FIELD_COUNT);
    } else if (strcmp(kind, "loss") == 0) {
        tally_loss(t, r);
    } else {
        t->events++;
    }
}

static struct tally tally(const struct bench *b) {
    struct tally t = {.consecutive = true};
    records_each(b->place.path, STORE_FILE, tally_record, &t);
    ck_assert(t.consecutive);
    return t;
}

/* ---- usual days ---------------------------------------------------------------------------- */

START_TEST(records_reach_the_file) {
    struct bench b;
    struct msg_log_state s;
    bench_make(&b, "refuse");
    ck_assert(log_state(&b, &s)); /* at start */
    ck_assert_uint_eq(s.ok, 1);
    send_query(&b, "a.example");
    send_event(&b, EVENT_START);
    turn(&b);
    struct tally t = tally(&b); /* no time has passed: the query is there before its answer goes */
    ck_assert_uint_eq(t.queries, 1);
    ck_assert_uint_eq(t.events, 1);
    ck_assert_str_eq(t.last_agent, "research");
    ck_assert_uint_le(recorder_wait(b.recorder), RECORDER_TELL);
    pass(&b, RECORDER_TELL);
    ck_assert(log_state(&b, &s));
    ck_assert_uint_eq(s.written, 2);
    ck_assert_uint_eq(s.lost, 0);
    bench_remove(&b);
}
END_TEST

START_TEST(denied_packets_after_a_second) {
    struct bench b;
    bench_make(&b, "refuse");
    for (unsigned i = 0; i < 40; i++) send_denied(&b, 25);
    send_denied(&b, 26);
    turn(&b);
    pass(&b, DENIALS_WINDOW / 2);
    ck_assert_uint_eq(tally(&b).denied, 0);
    ck_assert_uint_le(recorder_wait(b.recorder), DENIALS_WINDOW / 2);
    pass(&b, DENIALS_WINDOW / 2);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.denied, 41);
    ck_assert_uint_eq(t.records, 2);
    bench_remove(&b);
}
END_TEST

START_TEST(stop_writes_all) {
    struct bench b;
    bench_make(&b, "refuse");
    for (unsigned i = 0; i < 100; i++) send_query(&b, "a.example");
    send_denied(&b, 25);
    send_event(&b, EVENT_STOP);
    recorder_stop(b.recorder);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.queries, 100);
    ck_assert_uint_eq(t.denied, 1);
    ck_assert_uint_eq(t.events, 1);
    bench_remove(&b);
}
END_TEST

/* ---- policy -------------------------------------------------------------------------------- */

static uint64_t send_policy(struct bench *b, const char *when_full, const char *salt) {
    int fd = image_make(when_full, salt);
    struct images im = {0};
    ck_assert_int_eq(images_add(&im, dup(fd)), 0);
    uint64_t id = images_current(&im)->id;
    images_free(&im);
    struct msg_policy *p = proto_begin(&message, PROTO_POLICY, 0);
    p->policy = id;
    message.fds[0] = fd;
    message.fd_count = 1;
    ck_assert_int_eq(channel_send(&b->senders[SENDER_CORE], &message), 0);
    message.fd_count = 0;
    close(fd);
    return id;
}

START_TEST(policy_changes) {
    struct bench b;
    bench_make(&b, "refuse");
    uint64_t first = b.policy;
    uint64_t second = send_policy(&b, "refuse", "second");
    ck_assert_uint_ne(first, second);
    turn(&b);
    bool used = false;
    while (channel_receive(&b.senders[SENDER_CORE], &message,
                           PROTO_BIT(LOG_STATE) | PROTO_BIT(POLICY_USED)) > 0)
        used |= message.head.type == PROTO_POLICY_USED &&
                ((struct msg_policy *)proto_body(&message))->policy == second;
    ck_assert(used);
    send_query(&b, "old.example"); /* decided under the first, still known */
    turn(&b);
    struct tally t = tally(&b);
    ck_assert_uint_eq(strlen(t.last_policy), 64);
    ck_assert_str_eq(t.last_agent, "research");
    /* The resolver is faster: its query names a policy that waits in core's channel. */
    b.policy = send_policy(&b, "refuse", "third");
    send_query(&b, "new.example");
    ck_assert_int_eq(recorder_receive(b.recorder, SENDER_RESOLVER), 0);
    recorder_flush(b.recorder);
    t = tally(&b);
    ck_assert_str_eq(t.last_name, "new.example");
    ck_assert_uint_eq(strlen(t.last_policy), 64);
    ck_assert_str_eq(t.last_agent, "research");
    bench_remove(&b);
}
END_TEST

/* More policies than are kept: the oldest is forgotten, its indexes are not looked up elsewhere. */
START_TEST(forgotten_policy) {
    struct bench b;
    bench_make(&b, "refuse");
    for (unsigned i = 0; i < IMAGES_MAX; i++) {
        char salt[16];
        snprintf(salt, sizeof salt, "salt %u", i);
        send_policy(&b, "refuse", salt);
    }
    turn(&b);
    send_query(&b, "a.example");
    turn(&b);
    struct tally t = tally(&b);
    ck_assert_uint_eq(strlen(t.last_policy), 16);
    ck_assert_str_eq(t.last_agent, "");
    bench_remove(&b);
}
END_TEST

START_TEST(images_that_are_none) {
    struct images im = {0};
    int unsealed = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(write(unsealed, "x", 1), 1);
    ck_assert_int_eq(images_add(&im, dup(unsealed)), -EBADMSG);
    fcntl(unsealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE);
    ck_assert_int_eq(images_add(&im, unsealed), -EBADMSG);
    ck_assert_int_eq(images_add(&im, open("/dev/null", O_RDONLY)), -EBADMSG);
    ck_assert_ptr_null(images_current(&im));
    images_free(&im);
}
END_TEST

/* ---- losses -------------------------------------------------------------------------------- */

START_TEST(gaps_are_counted) {
    struct bench b;
    bench_make(&b, "refuse");
    send_query(&b, "a.example");
    b.senders[SENDER_RESOLVER].sent += 5; /* could not be sent */
    send_query(&b, "b.example");
    b.senders[SENDER_CORE].sent += 3;
    send_event(&b, EVENT_DRIFT);
    turn(&b);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.queries, 2);
    ck_assert_uint_eq(t.lost_resolver, 5);
    ck_assert_uint_eq(t.lost_core, 3);
    bench_remove(&b);
}
END_TEST

START_TEST(sender_that_starts_again) {
    struct bench b;
    bench_make(&b, "refuse");
    for (unsigned i = 0; i < 9; i++) send_query(&b, "a.example");
    turn(&b);
    b.senders[SENDER_RESOLVER].sent = 0;
    send_query(&b, "b.example");
    b.senders[SENDER_RESOLVER].sent = 0;
    b.senders[SENDER_RESOLVER].sent += 2; /* and two it lost at once */
    turn(&b);
    ck_assert_uint_eq(tally(&b).lost_resolver, 0);
    b.senders[SENDER_RESOLVER].sent = 3;
    send_query(&b, "c.example");
    turn(&b);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.queries, 11);
    ck_assert_uint_eq(t.lost_resolver, 2);
    bench_remove(&b);
}
END_TEST

START_TEST(killed_recorder_loses_no_record) {
    struct bench b;
    bench_make(&b, "refuse");
    send_query(&b, "a.example");
    turn(&b);
    send_query(&b, "b.example"); /* read, in the queue, not written */
    ck_assert_int_eq(recorder_receive(b.recorder, SENDER_RESOLVER), 0);
    bench_kill(&b);
    send_query(&b, "c.example"); /* waits in the channel */
    bench_run_with(&b, "refuse");
    turn(&b);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.queries, 3);
    ck_assert_uint_eq(t.last_sequence, 3);
    ck_assert_uint_eq(t.lost_resolver, 0);
    bench_remove(&b);
}
END_TEST

/* Killed after any number of bytes of a write: the successor completes it, doubling nothing. */
START_TEST(killed_in_the_middle_of_a_write) {
    for (size_t cut = 0;; cut += 97) {
        struct bench b;
        bench_make(&b, "refuse");
        send_query(&b, "a.example");
        turn(&b);
        for (unsigned i = 0; i < 4; i++) send_query(&b, "b.example");
        ck_assert_int_eq(recorder_receive(b.recorder, SENDER_RESOLVER), 0);
        size_t size;
        const uint8_t *queue = state_queue(&b.recorder->state, &size);
        bool all = cut >= size;
        ck_assert_int_ge(write(b.recorder->store.fd, queue, all ? size : cut), 0);
        bench_kill(&b);
        bench_run_with(&b, "refuse");
        struct tally t = tally(&b);
        ck_assert_uint_eq(t.queries, 5);
        ck_assert_uint_eq(t.records, 5);
        ck_assert_uint_eq(b.recorder->state.now.written, 5);
        bench_remove(&b);
        if (all) break;
    }
}
END_TEST

/* Killed while a new line is put where written ones were: the successor sees neither. */
START_TEST(killed_while_a_line_is_made) {
    struct bench b;
    bench_make(&b, "refuse");
    for (unsigned i = 0; i < 3; i++) send_query(&b, "a.example");
    turn(&b);
    struct buf room = state_room(&b.recorder->state, 0);
    struct msg_event e = {.time = TEST_TIME, .code = EVENT_STOP, .uid = UINT32_MAX};
    format_event(&b.recorder->record, &b.recorder->images, 4, &e);
    ck_assert_int_gt(record_write(&b.recorder->record, &room), 0);
    bench_kill(&b);
    bench_run_with(&b, "refuse");
    send_query(&b, "b.example");
    turn(&b);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.records, 4);
    ck_assert_uint_eq(t.queries, 4);
    bench_remove(&b);
}
END_TEST

START_TEST(killed_with_packets_in_hand) {
    struct bench b;
    struct msg_log_state s;
    bench_make(&b, "refuse");
    for (unsigned i = 0; i < 7; i++) send_denied(&b, 25);
    turn(&b);
    bench_kill(&b);
    bench_run_with(&b, "refuse");
    send_denied(&b, 25);
    turn(&b);
    pass(&b, DENIALS_WINDOW);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.denied, 1);
    ck_assert_uint_eq(t.lost_denied, 7);
    pass(&b, RECORDER_TELL);
    ck_assert(log_state(&b, &s));
    ck_assert_uint_eq(s.lost, 7);
    bench_remove(&b);
}
END_TEST

/* The whole gateway ends: no state, but the file says how far the numbers are. */
START_TEST(numbers_go_on_from_the_file) {
    struct bench b;
    bench_make(&b, "refuse");
    for (unsigned i = 0; i < 5; i++) send_query(&b, "a.example");
    recorder_stop(b.recorder);
    bench_kill(&b);
    close(b.state);
    b.state = memfd_create("state", MFD_CLOEXEC);
    file_put(b.place.path, STORE_FILE, "{\"time\":\"2026-11"); /* by a power cut */
    bench_run_with(&b, "refuse");
    b.senders[SENDER_RESOLVER].sent = 0;
    send_query(&b, "b.example");
    turn(&b);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.queries, 6);
    ck_assert_uint_eq(t.torn, 1);
    ck_assert_uint_eq(t.last_sequence, 7);
    ck_assert_uint_eq(t.lost_resolver, 0);
    bench_remove(&b);
}
END_TEST

START_TEST(damaged_state_is_not_used) {
    struct bench b;
    bench_make(&b, "refuse");
    send_query(&b, "a.example");
    turn(&b);
    struct recorder_state *shared = b.recorder->state.shared;
    shared->slots[0].queue_end = shared->slots[1].queue_end = RECORDER_QUEUE_MAX + 1;
    bench_kill(&b);
    bench_run_with(&b, "refuse");
    ck_assert_uint_eq(b.recorder->state.now.sequence, 1);
    bench_remove(&b);
}
END_TEST

START_TEST(impossible_messages_are_reported) {
    struct bench b;
    bench_make(&b, "refuse");
    ck_assert_int_eq(send(b.senders[SENDER_RESOLVER].fd, "garbage", 7, 0), 7);
    proto_begin(&message, PROTO_FLOW, 0); /* not the resolver's to send */
    struct msg_flow *f = proto_body(&message);
    flow_fill(f, b.policy);
    ck_assert_int_eq(channel_send(&b.senders[SENDER_RESOLVER], &message), 0);
    send_query(&b, "a.example");
    turn(&b);
    pass(&b, RECORDER_SYNC);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.bad, 2);
    ck_assert_uint_eq(t.queries, 1);
    ck_assert_uint_eq(t.lost_resolver, 1); /* the one that had a number */
    bench_remove(&b);
}
END_TEST

START_TEST(file_moved_by_another_hand) {
    struct bench b;
    bench_make(&b, "refuse");
    send_query(&b, "a.example");
    turn(&b);
    ck_assert_int_eq(renameat(b.place.fd, STORE_FILE, b.place.fd, "old"), 0);
    pass(&b, RECORDER_SYNC);
    send_query(&b, "b.example");
    turn(&b);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.replaced, 1);
    ck_assert_uint_eq(t.queries, 1);
    ck_assert_uint_eq(t.last_sequence, 3);
    bench_remove(&b);
}
END_TEST

/* ---- a log that cannot be written ---------------------------------------------------------- */

/* Without root there are no mounts; each test then says so by its name. */
static bool mount_small(const char *test, const char *path) {
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", path, "tmpfs", 0, "size=4m,mode=0755") < 0) {
        fprintf(stderr, "SKIP %s: no mount namespace: %s\n", test, strerror(errno));
        return false;
    }
    return true;
}

static bool bench_make_small(struct bench *b, const char *test, const char *when_full) {
    struct place p = place_make();
    if (!mount_small(test, p.path)) {
        place_remove(&p);
        return false;
    }
    bench_make(b, when_full);
    bench_kill(b);
    place_remove(&b->place);
    close(p.fd);
    b->place = p;
    b->place.fd = open(p.path, O_PATH | O_DIRECTORY | O_CLOEXEC); /* of the mount */
    ck_assert_int_eq(ftruncate(b->state, 0), 0);
    bench_run_with(b, when_full);
    return true;
}

static void bench_remove_small(struct bench *b) {
    bench_kill(b);
    close(b->place.fd);
    ck_assert_int_eq(umount(b->place.path), 0);
    b->place.fd = open(b->place.path, O_PATH | O_DIRECTORY);
    bench_remove(b);
}

static void ballast_put(const struct bench *b) {
    int fd = openat(b->place.fd, "ballast", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    static const char block[65536];
    while (write(fd, block, sizeof block) > 0) continue;
    close(fd);
}

START_TEST(disk_full_refuse_c57) {
    struct bench b;
    struct msg_log_state s = {0};
    if (!bench_make_small(&b, "disk_full_refuse_c57", "refuse")) return;
    send_query(&b, "a.example");
    turn(&b);
    log_state(&b, &s);
    ballast_put(&b);
    send_query(&b, "b.example");
    turn(&b);
    ck_assert(log_state(&b, &s)); /* at once */
    ck_assert_uint_eq(s.ok, 0);
    ck_assert_uint_eq(s.error, ENOSPC);
    /* Fills the queue; then the rest waits in the channel and its sender is told by EAGAIN. */
    uint64_t sent = 2, refused = 0;
    for (unsigned i = 0; i < 6000; i++) {
        query_fill(proto_begin(&message, PROTO_QUERY, 0), b.policy, "c.example");
        int e = channel_send(&b.senders[SENDER_RESOLVER], &message);
        if (e == 0) sent++;
        else refused++;
        if (i % 100 == 0) turn(&b);
    }
    ck_assert_uint_gt(refused, 100);
    ck_assert(!recorder_wants(b.recorder, SENDER_RESOLVER));
    ck_assert(recorder_wants(b.recorder, SENDER_CORE));
    for (unsigned i = 0; i < 50; i++) send_denied(&b, 25);
    send_event(&b, EVENT_LOG_STOPPED); /* has room kept for it */
    turn(&b);
    for (unsigned i = 0; i < 5; i++) pass(&b, RECORDER_RETRY);
    ck_assert(!log_state(&b, &s) || s.ok == 0);
    unlinkat(b.place.fd, "ballast", 0);
    pass(&b, RECORDER_RETRY);
    ck_assert(log_state(&b, &s));
    ck_assert_uint_eq(s.ok, 1);
    ck_assert_uint_eq(s.error, 0);
    turn(&b);
    send_query(&b, "last.example"); /* its number shows what was refused */
    turn(&b);
    pass(&b, DENIALS_WINDOW);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.queries, sent + 1); /* whatever was taken is there */
    ck_assert_uint_eq(t.lost_resolver, refused);
    ck_assert_uint_eq(t.lost_core, 0);
    ck_assert_uint_eq(t.denied, 50);
    ck_assert_uint_eq(t.events, 1);
    ck_assert_uint_eq(t.gaps, 1);
    ck_assert_uint_eq(t.torn, 0);
    bench_remove_small(&b);
}
END_TEST

START_TEST(disk_full_drop_c57) {
    struct bench b;
    struct msg_log_state s = {0};
    if (!bench_make_small(&b, "disk_full_drop_c57", "drop")) return;
    ballast_put(&b);
    uint64_t sent = 0;
    for (unsigned i = 0; i < 6000; i++, sent++) {
        send_query(&b, "c.example");
        if (i % 50 == 0) turn(&b);
    }
    turn(&b);
    ck_assert(recorder_wants(b.recorder, SENDER_RESOLVER));
    pass(&b, RECORDER_TELL);
    ck_assert(log_state(&b, &s));
    ck_assert_uint_eq(s.ok, 1); /* service goes on */
    ck_assert_uint_gt(s.lost, 0);
    unlinkat(b.place.fd, "ballast", 0);
    pass(&b, RECORDER_RETRY);
    struct tally t = tally(&b);
    ck_assert_uint_gt(t.queries, 1000);
    ck_assert_uint_gt(t.lost_resolver, 0);
    ck_assert_uint_eq(t.queries + t.lost_resolver, sent);
    ck_assert_uint_eq(t.gaps, 1);
    bench_remove_small(&b);
}
END_TEST

/* The recorder is killed while the disk is full: its successor has the queue and the counts. */
START_TEST(killed_while_the_disk_is_full_c57) {
    struct bench b;
    struct msg_log_state s = {0};
    if (!bench_make_small(&b, "killed_while_the_disk_is_full_c57", "drop")) return;
    ballast_put(&b);
    uint64_t sent = 0;
    for (unsigned i = 0; i < 4000; i++, sent++) {
        send_query(&b, "c.example");
        if (i % 50 == 0) turn(&b);
        if (i % 700 == 0) {
            bench_kill(&b);
            bench_run_with(&b, "drop");
        }
    }
    turn(&b);
    bench_kill(&b);
    unlinkat(b.place.fd, "ballast", 0);
    bench_run_with(&b, "drop");
    turn(&b);
    ck_assert(log_state(&b, &s));
    ck_assert_uint_eq(s.ok, 1);
    struct tally t = tally(&b);
    ck_assert_uint_gt(t.lost_resolver, 0);
    ck_assert_uint_eq(t.queries + t.lost_resolver, sent);
    ck_assert_uint_eq(t.gaps, 1);
    bench_remove_small(&b);
}
END_TEST

START_TEST(read_only_c57) {
    struct bench b;
    struct msg_log_state s = {0};
    if (!bench_make_small(&b, "read_only_c57", "refuse")) return;
    send_query(&b, "a.example");
    turn(&b);
    bench_kill(&b); /* a file open for writing would forbid the remount */
    ck_assert_int_eq(mount(NULL, b.place.path, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    log_state(&b, &s);
    bench_run_with(&b, "refuse");
    ck_assert(log_state(&b, &s));
    ck_assert_uint_eq(s.ok, 0);
    ck_assert_uint_eq(s.error, EROFS);
    send_query(&b, "b.example");
    turn(&b);
    ck_assert_int_eq(mount(NULL, b.place.path, NULL, MS_REMOUNT, NULL), 0);
    pass(&b, RECORDER_RETRY);
    ck_assert(log_state(&b, &s));
    ck_assert_uint_eq(s.ok, 1);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.queries, 2);
    ck_assert_uint_eq(t.gaps, 1);
    bench_remove_small(&b);
}
END_TEST

/* A fresh start on a file system that can only be read: numbers still go on from the file. */
START_TEST(read_only_at_a_fresh_start_c57) {
    struct bench b;
    if (!bench_make_small(&b, "read_only_at_a_fresh_start_c57", "refuse")) return;
    for (unsigned i = 0; i < 5; i++) send_query(&b, "a.example");
    turn(&b);
    bench_kill(&b);
    ck_assert_int_eq(ftruncate(b.state, 0), 0);
    ck_assert_int_eq(mount(NULL, b.place.path, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    bench_run_with(&b, "refuse");
    b.senders[SENDER_RESOLVER].sent = 0;
    send_query(&b, "b.example");
    turn(&b);
    ck_assert_int_eq(mount(NULL, b.place.path, NULL, MS_REMOUNT, NULL), 0);
    pass(&b, RECORDER_RETRY);
    struct tally t = tally(&b); /* which looks that they are consecutive */
    ck_assert_uint_eq(t.queries, 6);
    bench_remove_small(&b);
}
END_TEST

/* Stands before the C library's for everything linked into this program. */
static int sync_error;
int fdatasync(int fd) {
    if (sync_error == 0) return (int)syscall(SYS_fdatasync, fd);
    errno = sync_error;
    return -1;
}

START_TEST(sync_fails_c57) {
    struct bench b;
    struct msg_log_state s = {0};
    bench_make(&b, "refuse");
    pass(&b, RECORDER_SYNC);
    for (unsigned i = 0; i < 3; i++) send_query(&b, "a.example");
    turn(&b);
    log_state(&b, &s);
    sync_error = EIO;
    pass(&b, RECORDER_SYNC);
    ck_assert(log_state(&b, &s));
    ck_assert_uint_eq(s.ok, 0);
    ck_assert_uint_eq(s.error, EIO);
    pass(&b, RECORDER_RETRY); /* writing works, but nothing is promised before a sync does */
    ck_assert(!log_state(&b, &s) || s.ok == 0);
    sync_error = 0;
    pass(&b, RECORDER_RETRY);
    ck_assert(log_state(&b, &s));
    ck_assert_uint_eq(s.ok, 1);
    struct tally t = tally(&b);
    ck_assert_uint_eq(t.queries, 3);
    ck_assert_uint_eq(t.gaps, 1);
    ck_assert_uint_eq(t.gap_count, 3); /* may be missing after a power cut */
    bench_remove(&b);
}
END_TEST

START_TEST(directory_removed_c57) {
    struct bench b;
    struct msg_log_state s = {0};
    bench_make(&b, "refuse");
    send_query(&b, "a.example");
    turn(&b);
    log_state(&b, &s);
    unlinkat(b.place.fd, STORE_FILE, 0);
    ck_assert_int_eq(rmdir(b.place.path), 0);
    pass(&b, RECORDER_SYNC);
    ck_assert(log_state(&b, &s));
    ck_assert_uint_eq(s.ok, 0);
    ck_assert_uint_eq(s.error, ENOENT);
    mkdir(b.place.path, 0700);
    bench_remove(&b);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("recorder_run");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, records_reach_the_file);
    tcase_add_test(t, denied_packets_after_a_second);
    tcase_add_test(t, stop_writes_all);
    tcase_add_test(t, policy_changes);
    tcase_add_test(t, forgotten_policy);
    tcase_add_test(t, images_that_are_none);
    tcase_add_test(t, gaps_are_counted);
    tcase_add_test(t, sender_that_starts_again);
    tcase_add_test(t, killed_recorder_loses_no_record);
    tcase_add_test(t, killed_in_the_middle_of_a_write);
    tcase_add_test(t, killed_while_a_line_is_made);
    tcase_add_test(t, killed_with_packets_in_hand);
    tcase_add_test(t, numbers_go_on_from_the_file);
    tcase_add_test(t, damaged_state_is_not_used);
    tcase_add_test(t, impossible_messages_are_reported);
    tcase_add_test(t, file_moved_by_another_hand);
    tcase_add_test(t, disk_full_refuse_c57);
    tcase_add_test(t, disk_full_drop_c57);
    tcase_add_test(t, killed_while_the_disk_is_full_c57);
    tcase_add_test(t, read_only_c57);
    tcase_add_test(t, read_only_at_a_fresh_start_c57);
    tcase_add_test(t, sync_fails_c57);
    tcase_add_test(t, directory_removed_c57);
    Suite *s = suite_create("recorder_run");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
