/* explain.c: decisions and openings in words. */
#include "gateway/control/explain.h"

#include <netinet/in.h>
#include <stdio.h>

#include "gateway/control/rrtype.h"

static const char *const mode_names[] = {
    [MODE_ENFORCE] = "enforce", [MODE_SHADOW] = "shadow", [MODE_OBSERVE] = "observe"};

static void set(json_t *to, const char *key, json_t *value) {
    json_object_set_new(to, key, value ? value : json_null());
}

/* Text of the image is checked at load, but only json_stringn_nocheck() cannot fail on it. */
static json_t *text_of(const struct policy *p, uint32_t offset) {
    const char *text = policy_text(p, offset);
    return text[0] ? json_string(text) : json_null();
}

const char *explain_protocol(uint8_t protocol) {
    return protocol == IPPROTO_TCP ? "tcp" : protocol == IPPROTO_UDP ? "udp" : "other";
}

static json_t *file_line(const struct policy *p, uint32_t file, uint32_t line) {
    return json_sprintf("%s:%u", policy_text(p, file), (unsigned)line);
}

static json_t *tool_text(const struct policy *p, const struct policy_tool *t) {
    const char *version = policy_text(p, t->version);
    return json_sprintf("%s%s%s", policy_text(p, t->name), version[0] ? "@" : "", version);
}

static json_t *endpoint_ports(const struct policy_endpoint *e) {
    json_t *ports = json_array();
    for (unsigned i = 0; i < e->port_count; i++)
        json_array_append_new(ports, json_integer(e->ports[i]));
    return ports;
}

static json_t *endpoint_ranges(const struct policy_endpoint *e) {
    json_t *ranges = json_array();
    for (unsigned r = RANGE_UNSPECIFIED; r <= RANGE_RESERVED; r++)
        if (e->ranges & (1u << r))
            json_array_append_new(ranges, json_string(addr_range_name((enum addr_range)r)));
    return ranges;
}

static json_t *endpoint_matches(const struct policy *p, const struct policy_endpoint *e) {
    char text[PREFIX_TEXT_MAX];
    if (e->pattern != POLICY_NONE) return text_of(p, policy_pattern(p, e->pattern)->text);
    return json_string(prefix_format(&e->address, text));
}

static json_t *endpoint_json(const struct policy *p, const struct policy_endpoint *e) {
    const struct policy_tool *t = policy_tool(p, e->tool);
    json_t *o = json_object();
    set(o, "protocol", json_string(explain_protocol(e->protocol)));
    set(o, "ports", endpoint_ports(e));
    set(o, "endpoint", endpoint_matches(p, e));
    set(o, "tool", tool_text(p, t));
    set(o, "rule", file_line(p, t->file, e->line));
    set(o, "data", text_of(p, e->data));
    set(o, "ranges", endpoint_ranges(e));
    return o;
}

/* What a stub resolver gets to see. */
static const char *answer_text(const struct policy *p, enum reason reason) {
    static const char *const by_choice[] = {[DENY_NXDOMAIN] = "NXDOMAIN",
                                            [DENY_REFUSED] = "REFUSED",
                                            [DENY_NODATA] = "NODATA"};
    switch (reason_answer(reason)) {
    case ANSWER_OK: return "NOERROR";
    case ANSWER_DENY: return by_choice[policy_gateway(p)->deny];
    case ANSWER_NODATA: return "NODATA";
    case ANSWER_NX: return "NXDOMAIN";
    case ANSWER_REFUSED: return "REFUSED";
    case ANSWER_FORMERR: return "FORMERR";
    case ANSWER_NOTIMP: return "NOTIMP";
    case ANSWER_BADVERS: return "BADVERS";
    case ANSWER_HINFO: return "HINFO (RFC 8482)";
    default: return "SERVFAIL";
    }
}

static void add_agent(const struct policy *p, json_t *to, uint32_t index) {
    if (index == POLICY_NONE || index >= policy_agent_count(p)) {
        set(to, "agent", NULL);
        set(to, "mode", NULL);
        return;
    }
    const struct policy_agent *a = policy_agent(p, index);
    set(to, "agent", text_of(p, a->name));
    set(to, "mode", json_string(mode_names[a->mode]));
    set(to, "agent_rule", file_line(p, a->file, a->line));
}

static void add_rule(const struct policy *p, json_t *to, const struct decision *d) {
    char text[POLICY_RULE_TEXT_MAX];
    set(to, "rule", json_string(policy_rule_text(p, d, text)));
    set(to, "tool", NULL);
    set(to, "owner", NULL);
    set(to, "purpose", NULL);
    if (d->endpoint == POLICY_NONE) return;
    const struct policy_tool *t = policy_tool(p, policy_endpoint(p, d->endpoint)->tool);
    set(to, "tool", tool_text(p, t));
    set(to, "owner", text_of(p, t->owner));
    set(to, "purpose", text_of(p, t->purpose));
}

/* Core opens for the addresses of the agent, see policy_clients(); the resolver answers no AAAA while
 * the uplink has no IPv6. Both belong to the policy as far as it settles them. */
static void settle_family(const struct policy *p, const struct addr *client, uint16_t type,
                          struct decision *d, unsigned *ret_clients) {
    struct addr clients[POLICY_CLIENTS_MAX];
    *ret_clients = 1;
    if (d->reason != REASON_ALLOWED || (type != TYPE_A && type != TYPE_AAAA)) return;
    *ret_clients = policy_clients(p, d->agent, client, type == TYPE_A ? 4 : 6, clients);
    if (type == TYPE_AAAA && policy_gateway(p)->ipv6 == IPV6_NO) d->reason = REASON_NO_IPV6;
    else if (*ret_clients == 0) d->reason = REASON_NO_FAMILY;
}

