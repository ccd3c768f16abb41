/* confine.h: what each process gives up once it has started (capabilities(7), seccomp(2),
 * prctl(2)). Each call logs the error and returns -errno; the caller must then exit.
 */
#ifndef GATEWAY_BASE_CONFINE_H
#define GATEWAY_BASE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Sets groups, gid and uid for good; keeps the capabilities of `keep` (CAP_* numbers, `count` of
 * them) in the permitted and effective sets and the bounding set, drops all others, and sets
 * no_new_privs. Works for uid == current uid too. */
int confine_identity(uid_t uid, gid_t gid, const int *keep, size_t count);

enum confine_profile {
    CONFINE_RESOLVER, /* sockets of AF_INET/AF_INET6, messages; no files, no exec */
    CONFINE_RECORDER, /* files relative to a directory it holds; no sockets made, no exec */
    CONFINE_CONTROL,  /* accepts on a socket it holds; no files, no exec */
    CONFINE_CORE,     /* netlink, messages, files below a directory it holds; no exec */
    CONFINE_LOADER,   /* files for reading, by any path; no sockets made, no exec */
};
/* Allow-list of system calls; any other call kills the process (SIGSYS). Processes without files get
 * EACCES when they read one, so whatever needs a file on first use must have been used before: time
 * zones, getservbyname(), json_object_seed(). */
int confine_syscalls(enum confine_profile profile);

/* RLIMIT_CORE 0, RLIMIT_NOFILE `files`, dumpable off, name shown in ps; and no io_uring, whose
 * operations pass by every filter. Call it before the event loop is made. */
int confine_limits(const char *name, unsigned long files);

#endif
