/* recorder_program_test.c: the real tidegate-recorder, confined, with this test in the place of its
 * supervisor, core and resolver: it is killed again and again under load, and in the end every
 * message is either in the log or counted as lost.
 */
#include "tests/unit/recorder_setup.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "gateway/base/clock.h"
#include "gateway/proto/handover.h"
#include "gateway/recorder/store.h"

enum { CORE, RESOLVER, SENDERS };

struct gateway {
    struct place place;
    int state, image;
    struct channel senders[SENDERS];
    int ends[SENDERS];
    pid_t pid;
    uint64_t policy;
};

static struct proto_message message;

/* Beside this test: BUILD/unit/x -> BUILD/bin/tidegate-recorder. */
static void program_path(char path[512]) {
    ssize_t n = readlink("/proc/self/exe", path, 400);
    ck_assert_int_gt(n, 0);
    path[n] = '\0';
    for (int up = 0; up < 2; up++) *strrchr(path, '/') = '\0';
    strncat(path, "/bin/tidegate-recorder", 100);
    ck_assert_msg(access(path, X_OK) == 0, "%s is not built", path);
}

static void program_start(struct gateway *g) {
    char path[512];
    program_path(path);
    fflush(NULL);
    g->pid = fork();
    ck_assert_int_ge(g->pid, 0);
    if (g->pid > 0) return;
    const int fds[] = {g->ends[CORE], g->ends[RESOLVER], g->image, g->place.fd, g->state};
    int high[5];
    for (int i = 0; i < 5; i++) high[i] = fcntl(fds[i], F_DUPFD, 100);
    for (int i = 0; i < 5; i++) dup2(high[i], RECORDER_CORE + i);
    close_range(RECORDER_FD_END, ~0u, 0);
    char *const arguments[] = {(char[]){"tidegate-recorder"}, (char[]){"-"}, NULL};
    /* The leak checker needs ptrace, which the program has given up. */
    char *const environment[] = {(char[]){"ASAN_OPTIONS=detect_leaks=0"}, NULL};
    execve(path, arguments, environment);
    _exit(127);
}

static int program_wait(struct gateway *g) {
    int status = 0;
    ck_assert_int_eq(waitpid(g->pid, &status, 0), g->pid);
    g->pid = 0;
    return status;
}

static void gateway_make(struct gateway *g) {
    memset(g, 0, sizeof *g);
    g->place = place_make();
    g->state = memfd_create("state", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(g->state, sizeof(struct recorder_state)), 0);
    g->image = image_make("refuse", "program");
    struct stat st;
    struct policy p;
    fstat(g->image, &st);
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, g->image, 0);
    ck_assert_int_eq(policy_open(&p, map, (size_t)st.st_size), 0);
    g->policy = policy_id(&p);
    munmap(map, (size_t)st.st_size);
    for (int s = 0; s < SENDERS; s++) {
        int pair[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        g->senders[s] = (struct channel){.fd = pair[0]};
        g->ends[s] = pair[1];
    }
    program_start(g);
}

static void gateway_remove(struct gateway *g) {
    if (g->pid > 0) {
        kill(g->pid, SIGKILL);
        program_wait(g);
    }
    for (int s = 0; s < SENDERS; s++) {
        close(g->senders[s].fd);
        close(g->ends[s]);
    }
    close(g->state);
    close(g->image);
    place_remove(&g->place);
}

/* Whether the next message that waits is a LOG_STATE. */
static bool log_told(struct gateway *g, struct msg_log_state *ret) {
    if (channel_receive(&g->senders[CORE], &message,
                        PROTO_BIT(LOG_STATE) | PROTO_BIT(POLICY_USED)) <= 0 ||
        message.head.type != PROTO_LOG_STATE)
        return false;
    *ret = *(const struct msg_log_state *)proto_body(&message);
    return true;
}

/* Waits for a LOG_STATE: one comes every two seconds. False if none does, on a busy machine either. */
static bool log_state(struct gateway *g, struct msg_log_state *ret) {
    for (unsigned i = 0; i < 200; i++) {
        struct pollfd p = {.fd = g->senders[CORE].fd, .events = POLLIN};
        if (poll(&p, 1, 100) > 0 && log_told(g, ret)) return true;
    }
    return false;
}

/* Records in the file, as soon as there are so many; or as many as there are in the end. */
static size_t records_within(const struct gateway *g, size_t wanted) {
    size_t found = 0;
    for (unsigned i = 0; i < 10000 && found < wanted; i++) {
        usleep(2000);
        found = records_each(g->place.path, STORE_FILE, NULL, NULL);
    }
    return found;
}

/* ---- reading the log ----------------------------------------------------------------------- */

#define NAMES_MAX 200000

struct account {
    uint64_t records, sequence; /* the last one seen */
    uint64_t accounted[SENDERS]; /* messages in records or told as lost */
    uint64_t lost[SENDERS], lost_denied;
    uint8_t *seen; /* queries by number */
};

