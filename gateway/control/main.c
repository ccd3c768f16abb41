/* main.c: tidegate-control, started by the supervisor. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/base/confine.h"
#include "gateway/base/log.h"
#include "gateway/control/control.h"
#include "gateway/proto/handover.h"

#define FILES_MAX 128 /* 32 connections, the image and the loop's own */

int main(int argc, char **argv) {
    uv_loop_t loop;
    struct control control;
    size_t seed;
    if (argc != 3) {
        fputs("tidegate-control is started by tidegated(8)\n", stderr);
        return 2;
    }
    log_start("tidegate-control", strcmp(argv[1], "debug") == 0);
    if (confine_limits("tidegate-control", FILES_MAX) < 0 ||
        confine_identity(getuid(), getgid(), NULL, 0) < 0)
        return 1;
    signal(SIGPIPE, SIG_IGN);
    /* Else jansson would open /dev/urandom at the first object, which is forbidden by then. */
    random_bytes(&seed, sizeof seed);
    json_object_seed(seed | 1);
    if (uv_loop_init(&loop) < 0 ||
        control_open(&control, &loop, CONTROL_CORE, CONTROL_IMAGE, CONTROL_LISTENER,
                     (gid_t)strtoul(argv[2], NULL, 10)) < 0 ||
        confine_syscalls(CONFINE_CONTROL) < 0)
        return 1;
    uv_run(&loop, UV_RUN_DEFAULT);
    return 1; /* it runs until it is ended */
}
