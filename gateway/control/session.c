/* session.c: one request from its line to its last answer. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/control/control.h"
#include "gateway/control/explain.h"

#define PAGE 32                 /* openings a page, as msg_ask allows */
#define REPORT_LINES_MAX 1000   /* of a refused policy, passed on to the asker */
#define REPORT_LINE_MAX 1000

/* ---- asking core ------------------------------------------------------------------------------ */

static void session_ask(struct connection *k, enum proto_type type) {
    struct control *c = k->control;
    struct proto_message m;
    struct msg_ask *ask = proto_begin(&m, type, 0);
    ask->id = c->next_id++;
    ask->uid = k->uid;
    if (type == PROTO_ASK_OPENINGS) {
        ask->cursor = k->cursor;
        ask->limit = PAGE;
        ask->client = k->request.client;
        ask->remote = k->request.remote;
    }
    int error = channel_send(&c->core, &m);
    if (error < 0) {
        connection_fail(k, error == -EAGAIN ? "core is behind, try again" : strerror(-error), true);
        return;
    }
    k->ask = ask->id;
    connection_wait(k, type == PROTO_ASK_RELOAD ? CONTROL_RELOAD_MSEC : CONTROL_CORE_MSEC);
}

/* ---- openings, page by page --------------------------------------------------------------------- */

struct page { /* lines of one page, in memory that the write takes over */
    char *text;
    size_t size, room;
    unsigned lines;
    uint32_t next_static;
    bool failed;
};

static void page_add(struct page *g, json_t *line) {
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    size_t length = text ? strlen(text) : 0;
    json_decref(line);
    if (text && g->room - g->size < length + 1) {
        size_t room = (g->room + length + 1) * 2;
        char *more = realloc(g->text, room);
        if (more) {
            g->text = more;
            g->room = room;
        }
    }
    if (!text || g->room - g->size < length + 1) {
        g->failed = true;
    } else {
        memcpy(g->text + g->size, text, length);
        g->size += length;
        g->text[g->size++] = '\n';
        g->lines++;
    }
    free(text);
}

static void page_send(struct connection *k, struct page *g) {
    if (g->failed) {
        free(g->text);
        connection_fail(k, "out of memory", true);
        return;
    }
    k->count += g->lines;
    if (g->size) {
        connection_send_text(k, g->text, g->size); /* goes on in session_written() */
    } else {
        free(g->text);
        session_written(k);
    }
}

static json_t *opening_json(const struct control *c, const struct msg_opening *o) {
    char text[NAME_TEXT_MAX], until[TIME_TEXT_MAX];
    json_t *line = json_object();
    usec_t end = clock_realtime(&clock_system) + o->remaining * USEC_PER_SEC;
    json_object_set_new(line, "static", json_false());
    json_object_set_new(line, "client", json_string(addr_format(&o->client, text)));
    json_object_set_new(line, "remote", json_string(addr_format(&o->remote, text)));
    json_object_set_new(line, "protocol", json_string(explain_protocol(o->protocol)));
    json_object_set_new(line, "port", json_integer(o->port));
    bool named = o->name.length && name_to_text(&o->name, text, sizeof text) >= 0;
    json_object_set_new(line, "name", named ? json_string(text) : json_null());
    json_object_set_new(line, "remaining", json_integer(o->remaining));
    json_object_set_new(line, "until", json_string(time_format(end, until)));
    explain_owner(&c->policy, line, o->agent, o->endpoint);
    json_object_set_new(line, "mark", json_integer(o->mark));
    return line;
}

static void session_openings(struct connection *k, struct proto_message *m) {
    const struct msg_openings *head = proto_body(m);
    struct page g = {0};
    for (unsigned i = 0; i < m->head.items; i++)
        page_add(&g, opening_json(k->control, proto_item(m, i)));
    k->cursor = head->cursor;
    if (!head->cursor) k->listing = LISTING_STATIC;
    page_send(k, &g);
}

static int page_static(void *ctx, uint32_t index, json_t *opening) {
    struct page *g = ctx;
    page_add(g, opening);
    g->next_static = index + 1;
    return g->failed || g->lines == PAGE;
}

static void session_end(struct connection *k) {
    json_t *end = json_pack("{s:b, s:I}", "ok", 1, "count", (json_int_t)k->count);
    if (k->request.op == OP_WHY)
        json_object_update_new(end, explain_address(&k->control->policy, &k->request.remote));
    k->listing = LISTING_NONE;
    connection_send(k, end);
    connection_done(k);
}

static void session_statics(struct connection *k) {
    struct page g = {.next_static = k->next_static};
    int more = explain_statics(&k->control->policy, &k->request.client, &k->request.remote,
                               k->next_static, page_static, &g);
    k->next_static = more ? g.next_static : UINT32_MAX;
    if (g.size || g.failed) {
        page_send(k, &g);
        return;
    }
    session_end(k);
}

void session_written(struct connection *k) {
    if (k->listing == LISTING_LIVE) session_ask(k, PROTO_ASK_OPENINGS);
    else if (k->listing == LISTING_STATIC) session_statics(k);
}

/* ---- reload ------------------------------------------------------------------------------------- */

/* One line of a report, fit for JSON and for a terminal. */
static json_t *report_line(const char *at, size_t length) {
    char line[REPORT_LINE_MAX] = "";
    if (length > sizeof line) length = sizeof line;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)at[i];
        line[i] = c < 0x20 || c == 0x7f ? '?' : at[i];
    }
    json_t *text = json_stringn(line, length);
    if (text) return text;
    for (size_t i = 0; i < length; i++) /* not UTF-8, or cut within a character */
        if ((unsigned char)line[i] >= 0x80) line[i] = '?';
    return json_stringn(line, length);
}