static void account_record(void *ctx, const json_t *r) {
    struct account *a = ctx;
    const char *kind = record_text_of(r, FIELD_KIND), *event = record_text_of(r, FIELD_EVENT);
    uint64_t count = record_number_of(r, FIELD_COUNT);
    uint64_t sequence = record_number_of(r, FIELD_SEQUENCE);
    ck_assert_uint_eq(sequence, a->sequence + 1);
    a->sequence = sequence;
    a->records++;
    if (strcmp(kind, "query") == 0) {
        unsigned number = 0;
        ck_assert_int_eq(sscanf(record_text_of(r, FIELD_NAME), "q%u.example", &number), 1);
        ck_assert_uint_lt(number, NAMES_MAX);
        ck_assert_msg(!a->seen[number], "query %u is there twice", number);
        a->seen[number] = 1;
        a->accounted[RESOLVER]++;
    } else if (strcmp(kind, "denied-packet") == 0) {
        a->accounted[CORE] += count;
    } else if (event != NULL && strcmp(event, "lost-records") == 0) {
        int from = strcmp(record_text_of(r, FIELD_PROCESS), "core") == 0 ? CORE : RESOLVER;
        a->accounted[from] += count;
        a->lost[from] += count;
    } else if (event != NULL && strcmp(event, "lost-denied") == 0) {
        a->accounted[CORE] += count;
        a->lost_denied += count;
    } else {
        a->accounted[CORE]++; /* flows, events */
    }
}

/* ---- tests --------------------------------------------------------------------------------- */

static void send_query(struct gateway *g, unsigned number, uint64_t *accepted) {
    char name[32];
    snprintf(name, sizeof name, "q%u.example", number);
    query_fill(proto_begin(&message, PROTO_QUERY, 0), g->policy, name);
    if (channel_send(&g->senders[RESOLVER], &message) == 0) ++*accepted;
}

START_TEST(runs_confined_and_stops) {
    struct gateway g;
    struct msg_log_state s;
    uint64_t accepted = 0;
    gateway_make(&g);
    ck_assert(log_state(&g, &s));
    ck_assert_uint_eq(s.ok, 1);
    for (unsigned i = 0; i < 100; i++) send_query(&g, i, &accepted);
    denied_fill(proto_begin(&message, PROTO_DENIED, 0), 25);
    ck_assert_int_eq(channel_send(&g.senders[CORE], &message), 0);
    flow_fill(proto_begin(&message, PROTO_FLOW, 0), g.policy);
    ck_assert_int_eq(channel_send(&g.senders[CORE], &message), 0);
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", (int)g.pid);
    ck_assert(log_state(&g, &s)); /* the next one: it has been through its loop */
    FILE *f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    ck_assert_ptr_nonnull(strstr(text, "CapEff:\t0000000000000000"));
    ck_assert_ptr_nonnull(strstr(text, "CapPrm:\t0000000000000000"));
    ck_assert_ptr_nonnull(strstr(text, "NoNewPrivs:\t1"));
    ck_assert_ptr_nonnull(strstr(text, "Seccomp:\t2"));
    kill(g.pid, SIGTERM);
    ck_assert_int_eq(program_wait(&g), 0);
    struct account a = {.seen = calloc(NAMES_MAX, 1)};
    records_each(g.place.path, STORE_FILE, account_record, &a);
    ck_assert_uint_eq(accepted, 100);
    ck_assert_uint_eq(a.accounted[RESOLVER], 100);
    ck_assert_uint_eq(a.accounted[CORE], 2);
    ck_assert_uint_eq(a.records, 102);
    free(a.seen);
    gateway_remove(&g);
}
END_TEST

/* With nothing to read, what is due by time still happens: several times, not once. */
START_TEST(goes_on_while_idle) {
    struct gateway g;
    struct msg_log_state s;
    gateway_make(&g);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert(log_state(&g, &s));
        ck_assert_uint_eq(s.ok, 1);
    }
    denied_fill(proto_begin(&message, PROTO_DENIED, 0), 25);
    ck_assert_int_eq(channel_send(&g.senders[CORE], &message), 0);
    ck_assert_uint_eq(records_within(&g, 1), 1);
    gateway_remove(&g);
}
END_TEST

/* One query, and its record is in the file at once, without waiting for a batch to fill or for what is
 * done every two seconds, of which LOG_STATE tells. */
START_TEST(record_is_written_promptly) {
    struct gateway g;
    struct msg_log_state s;
    uint64_t accepted = 0;
    gateway_make(&g);
    ck_assert(log_state(&g, &s));
    bool promptly = false;
    for (unsigned i = 1; i <= 5 && !promptly; i++) { /* a busy machine may stop either of us */
        while (log_told(&g, &s)) {}
        ck_assert(log_state(&g, &s));
        send_query(&g, i, &accepted);
        ck_assert_uint_eq(records_within(&g, i), i);
        promptly = !log_told(&g, &s);
    }
    ck_assert(promptly);
    gateway_remove(&g);
}
END_TEST

