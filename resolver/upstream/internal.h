/* internal.h: what the files of upstream/ share. Private to the folder.
 *
 *   upstream.c  questions: when to try which server, when to give up
 *   attempt.c   one try: a socket, UDP or TCP
 *   server.c    which server is best
 */
#ifndef RESOLVER_UPSTREAM_INTERNAL_H
#define RESOLVER_UPSTREAM_INTERNAL_H

#include <stdbool.h>
#include <sys/queue.h>

#include "resolver/upstream/server.h"
#include "resolver/upstream/upstream.h"

#define ATTEMPTS_MAX 12 /* of one question */
#define QUERY_MAX 512   /* octets of a query of ours; a name and a few bytes */

struct question;

/* How an attempt ended, when it did not end with an answer. */
enum attempt_end { END_NETWORK, END_TIMEOUT, END_ERROR };

struct attempt {
    uv_poll_t poll;
    struct question *question; /* NULL: closed, kept until libuv is done with it */
    struct upstream *upstream;
    int fd;
    bool tcp, connected, probe, failed;
    unsigned server;
    uint32_t generation;
    struct addr address;
    uint16_t port, id;
    usec_t sent;
    uint8_t *stream; /* TCP: what is to be sent, then what was received, with the length prefix */
    size_t used, done;
};

struct question {
    TAILQ_ENTRY(question) parked; /* or lingering */
    struct question *next; /* hash chain */
    uv_timer_t timer;
    struct upstream *upstream;
    uint64_t id;
    struct name name;
    uint16_t type;
    bool is_parked, lingers;
    bool over; /* has its result; an open probe may linger */
    usec_t started;
    uint32_t tried;     /* servers of this round */
    uint32_t generation;
    unsigned rounds;    /* servers have all been tried this many times */
    enum attempt_end last;
    struct attempt *attempts[ATTEMPTS_MAX]; /* open ones */
    unsigned count;
    unsigned tries; /* attempts made, at most ATTEMPTS_MAX */
};

#define QUESTION_HASH 1024

struct upstream {
    uv_loop_t *loop;
    struct clock clock;
    struct upstream_limits limits;
    struct upstream_events events;
    struct servers servers;
    struct arena *arena;
    struct question *table[QUESTION_HASH];
    TAILQ_HEAD(question_list, question) parked, lingering;
    unsigned sockets, handles;
    bool closing;
    struct msg_stats stats;
    uint8_t buffer[WIRE_MAX];
};

/* attempt.c: opens a socket to the server and sends. NULL: it could not be; *ret_end says why. */
struct attempt *attempt_start(struct question *q, unsigned server, bool tcp,
                              enum attempt_end *ret_end);
/* Closes the socket; the struct goes when libuv is done with it. */
void attempt_close(struct attempt *a);
/* The server it was made to, or NULL when the configuration has changed since. */
struct server *attempt_server(const struct attempt *a);

/* upstream.c: what attempts report. */
void question_answered(struct attempt *a, const struct wire_answer *answer);
void question_failed(struct attempt *a, enum attempt_end end);
void upstream_unref(struct upstream *u); /* a handle has been closed */

#endif
