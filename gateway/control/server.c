/* server.c: connections of the control socket. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/control/control.h"

#define FROM_CORE                                                                                 \
    (PROTO_BIT(POLICY) | PROTO_BIT(STATUS) | PROTO_BIT(OPENINGS) | PROTO_BIT(RELOADED))
#define MESSAGES_A_TURN 64 /* then others get their turn */
#define GROUPS_MAX 1024
#define BACKLOG 16

/* ---- the end of a connection -------------------------------------------------------------------- */

static void connection_closed(uv_handle_t *h) {
    struct connection *k = h->data;
    if (--k->handles) return;
    struct connection **at = &k->control->connections;
    while (*at != k) at = &(*at)->next;
    *at = k->next;
    k->control->connection_count--;
    free(k);
}

static void connection_close(struct connection *k) {
    if (k->closing) return;
    k->closing = true;
    uv_close((uv_handle_t *)&k->pipe, connection_closed);
    uv_close((uv_handle_t *)&k->timer, connection_closed);
}

/* ---- writing ------------------------------------------------------------------------------------ */

struct outgoing {
    uv_write_t request;
    char *text;
};

static void connection_next_line(struct connection *k);

static void write_done(uv_write_t *w, int status) {
    struct outgoing *out = (struct outgoing *)w;
    struct connection *k = w->data;
    free(out->text);
    free(out);
    k->writing = false;
    if (k->closing) return;
    if (status < 0 || k->last) {
        connection_close(k);
    } else if (k->busy) {
        session_written(k);
    } else {
        connection_wait(k, CONTROL_IDLE_MSEC);
        connection_next_line(k);
        if (k->ended && !k->busy && !k->writing) connection_close(k);
    }
}

void connection_send_text(struct connection *k, char *text, size_t size) {
    struct outgoing *out = k->closing ? NULL : malloc(sizeof *out);
    if (!out) {
        free(text);
        connection_close(k);
        return;
    }
    *out = (struct outgoing){.request.data = k, .text = text};
    uv_buf_t data = uv_buf_init(text, (unsigned)size);
    k->writing = true;
    connection_wait(k, CONTROL_WRITE_MSEC);
    if (uv_write(&out->request, (uv_stream_t *)&k->pipe, &data, 1, write_done) == 0) return;
    free(text);
    free(out);
    connection_close(k);
}

void connection_send(struct connection *k, json_t *line) {
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(line);
    if (!text) {
        connection_close(k);
        return;
    }
    size_t length = strlen(text);
    text[length] = '\n'; /* in place of the NUL, which nobody needs any more */
    connection_send_text(k, text, length + 1);
}

void connection_fail(struct connection *k, const char *error, bool last) {
    k->last = last;
    if (last) uv_read_stop((uv_stream_t *)&k->pipe);
    k->ask = 0;
    k->listing = LISTING_NONE;
    connection_send(k, json_pack("{s:b, s:s}", "ok", 0, "error", error));
    connection_done(k);
}

void connection_done(struct connection *k) {
    k->busy = false; /* write_done() goes on with the next line */
}

/* ---- time --------------------------------------------------------------------------------------- */

static void connection_late(uv_timer_t *t) {
    struct connection *k = t->data;
    if (k->ask) connection_fail(k, "core does not answer in time", true);
    else connection_close(k); /* idle, or does not read */
}

void connection_wait(struct connection *k, unsigned msec) {
    if (!k->closing) uv_timer_start(&k->timer, connection_late, msec, 0);
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* At most one request at a time: what follows waits in `line`, then in the socket. */
static void connection_next_line(struct connection *k) {
    if (k->busy || k->writing || k->closing) return;
    char *newline = memchr(k->line, '\n', k->used);
    if (!newline) {
        if (k->used == sizeof k->line) connection_fail(k, "the line is too long", true);
        return;
    }
    char line[REQUEST_LINE_MAX];
    size_t size = (size_t)(newline - k->line);
    memcpy(line, k->line, size);
    k->used -= size + 1;
    memmove(k->line, newline + 1, k->used);
    k->busy = true;
    session_start(k, line, size);
}

static void read_room(uv_handle_t *h, size_t suggested, uv_buf_t *ret) {
    struct connection *k = h->data;
    (void)suggested;
    /* Without room libuv calls read_some() with UV_ENOBUFS. */
    *ret = uv_buf_init(k->line + k->used, (unsigned)(sizeof k->line - k->used));
}

static void read_some(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf) {
    struct connection *k = stream->data;
    (void)buf;
    if (got == UV_EOF && (k->busy || k->writing)) { /* half closed: the answers still go out */
        k->ended = true;
        uv_read_stop(stream);
        return;
    }
    /* UV_ENOBUFS: more than a line's worth ahead of the answers. None of our clients does that. */
    if (got < 0) {
        connection_close(k);
        return;
    }
    k->used += (size_t)got;
    connection_next_line(k);
}

/* ---- admission ---------------------------------------------------------------------------------- */

/* Root, members of the admin group, and our own user. The socket's mode says the same; this holds
 * should somebody change the mode. */
static bool peer_admitted(const struct control *c, int fd, uint32_t *ret_uid) {
    struct ucred peer;
    gid_t groups[GROUPS_MAX];
    socklen_t size = sizeof peer, groups_size = sizeof groups;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return false;
    *ret_uid = peer.uid;
    if (peer.uid == 0 || peer.uid == getuid()) return true;
    if (c->admin == 0) return false;
    if (peer.gid == c->admin) return true;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &groups_size) < 0) return false;
    for (size_t i = 0; i < groups_size / sizeof groups[0]; i++)
        if (groups[i] == c->admin) return true;
    return false;
}

