/* supervisor.h: tidegated, the small parent of all other processes.
 *
 * It reads no bytes from the network and no free text: it makes directories, sockets and pairs,
 * starts the processes with what is theirs, starts again what dies, runs the loader and keeps the
 * policy image in force. It holds both ends of every pair, so what was queued for a process that
 * died is read by its successor.
 */
#ifndef GATEWAY_SUPERVISOR_SUPERVISOR_H
#define GATEWAY_SUPERVISOR_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gateway/base/clock.h"
#include "gateway/policy/policy.h"
#include "gateway/proto/handover.h"
#include "gateway/proto/proto.h"

#define SUPERVISOR_EXIT_CONFIG 78 /* EX_CONFIG: no policy at all; units do not retry it */
#define SUPERVISOR_LOADS_MAX 8    /* reloads waiting their turn */

/* Pairs; end 0 belongs to core, of PAIR_RECORDS to the resolver. */
enum pair { PAIR_SUPERVISOR, PAIR_RESOLVER, PAIR_RECORDER, PAIR_CONTROL, PAIR_RECORDS, PAIR_COUNT };
enum { DNS_UDP4, DNS_UDP6, DNS_TCP4, DNS_TCP6, DNS_COUNT };

struct identity {
    uid_t uid;
    gid_t gid;
};

struct image { /* a sealed memfd and a checked view of it; fd -1: none */
    int fd;
    void *map;
    size_t size;
    struct policy policy;
};

struct child {
    pid_t pid;      /* 0: not running */
    usec_t started; /* monotonic, as all below */
    usec_t due;     /* when it is started again; 0: not planned */
    uint32_t restarts;
    uint32_t quick;     /* ends in a row, each soon after its start */
    bool discard;       /* ended by core: what it had queued for core is thrown away */
};

struct load { /* the loader while it runs; pid 0: it does not */
    pid_t pid;
    int image, report; /* memfds it writes to */
    uint64_t id;       /* as core asked; 0: SIGHUP or start */
    usec_t deadline;
};

struct supervisor {
    const char *config; /* path of gateway.yaml as given */
    bool debug;
    bool check; /* only load and report */
    struct identity users[PROCESS_COUNT];
    gid_t admin; /* GROUP_ADMIN; 0 when there is none */
    int binaries[PROCESS_COUNT];
    int signals; /* signalfd */
    int lock, policy_directory, core_directory, log_directory, record_state, listener;
    int dns[DNS_COUNT];
    int pairs[PAIR_COUNT][2];
    struct channel core; /* over pairs[PAIR_SUPERVISOR][1] */
    struct child children[PROCESS_LOADER]; /* all but the loader */
    struct load load;
    uint64_t waiting[SUPERVISOR_LOADS_MAX]; /* ids of loads asked for meanwhile */
    unsigned waiting_count;
    struct image current;   /* in force */
    struct image candidate; /* sent to core, COMMIT awaited */
    uint64_t candidate_id;
    bool stored; /* current is on disk */
    bool stopping, stopped;
    usec_t watchdog, watchdog_due; /* interval of the service manager's watchdog; 0: none */
};

/* users.c: who each process runs as. Logs, -errno. `base` 0: by name alone. */
int users_find(struct supervisor *s, uint32_t base);

/* binaries.c: opens the programs once, so that after an upgrade of the package a restarted child
 * still speaks the same messages as the rest. Logs, -errno. */
int binaries_open(struct supervisor *s);

/* folders.c: directories and the lock. Log, -errno. */
int folders_make(struct supervisor *s);
/* Whether both images name the same directories. */
bool folders_same(const struct policy *a, const struct policy *b);

/* sockets.c. Log, -errno. */
int sockets_open(struct supervisor *s);
/* Whether one of its ends was shut down: both ends stay useless then, whoever has them. */
bool pair_shut(const struct supervisor *s, enum pair pair);
/* Makes the pair anew. */
int pair_open(struct supervisor *s, enum pair pair);
void sockets_remove(const struct supervisor *s); /* the control socket's file */
/* A memfd that its receivers may seal; nothing can be executed from it. -errno. */
int memfd_make(const char *name);

/* image.c: a checked view of a memfd; seals it. -errno, -EBADMSG for a bad image; takes `fd`. */
int image_open(struct image *ret, int fd);
void image_close(struct image *i);

/* store.c: the image on disk, by digest, and which is in force. */
int store_save(struct supervisor *s);
/* The last good image of this configuration, for a start with a faulty one. -errno, quietly. */
int store_last(struct supervisor *s, struct image *ret);

/* child.c */
int child_start(struct supervisor *s, enum process p);
void child_ended(struct supervisor *s, enum process p, int status);
void child_kill(struct supervisor *s, enum process p);
/* In a child of the supervisor: identity, descriptors 3.., exec. Does not return. */
_Noreturn void child_become(const struct supervisor *s, enum process p, pid_t parent,
                            const int *fds, unsigned count, const char *const *arguments);

/* load.c: the loader. */
/* Asks for a load; runs at once or after the ones before it. */
void load_ask(struct supervisor *s, uint64_t id);
/* The loader ended (status as of waitpid), or must be (status -1: time is up). */
void load_ended(struct supervisor *s, int status);
/* Core answered. */
void load_commit(struct supervisor *s, uint64_t id, bool taken);
/* Core died, or was started: loads wait while there is no core. */
void load_forget(struct supervisor *s);
void load_next(struct supervisor *s);
/* The load at start, waits for it: 0, -EINVAL with the faults on standard error. */
int load_first(struct supervisor *s, struct image *ret);

/* loop.c */
int loop_run(struct supervisor *s);
void stop_all(struct supervisor *s);

/* notify.c: sd_notify(3) without the library. Quiet when there is no service manager. */
void notify(const char *state);
usec_t notify_watchdog(void);

#endif
