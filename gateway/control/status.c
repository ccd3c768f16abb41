/* status.c: core's status message as JSON, with what is wrong in words. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gateway/control/control.h"

__attribute__((format(printf, 2, 3))) static void say(json_t *list, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    json_array_append_new(list, json_string(text));
}

static void say_count(json_t *list, uint64_t count, const char *what) {
    if (count) say(list, "%s: %llu", what, (unsigned long long)count);
}

/* What is wrong now. */
static json_t *status_problems(const struct msg_status *m, const struct policy *p) {
    json_t *list = json_array();
    if (!m->ready) say(list, "not ready: the self-test has not passed, forwarding is off");
    if (!m->log_ok)
        say(list, "the log cannot be written (%s): %s",
            m->log_error ? strerror((int)m->log_error) : "no word from the recorder",
            policy_gateway(p)->when_full == WHEN_FULL_DROP ? "records are dropped"
                                                           : "nothing new is opened");
    for (unsigned i = PROCESS_CORE; i < PROCESS_LOADER; i++)
        if (!m->process[i].pid) say(list, "tidegate-%s is not running", process_name(i));
    return list;
}

/* What went wrong since core's start. */
static json_t *status_notes(const struct msg_status *m) {
    json_t *list = json_array();
    for (unsigned i = PROCESS_CORE; i < PROCESS_LOADER; i++)
        if (m->process[i].restarts)
            say(list, "tidegate-%s was started again %u time%s", process_name(i),
                (unsigned)m->process[i].restarts, m->process[i].restarts == 1 ? "" : "s");
    say_count(list, m->repairs, "rebuilds of the ruleset after a change by another hand");
    say_count(list, m->drift, "openings that differed from the kernel's and were set right");
    say_count(list, m->transactions_failed, "kernel transactions that failed");
    say_count(list, m->openings_refused, "openings refused");
    say_count(list, m->flows_cut, "flows ended as their agent had more than its share");
    say_count(list, m->records_lost, "records lost");
    say_count(list, m->denied_lost, "denied packets that went unrecorded");
    say_count(list, m->policy_refused, "policies refused");
    return list;
}

/* As the recorder has it: the host's name when the policy gives none. */
static json_t *gateway_name(const struct policy *p) {
    char host[256] = "";
    const char *name = policy_gateway(p)->name;
    if (!name[0] && gethostname(host, sizeof host - 1) == 0) name = host;
    return json_string(name);
}

json_t *status_json(const struct msg_status *m, const struct policy *p, usec_t now) {
    char text[POLICY_DIGEST_TEXT_MAX > TIME_TEXT_MAX ? POLICY_DIGEST_TEXT_MAX : TIME_TEXT_MAX];
    json_t *o = json_object(), *processes = json_object(), *resolver = json_object();
    json_object_set_new(o, "ok", json_true());
    json_object_set_new(o, "problems", status_problems(m, p));
    json_object_set_new(o, "notes", status_notes(m));
    json_object_set_new(o, "ready", json_boolean(m->ready));
    json_object_set_new(o, "gateway", gateway_name(p));
    json_object_set_new(o, "version", json_string(TIDEGATE_VERSION));
    json_object_set_new(o, "policy",
                        m->policy == policy_id(p)
                            ? json_string(policy_digest_text(p, text))
                            : json_sprintf("%016llx", (unsigned long long)m->policy));
    json_object_set_new(o, "agents", json_integer(policy_agent_count(p)));
    json_object_set_new(o, "tools", json_integer(policy_tool_count(p)));
    json_object_set_new(o, "endpoints", json_integer(policy_endpoint_count(p)));
    json_object_set_new(o, "started", json_string(time_format(m->started, text)));
    json_object_set_new(o, "uptime",
                        json_integer(now > m->started
                                         ? (json_int_t)((now - m->started) / USEC_PER_SEC)
                                         : 0));
    json_object_set_new(o, "log_ok", json_boolean(m->log_ok));
    json_object_set_new(o, "log_error",
                        m->log_error ? json_string(strerror((int)m->log_error)) : json_null());
    json_object_set_new(o, "ipv6", json_boolean(m->ipv6_up));
    json_object_set_new(o, "map_size", json_integer(m->map_size));
#define X(field) json_object_set_new(o, #field, json_integer((json_int_t)m->field));
    STATUS_TABLE(X)
#undef X
    for (unsigned i = PROCESS_CORE; i < PROCESS_LOADER; i++)
        json_object_set_new(processes, process_name(i),
                            json_pack("{s:I, s:I}", "pid", (json_int_t)m->process[i].pid,
                                      "restarts", (json_int_t)m->process[i].restarts));
    json_object_set_new(o, "processes", processes);
#define X(field) json_object_set_new(resolver, #field, json_integer((json_int_t)m->resolver.field));
    STATS_TABLE(X)
#undef X
    json_object_set_new(o, "resolver", resolver);
    return o;
}
