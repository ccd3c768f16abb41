/* control.h: the control socket's process: lines of JSON in, lines of JSON out.
 *
 *   server.c   connections: admission, lines, writes, time-outs
 *   session.c  one request: asks core or the image, answers, page by page where it is long
 *   request.c, explain.c, status.c, rrtype.c   pure
 *
 * Nothing here blocks or grows: connections, lines and pages are bounded, and the next page is
 * asked for only when the reader has taken the one before.
 */
#ifndef GATEWAY_CONTROL_CONTROL_H
#define GATEWAY_CONTROL_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "gateway/control/request.h"
#include "gateway/policy/policy.h"
#include "gateway/proto/proto.h"

#define CONTROL_CONNECTIONS_MAX 32
#define CONTROL_IDLE_MSEC 60000   /* between requests */
#define CONTROL_CORE_MSEC 5000    /* for core's answer */
#define CONTROL_RELOAD_MSEC 90000 /* for a reload: the loader's and core's time limits */
#define CONTROL_WRITE_MSEC 10000  /* a reader that takes nothing */

struct connection {
    struct control *control;
    struct connection *next;
    uv_pipe_t pipe;
    uv_timer_t timer;
    unsigned handles; /* still open */
    bool closing;
    bool last;        /* close after what is being written */
    bool ended;       /* the peer sends no more: close after the last answer */
    bool writing;
    bool busy;        /* a request is under way */
    uint32_t uid;     /* of the peer */
    char line[REQUEST_LINE_MAX];
    size_t used;
    /* the request under way, see session.c */
    struct request request;
    uint64_t ask; /* id of the answer awaited from core; 0: none */
    uint64_t cursor, count;
    uint32_t next_static;
    enum { LISTING_NONE, LISTING_LIVE, LISTING_STATIC } listing;
};

struct control {
    uv_loop_t *loop;
    uv_pipe_t listener;
    uv_poll_t poll;
    struct channel core;
    gid_t admin; /* group that may connect besides root; 0: none */
    uint64_t next_id;
    void *map; /* the image in force */
    size_t map_size;
    struct policy policy;
    struct connection *connections;
    unsigned connection_count;
};

/* Takes the three descriptors. 0 or -errno, logged. */
int control_open(struct control *c, uv_loop_t *loop, int core, int image, int listener, gid_t admin);
/* Closes every handle; the loop ends when that is done. */
void control_close(struct control *c);
/* Maps and checks an image and makes it the one in force. Takes `fd`. */
int control_adopt(struct control *c, int fd);

/* server.c, for session.c. Sends one object as a line, or `text` as it is; takes both. */
void connection_send(struct connection *k, json_t *line);
void connection_send_text(struct connection *k, char *text, size_t size);
void connection_fail(struct connection *k, const char *error, bool last);
/* The request is answered: the next one may come. */
void connection_done(struct connection *k);
void connection_wait(struct connection *k, unsigned msec);

/* session.c */
void session_start(struct connection *k, const char *line, size_t size);
void session_written(struct connection *k); /* the last write is done: next page */
void session_from_core(struct control *c, struct proto_message *m);

/* status.c */
json_t *status_json(const struct msg_status *m, const struct policy *p, usec_t now);

#endif