#define KILLS 25

START_TEST(killed_under_load_c49) {
    struct gateway g;
    uint64_t accepted[SENDERS] = {0}, tried[SENDERS] = {0};
    unsigned number = 0;
    gateway_make(&g);
    for (unsigned k = 0; k < KILLS; k++) {
        usec_t until = clock_now(&clock_system) + random_below(60) * USEC_PER_MSEC;
        while (clock_now(&clock_system) < until && number < NAMES_MAX - 1000) {
            send_query(&g, number++, &accepted[RESOLVER]);
            denied_fill(proto_begin(&message, PROTO_DENIED, 0), (uint16_t)(number % 50));
            accepted[CORE] += channel_send(&g.senders[CORE], &message) == 0;
            if (number % 16 == 0) usleep(300);
        }
        kill(g.pid, SIGKILL);
        program_wait(&g);
        program_start(&g);
        while (channel_receive(&g.senders[CORE], &message, PROTO_BIT(LOG_STATE)) > 0) continue;
    }
    struct msg_log_state s;
    ck_assert(log_state(&g, &s));
    for (unsigned i = 0; i < 100; i++) { /* until both channels take one: their numbers close the gaps */
        usleep(20000);
        uint64_t before = accepted[RESOLVER];
        send_query(&g, number++, &accepted[RESOLVER]);
        if (accepted[RESOLVER] > before) break;
    }
    for (unsigned i = 0; i < 20; i++) {
        denied_fill(proto_begin(&message, PROTO_DENIED, 0), 25);
        ck_assert_int_eq(channel_send(&g.senders[CORE], &message), 0);
    }
    flow_fill(proto_begin(&message, PROTO_FLOW, 0), g.policy);
    ck_assert_int_eq(channel_send(&g.senders[CORE], &message), 0);
    kill(g.pid, SIGTERM);
    ck_assert_int_eq(program_wait(&g), 0);
    tried[RESOLVER] = g.senders[RESOLVER].sent;
    tried[CORE] = g.senders[CORE].sent;
    struct account a = {.seen = calloc(NAMES_MAX, 1)};
    records_each(g.place.path, STORE_FILE, account_record, &a);
    fprintf(stderr,
            "%u kills: %llu queries tried, %llu taken, %llu told as lost; %llu packets tried, "
            "%llu told as lost\n",
            KILLS, (unsigned long long)tried[RESOLVER], (unsigned long long)accepted[RESOLVER],
            (unsigned long long)a.lost[RESOLVER], (unsigned long long)tried[CORE],
            (unsigned long long)(a.lost[CORE] + a.lost_denied));
    ck_assert_uint_gt(accepted[RESOLVER], 200);
    ck_assert_uint_eq(a.accounted[RESOLVER], tried[RESOLVER]);
    ck_assert_uint_eq(a.accounted[CORE], tried[CORE]);
    /* A kill costs at most the one message in the recorder's hands. */
    ck_assert_uint_le(a.lost[RESOLVER], tried[RESOLVER] - accepted[RESOLVER] + KILLS);
    free(a.seen);
    gateway_remove(&g);
}
END_TEST

START_TEST(garbage_on_both_channels) {
    struct gateway g;
    struct msg_log_state s;
    uint64_t accepted = 0;
    gateway_make(&g);
    ck_assert(log_state(&g, &s));
    uint8_t noise[2048];
    for (unsigned i = 0; i < 3000; i++) {
        size_t size = random_below(sizeof noise);
        random_bytes(noise, size);
        if (size >= sizeof(struct proto_head) && i % 2 == 0) {
            const struct proto_head head = {.magic = PROTO_MAGIC, .type = (uint16_t)(i % 40),
                                            .items = (uint16_t)(i % 3), .sequence = i};
            memcpy(noise, &head, sizeof head);
        }
        send(g.senders[i % SENDERS].fd, noise, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (i % 50 == 0) usleep(500);
    }
    usleep(50000);
    send_query(&g, 1, &accepted);
    kill(g.pid, SIGTERM);
    ck_assert_int_eq(program_wait(&g), 0);
    ck_assert_uint_gt(records_each(g.place.path, STORE_FILE, NULL, NULL), 0);
    gateway_remove(&g);
}
END_TEST

START_TEST(not_started_by_hand) {
    char path[512];
    program_path(path);
    pid_t pid = fork();
    if (pid == 0) {
        close_range(2, ~0u, 0);
        open("/dev/null", O_WRONLY);
        execl(path, "tidegate-recorder", (char *)NULL);
        _exit(127);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 2);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("recorder_program");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, runs_confined_and_stops);
    tcase_add_test(t, goes_on_while_idle);
    tcase_add_test(t, record_is_written_promptly);
    tcase_add_test(t, killed_under_load_c49);
    tcase_add_test(t, garbage_on_both_channels);
    tcase_add_test(t, not_started_by_hand);
    Suite *s = suite_create("recorder_program");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