/* Maps what a sealed memfd holds; nobody can shorten it meanwhile. */
static void *sealed_map(int fd, size_t *ret_size) {
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_WRITE)) return NULL;
    if (fstat(fd, &st) < 0 || st.st_size <= 0) return NULL;
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) return NULL;
    *ret_size = (size_t)st.st_size;
    return map;
}

static json_t *report_json(int fd) {
    json_t *lines = json_array();
    size_t size;
    char *text = sealed_map(fd, &size);
    if (!text) return lines;
    for (const char *at = text, *end = text + size;
         at < end && json_array_size(lines) < REPORT_LINES_MAX;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        json_array_append_new(lines, report_line(at, length));
        at += length + 1;
    }
    munmap(text, size);
    return lines;
}

static void session_reloaded(struct connection *k, const struct msg_reloaded *m, int report) {
    char digest[POLICY_DIGEST_TEXT_MAX];
    const struct policy *p = &k->control->policy;
    json_t *o = json_object();
    json_object_set_new(o, "ok", json_boolean(m->ok));
    if (!m->ok)
        json_object_set_new(o, "error",
                            json_string(m->faults ? "the policy was refused; the last good one stays"
                                                  : "core could not take it, its log says why; "
                                                    "the last good policy stays"));
    json_object_set_new(o, "policy",
                        m->policy == policy_id(p)
                            ? json_string(policy_digest_text(p, digest))
                            : json_sprintf("%016llx", (unsigned long long)m->policy));
    json_object_set_new(o, "faults", json_integer(m->faults));
    json_object_set_new(o, "openings_revoked", json_integer((json_int_t)m->openings_revoked));
    json_object_set_new(o, "flows_revoked", json_integer((json_int_t)m->flows_revoked));
    json_object_set_new(o, "report", report_json(report));
    connection_send(k, o);
    connection_done(k);
}

/* ---- core's messages ---------------------------------------------------------------------------- */

int control_adopt(struct control *c, int fd) {
    size_t size;
    struct policy p;
    void *map = sealed_map(fd, &size);
    close(fd);
    if (!map) return -EBADMSG;
    if (policy_open(&p, map, size) < 0) {
        munmap(map, size);
        return -EBADMSG;
    }
    if (c->map) munmap(c->map, c->map_size);
    c->map = map;
    c->map_size = size;
    c->policy = p;
    return 0;
}

static void control_policy(struct control *c, struct proto_message *m) {
    struct proto_message answer;
    struct msg_policy *used = proto_begin(&answer, PROTO_POLICY_USED, 0);
    int fd = m->fds[0];
    m->fds[0] = -1;
    int error = control_adopt(c, fd);
    if (error < 0) log_error("the policy image from core is not valid; the last one stays");
    /* A listing of the old image's address endpoints would go on at the wrong place. */
    for (struct connection *k = c->connections; k && error == 0; k = k->next)
        if (k->listing != LISTING_NONE && k->next_static) k->next_static = UINT32_MAX;
    used->policy = policy_id(&c->policy);
    if (channel_send(&c->core, &answer) < 0) log_warn("core is behind: it was not told the policy");
}

static struct connection *session_find(struct control *c, uint64_t ask) {
    for (struct connection *k = c->connections; k; k = k->next)
        if (k->ask == ask && !k->closing) return k;
    return NULL;
}

void session_from_core(struct control *c, struct proto_message *m) {
    struct connection *k;
    if (m->head.type == PROTO_POLICY) {
        control_policy(c, m);
        return;
    }
    /* All other bodies start with the id. One that nobody waits for has timed out. */
    k = session_find(c, *(const uint64_t *)proto_body(m));
    if (!k) return;
    k->ask = 0;
    if (m->head.type == PROTO_STATUS && k->request.op == OP_STATUS) {
        connection_send(k, status_json(proto_body(m), &c->policy, clock_realtime(&clock_system)));
        connection_done(k);
    } else if (m->head.type == PROTO_OPENINGS && k->listing == LISTING_LIVE) {
        session_openings(k, m);
    } else if (m->head.type == PROTO_RELOADED && k->request.op == OP_RELOAD) {
        session_reloaded(k, proto_body(m), m->fds[0]);
    } else {
        connection_fail(k, "core gave an answer to another question", true);
    }
}

/* ---- requests ----------------------------------------------------------------------------------- */

static void session_explain(struct connection *k) {
    const struct request *r = &k->request;
    json_t *o = explain_decision(&k->control->policy, &r->client, &r->name, r->type);
    if (o) json_object_set_new(o, "ok", json_true());
    connection_send(k, o);
    connection_done(k);
}

void session_start(struct connection *k, const char *line, size_t size) {
    char error[REQUEST_ERROR_MAX];
    if (request_parse(line, size, &k->request, error) < 0) {
        connection_fail(k, error, true);
        return;
    }
    k->cursor = k->count = 0;
    k->next_static = 0;
    switch (k->request.op) {
    case OP_STATUS: session_ask(k, PROTO_ASK_STATUS); break;
    case OP_RELOAD: session_ask(k, PROTO_ASK_RELOAD); break;
    case OP_OPENINGS:
    case OP_WHY:
        k->listing = LISTING_LIVE;
        session_ask(k, PROTO_ASK_OPENINGS);
        break;
    case OP_EXPLAIN: session_explain(k); break;
    case OP_VERSION:
        connection_send(k, json_pack("{s:b, s:s}", "ok", 1, "version", TIDEGATE_VERSION));
        connection_done(k);
        break;
    }
}
