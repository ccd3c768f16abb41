/* main.c: tidegate-resolver: takes what the supervisor hands over, gives up everything else, runs. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "gateway/base/confine.h"
#include "gateway/base/log.h"
#include "gateway/proto/handover.h"
#include "resolver/shell.h"

#define FILES 8192 /* over the bounds of listeners and upstreams together */

static int check_handover(void) {
    for (int fd = RESOLVER_CORE; fd < RESOLVER_FD_END; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            log_error("descriptor %d was not handed over", fd);
            return -EBADF;
        }
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return 0;
}

static int run(void) {
    uv_loop_t loop;
    const struct shell_fds fds = {
        .core = RESOLVER_CORE,
        .recorder = RESOLVER_RECORDER,
        .image = RESOLVER_IMAGE,
        .sockets = {.udp = {RESOLVER_UDP4, RESOLVER_UDP6}, .tcp = {RESOLVER_TCP4, RESOLVER_TCP6}},
    };
    if (uv_loop_init(&loop) < 0) {
        log_error("no event loop");
        return EXIT_FAILURE;
    }
    struct shell *s = shell_new(&loop, &clock_system, &fds);
    /* Nothing of the network has been read yet: that begins in uv_run(). */
    if (!s || confine_syscalls(CONFINE_RESOLVER) < 0)
        return EXIT_FAILURE;
    log_note("ready");
    uv_run(&loop, UV_RUN_DEFAULT);
    return shell_failed(s) ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    bool debug = argc > 1 && strcmp(argv[1], "debug") == 0;
    log_start("tidegate-resolver", debug);
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        fprintf(stderr, "tidegate-resolver is started by tidegated, with descriptors handed over.\n");
        return 2;
    }
    if (check_handover() < 0 || confine_limits("tg-resolver", FILES) < 0)
        return EXIT_FAILURE;
    /* The supervisor has given it an identity of its own; whatever was left is dropped here. */
    if (confine_identity(getuid(), getgid(), NULL, 0) < 0)
        return EXIT_FAILURE;
    return run();
}
