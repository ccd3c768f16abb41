/* handover.h: which descriptor numbers each process finds open when the supervisor starts it, and
 * which arguments it gets. All others are closed.
 *
 * Every process: argv[1] is a string of flags, "debug" or "-". Standard error is the supervisor's.
 * The image is the policy in force at the time of the start (sealed memfd).
 */
#ifndef GATEWAY_PROTO_HANDOVER_H
#define GATEWAY_PROTO_HANDOVER_H

#include <stdint.h>

enum { /* tidegate-core: argv[2..5] are the uids, in decimal, of resolver, recorder, control, loader */
    CORE_SUPERVISOR = 3, CORE_RESOLVER, CORE_RECORDER, CORE_CONTROL, CORE_IMAGE,
    CORE_TUN,   /* /dev/net/tun, for the self-test */
    CORE_STATE, /* O_PATH of state_directory/core, which core owns: attribution marks */
    CORE_FD_END
};
enum { /* tidegate-resolver; UDP and TCP sockets are bound, TCP ones listen, all non-blocking */
    RESOLVER_CORE = 3, RESOLVER_RECORDER, RESOLVER_IMAGE, RESOLVER_UDP4, RESOLVER_UDP6,
    RESOLVER_TCP4, RESOLVER_TCP6, RESOLVER_FD_END
};
enum { /* tidegate-recorder */
    RECORDER_CORE = 3, RECORDER_RESOLVER, RECORDER_IMAGE,
    RECORDER_DIRECTORY, /* O_PATH of log_directory, which the recorder owns */
    RECORDER_STATE,     /* memfd of struct recorder_state: outlives the recorder */
    RECORDER_FD_END
};
enum { /* tidegate-control; the listener is bound to runtime_directory/control.sock;
          argv[2] is the gid of GROUP_ADMIN, 0 if there is no such group */
    CONTROL_CORE = 3, CONTROL_IMAGE, CONTROL_LISTENER, CONTROL_FD_END
};
enum { /* tidegate-loader: argv[2] is the path of gateway.yaml */
    LOADER_IMAGE = 3, /* memfd to write the image to */
    LOADER_REPORT,    /* memfd for the faults, one a line */
    LOADER_FD_END
};
#define LOADER_EXIT_FAULTS 65 /* EX_DATAERR: the report says what; image is empty */

/* What a recorder leaves its successor, in RECORDER_STATE. A record is put into `queue` as soon as
 * its message was read, and leaves it when it is in the file; a successor goes on from there, so
 * that a killed recorder costs at most the message in its hands. All numbers are in one of two
 * slots: the next values are put into the other one, then `current` names it. Zero: a fresh start. */
#define RECORDER_QUEUE_MAX (1u << 20)
struct recorder_slot {
    uint64_t sequence;               /* of the last record in the queue or, if empty, the file */
    uint64_t queue_first, queue_end; /* whole lines queue[first..end) are not known to be written */
    uint64_t done_core, done_resolver; /* proto_head.sequence of the last message dealt with */
    uint64_t held;                   /* denied packets counted in memory, not in a record yet */
    uint64_t lost_core, lost_resolver, lost_denied; /* not yet told by a loss record */
    uint64_t written, lost;          /* in all */
    uint64_t failed_since, failed_error; /* realtime and errno while the log cannot be written */
};
struct recorder_state {
    uint32_t current, zero;
    struct recorder_slot slots[2];
    uint8_t queue[RECORDER_QUEUE_MAX];
};

/* Processes run as these users; numbers from --uid-base (in this order) when they do not exist. */
#define USER_CORE "tidegate-core"
#define USER_RESOLVER "tidegate-resolver"
#define USER_RECORDER "tidegate-recorder"
#define USER_CONTROL "tidegate-control"
#define USER_LOADER "tidegate-loader"
#define GROUP_ADMIN "tidegate" /* may use the control socket and read the log */

#endif
