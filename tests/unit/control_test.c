/* control_test.c: the control process over a real socket, with a core played by the test. */
#include "tests/unit/control_rig.h"

/* ---- cases ------------------------------------------------------------------------------------------- */

START_TEST(version_again_and_again) {
    int fd = client();
    for (unsigned i = 0; i < 100; i++) expect_version(fd);
    close(fd);
}
END_TEST

static json_t *explain(int fd, const char *client_text, const char *name, const char *type) {
    char line[512];
    snprintf(line, sizeof line,
             "{\"op\":\"explain\",\"client\":\"%s\",\"name\":\"%s\",\"type\":\"%s\"}\n",
             client_text, name, type);
    ask(fd, line);
    json_t *o = answer(fd);
    ck_assert(json_is_true(json_object_get(o, "ok")));
    return o;
}

START_TEST(explain_decides) {
    static const struct {
        const char *client, *name, *type, *decision, *reason;
        size_t opens;
    } cases[] = {
        {"10.77.1.17", "api.search.example", "A", "allow", "allowed", 1},
        {"10.77.1.17", "API.Search.Example.", "a", "allow", "allowed", 1},
        {"fd77:1::11", "x.cdn.search.example", "AAAA", "allow", "allowed", 1},
        {"fd77:1::11", "x.cdn.search.example", "A", "allow", "allowed", 1},
        {"10.77.1.17", "7.100.51.198.in-addr.arpa", "PTR", "deny", "ptr-unknown", 0},
        {"10.77.1.17", "search.example", "A", "deny", "not-listed", 0},
        {"10.77.1.17", "a.pastebin.example", "A", "deny", "deny-list", 0},
        {"192.0.2.1", "api.search.example", "A", "deny", "unknown-client", 0},
        {"10.77.1.17", "api.search.example", "HTTPS", "deny", "type-bypass", 0},
        {"10.77.1.17", "api.search.example", "TYPE65280", "deny", "type-not-listed", 0},
        {"10.77.1.17", "use-application-dns.net", "A", "deny", "canary", 0},
    };
    int fd = client();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *o = explain(fd, cases[i].client, cases[i].name, cases[i].type);
        ck_assert_msg(!strcmp(text_in(o, "decision"), cases[i].decision), "%zu", i);
        ck_assert_msg(!strcmp(text_in(o, "reason"), cases[i].reason), "%zu: %s", i,
                      text_in(o, "reason"));
        ck_assert_uint_eq(json_array_size(json_object_get(o, "opens")), cases[i].opens);
        json_decref(o);
    }
    json_t *o = explain(fd, "10.77.1.17", "x.cdn.search.example", "A");
    json_t *opens = json_array_get(json_object_get(o, "opens"), 0);
    ck_assert_str_eq(text_in(o, "agent"), "research");
    ck_assert_str_eq(text_in(o, "tool"), "web-search@1.4.2");
    ck_assert_str_eq(text_in(o, "mode"), "enforce");
    ck_assert(json_is_null(json_object_get(o, "note")));
    ck_assert_ptr_nonnull(strstr(text_in(opens, "rule"), "web-search.yaml:7"));
    ck_assert_str_eq(text_in(opens, "protocol"), "tcp");
    ck_assert_str_eq(text_in(opens, "data"), "internal");
    json_t *ports = json_object_get(opens, "ports");
    ck_assert_int_eq(json_integer_value(json_array_get(ports, 0)), 8443);
    ck_assert_int_eq(json_integer_value(json_array_get(ports, 1)), 9443);
    json_decref(o);
    o = explain(fd, "10.77.1.17", "x.cdn.search.example", "AAAA");
    ck_assert_str_eq(text_in(o, "note"), "opens for all 16 IPv6 addresses of the agent; no data while "
                                         "the uplink has no IPv6, see status");
    json_decref(o);
    close(fd);
}
END_TEST

static struct msg_status *status_begin(struct proto_message *m, uint64_t id) {
    struct msg_status *s = proto_begin(m, PROTO_STATUS, 0);
    s->id = id;
    s->policy = t.policy;
    s->started = clock_realtime(&clock_system) - 100 * USEC_PER_SEC;
    s->ready = s->log_ok = s->ipv6_up = 1;
    for (unsigned i = 0; i < PROCESS_LOADER; i++) s->process[i].pid = 100 + i;
    s->openings = 12345;
    s->resolver.queries = 99;
    return s;
}