/* Makes room: the connection that was silent for longest ends, so that those who only hold
 * connections keep nobody out. False when all are at work. */
static bool connection_evict(const struct control *c, const struct connection *newest) {
    struct connection *oldest = NULL; /* the list has the newest first */
    for (struct connection *k = c->connections; k; k = k->next)
        if (k != newest && !k->busy && !k->writing && !k->closing) oldest = k;
    if (oldest) connection_close(oldest);
    return oldest != NULL;
}

static void connection_new(uv_stream_t *listener, int status) {
    struct control *c = listener->data;
    uv_os_fd_t fd;
    if (status < 0) return;
    struct connection *k = calloc(1, sizeof *k);
    /* Without uv_accept() libuv would never call again; started afresh there may be memory. */
    if (!k) exit(1);
    k->control = c;
    k->next = c->connections;
    c->connections = k;
    c->connection_count++;
    k->handles = 2;
    uv_pipe_init(c->loop, &k->pipe, 0);
    uv_timer_init(c->loop, &k->timer);
    k->pipe.data = k->timer.data = k;
    if (uv_accept(listener, (uv_stream_t *)&k->pipe) < 0 ||
        uv_fileno((uv_handle_t *)&k->pipe, &fd) < 0) {
        connection_close(k);
    } else if (c->connection_count > CONTROL_CONNECTIONS_MAX && !connection_evict(c, k)) {
        connection_fail(k, "too many connections", true);
    } else if (!peer_admitted(c, fd, &k->uid)) {
        log_warn("control socket: uid %u is refused", (unsigned)k->uid);
        connection_fail(k, "only root and members of group tidegate may do this", true);
    } else {
        connection_wait(k, CONTROL_IDLE_MSEC);
        uv_read_start((uv_stream_t *)&k->pipe, read_room, read_some);
    }
}

/* ---- core --------------------------------------------------------------------------------------- */

static void core_readable(uv_poll_t *poll, int status, int events) {
    struct control *c = poll->data;
    struct proto_message m;
    (void)events;
    for (unsigned i = 0; status == 0 && i < MESSAGES_A_TURN; i++) {
        int got = channel_receive(&c->core, &m, FROM_CORE);
        if (got == 0) return;
        if (got < 0) status = got;
        else session_from_core(c, &m);
        for (unsigned f = 0; f < m.fd_count; f++)
            if (m.fds[f] >= 0) close(m.fds[f]);
    }
    if (status == 0) return;
    log_error("message from core: %s", strerror(-status));
    exit(1); /* whoever of the two is wrong, a fresh start is right */
}

int control_open(struct control *c, uv_loop_t *loop, int core, int image, int listener,
                 gid_t admin) {
    *c = (struct control){.loop = loop, .core = {.fd = core}, .admin = admin};
    /* A successor must not take answers to its predecessor's questions for its own. */
    random_bytes(&c->next_id, sizeof c->next_id);
    c->next_id |= 1;
    int error = control_adopt(c, image);
    if (error == 0) error = uv_pipe_init(loop, &c->listener, 0);
    c->listener.data = c->poll.data = c;
    if (error == 0) error = uv_pipe_open(&c->listener, listener);
    if (error == 0) error = uv_listen((uv_stream_t *)&c->listener, BACKLOG, connection_new);
    if (error == 0) error = uv_poll_init(loop, &c->poll, core);
    c->poll.data = c;
    if (error == 0) error = uv_poll_start(&c->poll, UV_READABLE, core_readable);
    if (error < 0) log_error("cannot start: %s", strerror(-error));
    return error;
}

void control_close(struct control *c) {
    for (struct connection *k = c->connections; k; k = k->next) connection_close(k);
    uv_close((uv_handle_t *)&c->listener, NULL);
    uv_close((uv_handle_t *)&c->poll, NULL);
}
