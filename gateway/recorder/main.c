/* main.c: tidegate-recorder: descriptors, confinement and the event loop around recorder.h. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "gateway/base/confine.h"
#include "gateway/base/log.h"
#include "gateway/proto/handover.h"
#include "gateway/recorder/recorder.h"

struct shell {
    uv_loop_t loop;
    uv_poll_t polls[SENDER_COUNT];
    bool polling[SENDER_COUNT];
    uv_timer_t timer;
    uv_check_t check;
    uv_signal_t term;
    struct recorder *recorder;
    int status;
};

static void on_channel(uv_poll_t *poll, int status, int events);

/* A channel that is not wanted is not polled: its messages wait in it. */
static void poll_wanted(struct shell *s) {
    for (enum sender from = 0; from < SENDER_COUNT; from++) {
        bool want = recorder_wants(s->recorder, from);
        if (want == s->polling[from]) continue;
        s->polling[from] = want;
        if (want)
            uv_poll_start(&s->polls[from], UV_READABLE | UV_DISCONNECT, on_channel);
        else
            uv_poll_stop(&s->polls[from]);
    }
}

static void on_channel(uv_poll_t *poll, int status, int events) {
    struct shell *s = poll->data;
    enum sender from = (enum sender)(poll - s->polls);
    int e = status < 0 ? status : recorder_receive(s->recorder, from);
    if (e >= 0 && !(events & UV_DISCONNECT)) return;
    /* The supervisor keeps the other end open, so this is the end of the whole gateway. */
    log_error("channel to %s is gone%s%s", from == SENDER_CORE ? "core" : "resolver",
              e < 0 ? ": " : "", e < 0 ? strerror(-e) : "");
    s->status = 1;
    uv_stop(&s->loop);
}

static void on_time(uv_timer_t *timer);

/* Before the loop sleeps: what is due is done, what was read is written in one go, and the timer is
 * set to end the sleep. The timer alone must not decide what is due: setting it anew in every turn
 * can put it off for ever. */
static void turn_end(struct shell *s) {
    if (recorder_wait(s->recorder) == 0)
        recorder_tick(s->recorder);
    else
        recorder_flush(s->recorder);
    poll_wanted(s);
    uint64_t msec = recorder_wait(s->recorder) / USEC_PER_MSEC + 1;
    uv_timer_start(&s->timer, on_time, msec, 0);
}

/* libuv runs its timers just before it sleeps, without coming by on_check() in between. */
static void on_time(uv_timer_t *timer) {
    turn_end(timer->data);
}

/* In every turn of the loop, after all messages of the turn. */
static void on_check(uv_check_t *check) {
    turn_end(check->data);
}

static void on_term(uv_signal_t *term, int number) {
    struct shell *s = term->data;
    (void)number;
    uv_stop(&s->loop);
}

static int loop_make(struct shell *s) {
    static const int fds[SENDER_COUNT] = {RECORDER_CORE, RECORDER_RESOLVER};
    int e = uv_loop_init(&s->loop);
    if (e == 0) e = uv_timer_init(&s->loop, &s->timer);
    if (e == 0) e = uv_check_init(&s->loop, &s->check);
    if (e == 0) e = uv_signal_init(&s->loop, &s->term);
    for (enum sender from = 0; from < SENDER_COUNT && e == 0; from++) {
        e = uv_poll_init(&s->loop, &s->polls[from], fds[from]);
        s->polls[from].data = s;
    }
    s->timer.data = s->check.data = s->term.data = s;
    if (e == 0) e = uv_check_start(&s->check, on_check);
    if (e == 0) e = uv_signal_start(&s->term, on_term, SIGTERM);
    if (e == 0) e = uv_timer_start(&s->timer, on_time, 0, 0);
    return e;
}

/* Everything that needs a system call which is denied later comes before confine_syscalls(). */
static int start(struct shell *s) {
    char host[IMAGES_HOST_MAX] = "";
    const struct recorder_setup setup = {
        .host = host,
        .clock = &clock_system,
        .channels = {[SENDER_CORE] = RECORDER_CORE, [SENDER_RESOLVER] = RECORDER_RESOLVER},
        .image = RECORDER_IMAGE,
        .directory = RECORDER_DIRECTORY,
        .state = RECORDER_STATE,
    };
    if (gethostname(host, sizeof host - 1) < 0) host[0] = '\0';
    umask(0027);
    if (confine_limits("tg-recorder", 64) < 0) return -1;
    if (confine_identity(getuid(), getgid(), NULL, 0) < 0) return -1;
    int e = loop_make(s);
    if (e < 0) {
        log_error("event loop: %s", uv_strerror(e));
        return -1;
    }
    if (confine_syscalls(CONFINE_RECORDER) < 0) return -1;
    e = recorder_start(s->recorder, &setup);
    if (e < 0) {
        log_error("cannot start: %s", strerror(-e));
        return -1;
    }
    poll_wanted(s);
    return 0;
}

int main(int argc, char **argv) {
    log_start("tidegate-recorder", argc > 1 && strcmp(argv[1], "debug") == 0);
    if (argc != 2 || fcntl(RECORDER_STATE, F_GETFD) < 0) {
        fprintf(stderr, "tidegate-recorder is started by tidegated(8)\n");
        return 2;
    }
    struct shell *s = calloc(1, sizeof *s);
    if (s != NULL) s->recorder = calloc(1, sizeof *s->recorder);
    if (s == NULL || s->recorder == NULL) {
        log_error("no memory");
        return 1;
    }
    if (start(s) < 0) return 1;
    uv_run(&s->loop, UV_RUN_DEFAULT);
    recorder_stop(s->recorder);
    recorder_free(s->recorder);
    int status = s->status;
    free(s->recorder);
    free(s);
    return status;
}