START_TEST(status_of_a_healthy_gateway) {
    struct proto_message m;
    int fd = client();
    ask(fd, "{\"op\":\"status\"}\n");
    struct msg_ask q = core_asked(PROTO_ASK_STATUS);
    ck_assert_uint_eq(q.uid, getuid());
    status_begin(&m, q.id);
    ck_assert_int_eq(channel_send(&t.core, &m), 0);
    json_t *o = answer(fd);
    ck_assert(json_is_true(json_object_get(o, "ok")) && json_is_true(json_object_get(o, "ready")));
    ck_assert_uint_eq(json_array_size(json_object_get(o, "problems")), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(o, "notes")), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "openings")), 12345);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "uptime")), 100);
    ck_assert_uint_eq(strlen(text_in(o, "policy")), 64);
    ck_assert_str_ne(text_in(o, "gateway"), ""); /* the host's name, as in records */
    json_t *resolver = json_object_get(o, "resolver");
    ck_assert_int_eq(json_integer_value(json_object_get(resolver, "queries")), 99);
    json_decref(o);
    close(fd);
}
END_TEST

START_TEST(status_says_what_is_wrong) {
    struct proto_message m;
    int fd = client();
    ask(fd, "{\"op\":\"status\"}\n");
    struct msg_status *s = status_begin(&m, core_asked(PROTO_ASK_STATUS).id);
    s->ready = s->log_ok = 0;
    s->log_error = ENOSPC;
    s->process[PROCESS_RESOLVER].pid = 0;
    s->process[PROCESS_CORE].restarts = 3;
    s->drift = 7;
    ck_assert_int_eq(channel_send(&t.core, &m), 0);
    json_t *o = answer(fd);
    ck_assert_uint_eq(json_array_size(json_object_get(o, "problems")), 3);
    ck_assert_uint_eq(json_array_size(json_object_get(o, "notes")), 2);
    ck_assert(json_is_false(json_object_get(o, "log_ok")));
    ck_assert_str_eq(text_in(o, "log_error"), strerror(ENOSPC));
    json_decref(o);
    close(fd);
}
END_TEST

START_TEST(openings_page_by_page) {
    int fd = client();
    ask(fd, "{\"op\":\"openings\",\"client\":\"10.77.1.17\"}\n");
    for (unsigned page = 0; page < 3; page++) {
        struct msg_ask q = core_asked(PROTO_ASK_OPENINGS);
        ck_assert_uint_eq(q.cursor, page ? 1000 + page : 0);
        ck_assert_uint_eq(q.limit, 32);
        struct addr wanted = addr_of("10.77.1.17");
        ck_assert(addr_equal(&q.client, &wanted) && q.remote.family == 0);
        core_openings(q.id, page == 2 ? 0 : 1001 + page, page == 2 ? 5 : 32, page * 32);
    }
    for (unsigned i = 0; i < 69; i++) {
        char remote[32];
        json_t *o = answer(fd);
        snprintf(remote, sizeof remote, "198.51.0.%u", i);
        ck_assert_str_eq(text_in(o, "remote"), remote);
        ck_assert_str_eq(text_in(o, "agent"), "research");
        ck_assert_str_eq(text_in(o, "tool"), "web-search@1.4.2");
        ck_assert_str_eq(text_in(o, "name"), "api.search.example");
        ck_assert_int_eq(json_integer_value(json_object_get(o, "remaining")), 60);
        json_decref(o);
    }
    json_t *o = answer(fd); /* the address endpoint lasts as long as the policy */
    ck_assert(json_is_true(json_object_get(o, "static")));
    ck_assert_str_eq(text_in(o, "remote"), "203.0.114.0/24");
    json_decref(o);
    o = answer(fd);
    ck_assert(json_is_true(json_object_get(o, "ok")));
    ck_assert_int_eq(json_integer_value(json_object_get(o, "count")), 70);
    json_decref(o);
    expect_version(fd); /* the connection goes on */
    close(fd);
}
END_TEST

START_TEST(openings_with_no_page_items) {
    int fd = client();
    ask(fd, "{\"op\":\"openings\",\"remote\":\"198.51.0.1\"}\n");
    core_openings(core_asked(PROTO_ASK_OPENINGS).id, 5, 0, 0); /* all of a page filtered out */
    core_openings(core_asked(PROTO_ASK_OPENINGS).id, 0, 0, 0);
    json_t *o = answer(fd);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "count")), 0);
    json_decref(o);
    close(fd);
}
END_TEST