/* What the answer depends on besides the policy; NULL: nothing that can be named beforehand. */
static json_t *explain_note(const struct policy *p, const struct addr *client, uint16_t type,
                            const struct decision *d, unsigned clients) {
    bool other = client->family != (type == TYPE_A ? 4 : 6);
    if (d->reason == REASON_PTR_UNKNOWN)
        return json_string("answered while the client has an opening to that address, see why");
    if (d->reason == REASON_NO_FAMILY)
        return json_sprintf("list at most %d IPv%d addresses of the agent, or have it ask over IPv%d",
                            POLICY_CLIENTS_MAX, type == TYPE_A ? 4 : 6, type == TYPE_A ? 4 : 6);
    if (d->reason != REASON_ALLOWED || (type != TYPE_A && type != TYPE_AAAA)) return NULL;
    const char *uplink = type == TYPE_AAAA && policy_gateway(p)->ipv6 == IPV6_AUTO
                             ? "no data while the uplink has no IPv6, see status" : NULL;
    if (!other) return uplink ? json_string(uplink) : NULL;
    return json_sprintf("opens for all %u IPv%d addresses of the agent%s%s", clients,
                        type == TYPE_A ? 4 : 6, uplink ? "; " : "", uplink ? uplink : "");
}

json_t *explain_decision(const struct policy *p, const struct addr *client,
                         const struct name *name, uint16_t type) {
    struct decision d;
    char address[ADDR_TEXT_MAX], text[NAME_TEXT_MAX], rr[RRTYPE_TEXT_MAX],
        digest[POLICY_DIGEST_TEXT_MAX];
    unsigned clients;
    policy_decide(p, client, name, type, &d);
    settle_family(p, client, type, &d, &clients);
    bool allowed = d.reason == REASON_ALLOWED;
    json_t *o = json_object();
    if (!o || name_to_text(name, text, sizeof text) < 0) {
        json_decref(o);
        return NULL;
    }
    /* As in the log: the name is allowed, there is only nothing to answer. */
    bool granted = allowed || d.reason == REASON_NO_IPV6;
    set(o, "decision", json_string(granted ? "allow" : "deny"));
    set(o, "reason", json_string(reason_tag(d.reason)));
    set(o, "text", json_string(reason_text(d.reason)));
    set(o, "answer", json_string(answer_text(p, d.reason)));
    set(o, "client", json_string(addr_format(client, address)));
    set(o, "name", json_string(text));
    set(o, "type", json_string(rrtype_format(type, rr)));
    set(o, "note", explain_note(p, client, type, &d, clients));
    add_agent(p, o, d.agent);
    add_rule(p, o, &d);
    json_t *opens = json_array();
    bool addresses = type == TYPE_A || type == TYPE_AAAA;
    for (uint32_t i = 0; allowed && addresses && i < d.count; i++)
        json_array_append_new(opens, endpoint_json(p, policy_endpoint(p, d.endpoints[i])));
    set(o, "opens", opens);
    set(o, "policy", json_string(policy_digest_text(p, digest)));
    return o;
}

void explain_owner(const struct policy *p, json_t *to, uint32_t agent, uint32_t endpoint) {
    bool known = agent != POLICY_NONE && agent < policy_agent_count(p);
    set(to, "agent", known ? text_of(p, policy_agent(p, agent)->name) : NULL);
    known = endpoint != POLICY_NONE && endpoint < policy_endpoint_count(p);
    const struct policy_endpoint *e = known ? policy_endpoint(p, endpoint) : NULL;
    const struct policy_tool *t = known ? policy_tool(p, e->tool) : NULL;
    set(to, "tool", known ? tool_text(p, t) : NULL);
    set(to, "rule", known ? file_line(p, t->file, e->line) : NULL);
    set(to, "endpoint", known ? endpoint_matches(p, e) : NULL);
    set(to, "data", known ? text_of(p, e->data) : NULL);
}

static json_t *static_json(const struct policy *p, const struct policy_static *s) {
    char text[PREFIX_TEXT_MAX];
    json_t *o = json_object();
    set(o, "static", json_true());
    set(o, "client", json_string(prefix_format(&s->source, text)));
    set(o, "remote", json_string(prefix_format(&s->remote, text)));
    set(o, "protocol", json_string(explain_protocol(s->protocol)));
    if (s->port_first == s->port_last) set(o, "port", json_integer(s->port_first));
    else set(o, "port", json_sprintf("%u-%u", s->port_first, s->port_last));
    set(o, "name", NULL);
    set(o, "remaining", NULL);
    set(o, "until", NULL);
    explain_owner(p, o, s->agent, s->endpoint);
    return o;
}

int explain_statics(const struct policy *p, const struct addr *client, const struct addr *remote,
                    uint32_t from, explain_static_fn *each, void *ctx) {
    for (uint32_t i = from; i < policy_static_count(p); i++) {
        const struct policy_static *s = policy_static(p, i);
        if (client->family && !prefix_contains(&s->source, client)) continue;
        if (remote->family && !prefix_contains(&s->remote, remote)) continue;
        int result = each(ctx, i, static_json(p, s));
        if (result) return result;
    }
    return 0;
}

json_t *explain_address(const struct policy *p, const struct addr *a) {
    char text[ADDR_TEXT_MAX];
    json_t *o = json_object();
    uint32_t agent = policy_agent_of(p, a);
    set(o, "address", json_string(addr_format(a, text)));
    set(o, "range", json_string(addr_range_name(addr_range(a))));
    set(o, "agent", agent == POLICY_NONE ? NULL : text_of(p, policy_agent(p, agent)->name));
    return o;
}