START_TEST(owner_that_is_gone) {
    struct proto_message m;
    int fd = client();
    ask(fd, "{\"op\":\"openings\",\"remote\":\"198.51.0.1\"}\n");
    struct msg_openings *page = proto_begin(&m, PROTO_OPENINGS, 2);
    page->id = core_asked(PROTO_ASK_OPENINGS).id;
    for (unsigned i = 0; i < 2; i++) {
        struct msg_opening *o = proto_item(&m, i);
        o->client = addr_of("10.77.1.17");
        o->remote = addr_of("198.51.0.1");
        o->protocol = IPPROTO_UDP;
        o->agent = o->endpoint = i ? POLICY_NONE : 4711; /* out of range is no reason to crash */
    }
    ck_assert_int_eq(channel_send(&t.core, &m), 0);
    for (unsigned i = 0; i < 2; i++) {
        json_t *o = answer(fd);
        ck_assert(json_is_null(json_object_get(o, "agent")) && json_is_null(json_object_get(o, "tool")));
        ck_assert(json_is_null(json_object_get(o, "name")));
        json_decref(o);
    }
    json_decref(answer(fd));
    close(fd);
}
END_TEST

START_TEST(why_an_address) {
    int fd = client();
    ask(fd, "{\"op\":\"why\",\"address\":\"203.0.114.9\"}\n");
    struct msg_ask q = core_asked(PROTO_ASK_OPENINGS);
    struct addr wanted = addr_of("203.0.114.9");
    ck_assert(addr_equal(&q.remote, &wanted) && q.client.family == 0);
    core_openings(q.id, 0, 0, 0);
    json_t *o = answer(fd);
    ck_assert_str_eq(text_in(o, "remote"), "203.0.114.0/24");
    ck_assert_str_eq(text_in(o, "client"), "10.77.1.16/28");
    json_decref(o);
    o = answer(fd);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "count")), 1);
    ck_assert_str_eq(text_in(o, "address"), "203.0.114.9");
    ck_assert(json_is_null(json_object_get(o, "agent")));
    json_decref(o);
    close(fd);
}
END_TEST

/* A policy without faults that is not in force: nobody looks for the fault in it. */
START_TEST(reload_that_core_did_not_take) {
    struct proto_message m;
    int fd = client();
    ask(fd, "{\"op\":\"reload\"}\n");
    struct msg_ask q = core_asked(PROTO_ASK_RELOAD);
    struct msg_reloaded *r = proto_begin(&m, PROTO_RELOADED, 0);
    r->id = q.id;
    r->policy = t.policy;
    m.fds[0] = memfd_create("report", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    m.fd_count = 1;
    ck_assert_int_eq(channel_send(&t.core, &m), 0);
    close(m.fds[0]);
    json_t *o = answer(fd);
    const char *error = json_string_value(json_object_get(o, "error"));
    ck_assert(json_is_false(json_object_get(o, "ok")));
    ck_assert_ptr_nonnull(strstr(error, "core could not take it"));
    json_decref(o);
    close(fd);
}
END_TEST

START_TEST(reload_refused_with_its_report) {
    static const char report[] = "a.yaml:1:2: bad \x1b[31m\xff thing\nb.yaml:3:4: caf\xc3\xa9\nlast";
    struct proto_message m;
    int fd = client();
    ask(fd, "{\"op\":\"reload\"}\n");
    struct msg_ask q = core_asked(PROTO_ASK_RELOAD);
    struct msg_reloaded *r = proto_begin(&m, PROTO_RELOADED, 0);
    r->id = q.id;
    r->policy = t.policy;
    r->faults = 3;
    m.fds[0] = memfd_create("report", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    m.fd_count = 1;
    ck_assert_int_eq(write(m.fds[0], report, sizeof report - 1), sizeof report - 1);
    fcntl(m.fds[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    ck_assert_int_eq(channel_send(&t.core, &m), 0);
    close(m.fds[0]);
    json_t *o = answer(fd), *lines = json_object_get(o, "report");
    ck_assert(json_is_false(json_object_get(o, "ok")));
    ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(o, "error")), "was refused"));
    ck_assert_uint_eq(json_array_size(lines), 3);
    ck_assert_str_eq(json_string_value(json_array_get(lines, 0)), "a.yaml:1:2: bad ?[31m? thing");
    ck_assert_str_eq(json_string_value(json_array_get(lines, 1)), "b.yaml:3:4: caf\xc3\xa9");
    ck_assert_str_eq(json_string_value(json_array_get(lines, 2)), "last");
    json_decref(o);
    close(fd);
}
END_TEST

START_TEST(another_policy_comes_into_force) {
    struct proto_message m;
    int fd = client();
    json_t *o = explain(fd, "10.77.1.17", "api.search.example", "A");
    ck_assert_str_eq(text_in(o, "decision"), "allow");
    json_decref(o);
    int image = image_make("*.search.example");
    struct msg_policy *p = proto_begin(&m, PROTO_POLICY, 0);
    p->policy = t.policy;
    m.fds[0] = image;
    m.fd_count = 1;
    ck_assert_int_eq(channel_send(&t.core, &m), 0);
    ck_assert(asked(&m, 5000));
    ck_assert_int_eq(m.head.type, PROTO_POLICY_USED);
    ck_assert_uint_eq(((struct msg_policy *)proto_body(&m))->policy, t.policy);
    o = explain(fd, "10.77.1.17", "api.search.example", "A");
    ck_assert_str_eq(text_in(o, "reason"), "deny-list");
    json_decref(o);
    /* One that is no image, or not sealed, changes nothing. */
    int bad = memfd_create("bad", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(write(bad, "TGM1", 4), 4);
    for (unsigned i = 0; i < 2; i++) {
        p = proto_begin(&m, PROTO_POLICY, 0);
        p->policy = 1;
        m.fds[0] = bad;
        m.fd_count = 1;
        ck_assert_int_eq(channel_send(&t.core, &m), 0);
        ck_assert(asked(&m, 5000));
        ck_assert_uint_eq(((struct msg_policy *)proto_body(&m))->policy, t.policy);
        fcntl(bad, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    }
    o = explain(fd, "10.77.1.17", "api.search.example", "A");
    ck_assert_str_eq(text_in(o, "reason"), "deny-list");
    json_decref(o);
    close(bad);
    close(image);
    close(fd);
}
END_TEST

START_TEST(bad_requests_get_one_line) {
    static const struct {
        const char *line, *error;
    } cases[] = {
        {"\n", "not a JSON object"},
        {"[]\n", "not a JSON object"},
        {"null\n", "not a JSON object"},
        {"{\n", "not a JSON object"},
        {"{\"op\":\"status\"} {}\n", "not a JSON object"},
        {"{\"op\":\"status\",\"op\":\"reload\"}\n", "not a JSON object"},
        {"{\"op\":\"st\\u0000atus\"}\n", "not a JSON object"},
        {"{\"op\":\"\xff\"}\n", "not a JSON object"},
        {"{}\n", "\"op\" is missing"},
        {"{\"op\":7}\n", "\"op\" is missing"},
        {"{\"op\":\"drop\"}\n", "unknown \"op\""},
        {"{\"op\":\"status\",\"client\":\"10.0.0.1\"}\n", "does not take"},
        {"{\"op\":\"why\"}\n", "needs \"address\""},
        {"{\"op\":\"why\",\"address\":\"::g\"}\n", "\"address\" is not valid"},
        {"{\"op\":\"why\",\"address\":7}\n", "\"address\" is not valid"},
        {"{\"op\":\"why\",\"address\":\"10.0.0.0/8\"}\n", "\"address\" is not valid"},
        {"{\"op\":\"openings\",\"client\":\"\"}\n", "\"client\" is not valid"},
        {"{\"op\":\"openings\",\"x\":\"\"}\n", "does not take"},
        {"{\"op\":\"explain\",\"client\":\"10.0.0.1\"}\n", "needs \"name\""},
        {"{\"op\":\"explain\",\"client\":\"10.0.0.1\",\"name\":\"a..b\"}\n", "\"name\" is not valid"},
        {"{\"op\":\"explain\",\"client\":\"10.0.0.1\",\"name\":\"a\",\"type\":\"TYPE65536\"}\n",
         "\"type\" is not valid"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd = client();
        ask(fd, cases[i].line);
        expect_error(fd, cases[i].error);
        ck_assert_ptr_null(answer(fd));
        close(fd);
    }
    struct proto_message m;
    ck_assert(!asked(&m, 0)); /* none of it reached core */
}
END_TEST

static void flood(const char *bytes, size_t size) {
    int fd = client();
    for (size_t sent = 0; sent < size;) {
        ssize_t got = send(fd, bytes + sent, size - sent, MSG_NOSIGNAL);
        if (got < 0) break; /* closed on us */
        sent += (size_t)got;
    }
    expect_error(fd, "too long");
    ck_assert_ptr_null(answer(fd));
    close(fd);
}

START_TEST(long_lines) {
    static char many[1 << 20];
    memset(many, '{', sizeof many);
    flood(many, sizeof many);
    memset(many, ' ', sizeof many);
    flood(many, sizeof many);
    many[REQUEST_LINE_MAX - 1] = '\n'; /* the longest that is taken: blanks, no object */
    int fd = client();
    ck_assert_int_eq(send(fd, many, REQUEST_LINE_MAX, MSG_NOSIGNAL), REQUEST_LINE_MAX);
    expect_error(fd, "not a JSON object");
    close(fd);
}
END_TEST

START_TEST(noise) {
    char bytes[2048];
    for (unsigned i = 0; i < 300; i++) {
        size_t size = 1 + random_below(sizeof bytes - 1);
        random_bytes(bytes, size);
        int fd = client();
        (void)!send(fd, bytes, size, MSG_NOSIGNAL);
        (void)!send(fd, "\n", 1, MSG_NOSIGNAL);
        close(fd);
    }
    int fd = client();
    expect_version(fd);
    close(fd);
}
END_TEST

START_TEST(line_in_pieces_and_lines_together) {
    static const char line[] = "{\"op\":\"version\"}\n";
    int fd = client();
    for (size_t i = 0; i + 1 < sizeof line; i++) {
        ck_assert_int_eq(send(fd, line + i, 1, MSG_NOSIGNAL), 1);
        usleep(500);
    }
    json_decref(answer(fd));
    char many[50 * (sizeof line - 1) + 1] = "";
    for (unsigned i = 0; i < 50; i++) memcpy(many + i * (sizeof line - 1), line, sizeof line);
    ask(fd, many);
    for (unsigned i = 0; i < 50; i++) json_decref(answer(fd));
    close(fd);
}
END_TEST

START_TEST(half_closed_still_gets_answers) {
    struct proto_message m;
    int fd = client();
    ask(fd, "{\"op\":\"version\"}\n{\"op\":\"status\"}\n");
    shutdown(fd, SHUT_WR);
    struct msg_ask q = core_asked(PROTO_ASK_STATUS);
    usleep(50000);
    status_begin(&m, q.id);
    ck_assert_int_eq(channel_send(&t.core, &m), 0);
    json_decref(answer(fd));
    json_t *o = answer(fd);
    ck_assert_str_eq(text_in(o, "gateway"), text_in(o, "gateway"));
    json_decref(o);
    ck_assert_ptr_null(answer(fd));
    close(fd);
}
END_TEST

START_TEST(held_connections_keep_nobody_out) {
    int held[200];
    for (unsigned i = 0; i < 200; i++) held[i] = client();
    int fd = client();
    expect_version(fd);
    close(fd);
    for (unsigned i = 0; i < 200; i++) close(held[i]);
}
END_TEST

/* A reader that takes nothing: core is asked for no more than fits the socket, and others go on. */
START_TEST(slow_reader_is_not_buffered_for) {
    struct proto_message m;
    unsigned pages = 0;
    int slow = client();
    ask(slow, "{\"op\":\"openings\"}\n");
    while (asked(&m, pages > 2 ? 300 : 20000)) { /* a busy machine may take its time to begin */
        struct msg_ask *q = proto_body(&m);
        core_openings(q->id, ++pages, 32, 0);
        ck_assert_uint_lt(pages, 200);
    }
    ck_assert_uint_gt(pages, 2);
    int fd = client();
    expect_version(fd);
    close(fd);
    close(slow);
}
END_TEST

START_TEST(reader_that_stays_away_is_dropped) {
    struct proto_message m;
    unsigned pages = 0;
    int slow = client();
    ask(slow, "{\"op\":\"openings\"}\n");
    while (asked(&m, pages > 2 ? 300 : 20000))
        core_openings(((struct msg_ask *)proto_body(&m))->id, ++pages, 32, 0);
    struct pollfd hung_up = {.fd = slow, .events = POLLRDHUP};
    ck_assert_int_eq(poll(&hung_up, 1, CONTROL_WRITE_MSEC + 20000), 1);
    char block[65536]; /* what was in the socket, then the end */
    ssize_t got;
    while ((got = recv(slow, block, sizeof block, 0)) > 0) {}
    ck_assert(got == 0 || errno == ECONNRESET);
    ck_assert(!asked(&m, 0));
    close(slow);
}
END_TEST

START_TEST(core_is_silent) {
    struct proto_message m;
    int fd = client();
    ask(fd, "{\"op\":\"status\"}\n");
    struct msg_ask q = core_asked(PROTO_ASK_STATUS);
    expect_error(fd, "core does not answer in time");
    close(fd);
    status_begin(&m, q.id); /* too late, and for nobody */
    ck_assert_int_eq(channel_send(&t.core, &m), 0);
    fd = client();
    ask(fd, "{\"op\":\"status\"}\n");
    q = core_asked(PROTO_ASK_STATUS);
    status_begin(&m, q.id + 1); /* nor this one */
    ck_assert_int_eq(channel_send(&t.core, &m), 0);
    status_begin(&m, q.id);
    ck_assert_int_eq(channel_send(&t.core, &m), 0);
    json_decref(answer(fd));
    close(fd);
}
END_TEST

START_TEST(core_answers_another_question) {
    int fd = client();
    ask(fd, "{\"op\":\"status\"}\n");
    core_openings(core_asked(PROTO_ASK_STATUS).id, 0, 1, 0);
    expect_error(fd, "another question");
    close(fd);
}
END_TEST

START_TEST(core_talks_garbage) {
    int status;
    ck_assert_int_eq(send(t.core.fd, "garbage", 7, 0), 7);
    ck_assert_int_eq(waitpid(t.pid, &status, 0), t.pid);
    t.pid = 0;
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1); /* and is started again */
}
END_TEST

START_TEST(client_goes_away) {
    struct proto_message m;
    for (unsigned i = 0; i < 3; i++) {
        int fd = client();
        ask(fd, i == 2 ? "{\"op\":\"reload\"}\n" : i ? "{\"op\":\"openings\"}\n" : "{\"op\":\"status\"}\n");
        ck_assert(asked(&m, 5000));
        uint64_t id = ((struct msg_ask *)proto_body(&m))->id;
        close(fd);
        usleep(20000);
        if (i == 0) {
            status_begin(&m, id);
            ck_assert_int_eq(channel_send(&t.core, &m), 0);
        } else if (i == 1) {
            core_openings(id, 9, 32, 0);
        }
    }
    int fd = client();
    expect_version(fd);
    close(fd);
}
END_TEST

START_TEST(type_names) {
    uint16_t type;
    char text[RRTYPE_TEXT_MAX];
    for (unsigned i = 0; i < 65536; i++) {
        ck_assert_int_eq(rrtype_parse(rrtype_format((uint16_t)i, text), &type), 0);
        ck_assert_uint_eq(type, i);
    }
    static const char *const bad[] = {"", "X", "TYPE", "TYPE-1", "TYPE65536", "TYPE1x", "TYPE 1",
                                      "TYPE000000001"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_int_eq(rrtype_parse(bad[i], &type), -EINVAL);
}
END_TEST

static Suite *control_suite(void) {
    Suite *s = suite_create("control");
    TCase *c = tcase_create("control");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, version_again_and_again);
    tcase_add_test(c, explain_decides);
    tcase_add_test(c, status_of_a_healthy_gateway);
    tcase_add_test(c, status_says_what_is_wrong);
    tcase_add_test(c, openings_page_by_page);
    tcase_add_test(c, openings_with_no_page_items);
    tcase_add_test(c, owner_that_is_gone);
    tcase_add_test(c, why_an_address);
    tcase_add_test(c, reload_that_core_did_not_take);
    tcase_add_test(c, reload_refused_with_its_report);
    tcase_add_test(c, another_policy_comes_into_force);
    tcase_add_test(c, bad_requests_get_one_line);
    tcase_add_test(c, long_lines);
    tcase_add_test(c, noise);
    tcase_add_test(c, line_in_pieces_and_lines_together);
    tcase_add_test(c, half_closed_still_gets_answers);
    tcase_add_test(c, held_connections_keep_nobody_out);
    tcase_add_test(c, slow_reader_is_not_buffered_for);
    tcase_add_test(c, reader_that_stays_away_is_dropped);
    tcase_add_test(c, core_is_silent);
    tcase_add_test(c, core_answers_another_question);
    tcase_add_test(c, core_talks_garbage);
    tcase_add_test(c, client_goes_away);
    suite_add_tcase(s, c);
    TCase *pure = tcase_create("types");
    tcase_add_test(pure, type_names);
    suite_add_tcase(s, pure);
    return s;
}

int main(void) {
    snprintf(t.base, sizeof t.base, "/tmp/tgs-XXXXXX");
    if (!mkdtemp(t.base)) return 1;
    SRunner *r = srunner_create(control_suite());
    srunner_run_all(r, CK_NORMAL);
    remove_all(t.base);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
