/* decide_test.c: policy_decide() and its relatives, on images made by the loader. */
#include <netinet/in.h>

#include "gateway/base/buf.h"
#include "gateway/base/buf.h"
#include "gateway/policy/image.h"
#include "tests/unit/policy_files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct files files;

static const char agents_yaml[] =
    "agents:\n"
    "  - { agent: research, sources: [10.77.1.16/28, \"fd77:1::10/124\"], tools: [search@1.4.2, wide, mail] }\n"
    "  - { agent: builder, sources: [10.77.1.32/32, 10.77.2.0/25], tools: [mail, search@2] }\n"
    "  - { agent: idle, sources: [10.77.2.200], tools: [] }\n"
    "deny:\n"
    "  - \"*.secret.wide.example\"\n"
    "  - bad.wide.example\n"
    "  - \"x-*.wide.example\"\n"
    "  - \"**.deep.wide.example\"\n"
    "  - \"y-*.wide.example\"\n";

static const char search_yaml[] =
    "tool: search\n"
    "version: 1.4.2\n"
    "owner: a\npurpose: b\n"
    "endpoints:\n"
    "  - { name: API.Search.Example., protocol: https, data: public }\n"             /* 6 */
    "  - { name: \"*.cdn.search.example\", protocol: tcp, port: 8443, data: public }\n"
    "  - { name: mail.example.com, types: [MX, A, AAAA], protocol: tcp, port: 587, data: public }\n"
    "  - { name: api.search.example, protocol: quic, data: public }\n"               /* 9 */
    "  - { name: api.search.example, types: [TXT], protocol: http, data: public }\n"
    "  - { name: only4.search.example, types: [A], protocol: http, data: public }\n";

static const char search2_yaml[] =
    "tool: search\n"
    "version: 2\n"
    "owner: a\npurpose: b\n"
    "endpoints:\n"
    "  - { name: api.search.example, protocol: https, data: public }\n";

static const char wide_yaml[] =
    "tool: wide\n"
    "version: 1\n"
    "owner: a\npurpose: b\n"
    "endpoints:\n"
    "  - { name: \"**.wide.example\", protocol: https, data: public }\n"             /* 6 */
    "  - { name: \"api-*.wide.example\", protocol: tcp, port: 81, data: public }\n"
    "  - { name: \"*-v*-x.wide.example\", protocol: tcp, port: 82, data: public }\n"
    "  - { name: \"*.wide.example\", protocol: tcp, port: 83, data: public }\n"
    "  - { name: api-1.wide.example, protocol: tcp, port: 84, data: public }\n"      /* 10 */
    "  - { name: \"**.b.wide.example\", protocol: tcp, port: 85, data: public }\n"
    "  - { name: 1.2.0.192.in-addr.arpa, types: [PTR2], protocol: http, data: public }\n";

static const char mail_yaml[] =
    "tool: mail\n"
    "version: 1\n"
    "owner: a\npurpose: b\n"
    "endpoints:\n"
    "  - { name: api.search.example, protocol: tcp, port: 25, data: public }\n"
    "  - { address: 198.51.100.0/24, protocol: tcp, port: 25, data: public, ranges: [documentation] }\n"
    "  - { address: \"2600::/32\", protocol: udp, port: 25, data: public }\n"
    "  - { name: inner.example.com, protocol: tcp, port: 25, data: public, ranges: [private] }\n";

static void setup(void) {
    files_start(&files);
    files_write(&files, "gateway.yaml", FILES_GATEWAY);
    files_write(&files, "policy/agents.yaml", agents_yaml);
    files_write(&files, "policy/tools/search.yaml", search_yaml);
    files_write(&files, "policy/tools/search2.yaml", search2_yaml);
    char wide[sizeof wide_yaml];
    memcpy(wide, wide_yaml, sizeof wide);
    memcpy(strstr(wide, "PTR2"), "TXT ", 4);
    files_write(&files, "policy/tools/wide.yaml", wide);
    files_write(&files, "policy/tools/mail.yaml", mail_yaml);
    ck_assert_msg(files_load(&files, 1) == 0, "%s", files.report);
}

static void teardown(void) { files_end(&files); }

struct row {
    const char *client, *name;
    uint16_t type;
    enum reason reason;
    const char *rule;
    const char *endpoints; /* lines of the endpoints, in order, "tool:line" */
};

static void decide_row(const struct row *row) {
    struct decision d;
    char rule[POLICY_RULE_TEXT_MAX], lines[1024] = "";
    struct addr client = files_addr(row->client);
    struct name name = files_name(row->name);
    policy_decide(&files.policy, &client, &name, row->type, &d);
    ck_assert_msg(d.reason == row->reason, "%s %s %u: %s", row->client, row->name, row->type,
                  reason_tag(d.reason));
    ck_assert_str_eq(policy_rule_text(&files.policy, &d, rule), row->rule);
    for (unsigned i = 0; i < d.count; i++) {
        const struct policy_endpoint *e = policy_endpoint(&files.policy, d.endpoints[i]);
        const struct policy_tool *t = policy_tool(&files.policy, e->tool);
        size_t used = strlen(lines);
        snprintf(lines + used, sizeof lines - used, "%s%s:%u", used ? " " : "",
                 policy_text(&files.policy, t->name), e->line);
        ck_assert(policy_agent_has(&files.policy, d.agent, d.endpoints[i]));
    }
    ck_assert_msg(strcmp(lines, row->endpoints) == 0, "%s %s %u: \"%s\"", row->client, row->name,
                  row->type, lines);
    ck_assert_uint_eq(policy_denies(&files.policy, &name),
                      d.reason == REASON_UNKNOWN_CLIENT || d.reason == REASON_CANARY
                          ? policy_denies(&files.policy, &name) : d.deny);
}

#define R "10.77.1.17"
#define B "10.77.1.32"
#define API1 "search@1.4.2 tools/search.yaml:6"
#define WIDE "wide@1 tools/wide.yaml:"

START_TEST(decisions) {
    static const struct row rows[] = {
        /* clients */
        {"10.77.1.15", "api.search.example", 1, REASON_UNKNOWN_CLIENT, "default", ""},
        {"10.77.1.16", "api.search.example", 1, REASON_ALLOWED, API1, "search:6 search:9 mail:6"},
        {"10.77.1.31", "api.search.example", 28, REASON_ALLOWED, API1, "search:6 search:9 mail:6"},
        {"10.77.1.33", "api.search.example", 1, REASON_UNKNOWN_CLIENT, "default", ""},
        {"9.255.255.255", "api.search.example", 1, REASON_UNKNOWN_CLIENT, "default", ""},
        {"255.255.255.255", "api.search.example", 1, REASON_UNKNOWN_CLIENT, "default", ""},
        {"fd77:1::1f", "api.search.example", 1, REASON_ALLOWED, API1, "search:6 search:9 mail:6"},
        {"fd77:1::20", "api.search.example", 1, REASON_UNKNOWN_CLIENT, "default", ""},
        {"fd77:1::f", "api.search.example", 1, REASON_UNKNOWN_CLIENT, "default", ""},
        {"fd77:1:0:1::10", "api.search.example", 1, REASON_UNKNOWN_CLIENT, "default", ""},
        {"ffff::", "api.search.example", 1, REASON_UNKNOWN_CLIENT, "default", ""},
        {"::ffff:10.77.1.17", "api.search.example", 1, REASON_UNKNOWN_CLIENT, "default", ""},
        {"10.77.2.200", "api.search.example", 1, REASON_NOT_LISTED, "default", ""},
        /* the order of tools is that of the agent, and versions are told apart */
        {B, "api.search.example", 1, REASON_ALLOWED, "mail@1 tools/mail.yaml:6", "mail:6 search:6"},
        {"10.77.2.127", "mail.example.com", 15, REASON_NOT_LISTED, "default", ""},
        /* names */
        {R, "search.example", 1, REASON_NOT_LISTED, "default", ""},
        {R, "x.api.search.example", 1, REASON_NOT_LISTED, "default", ""},
        {R, "xapi.search.example", 1, REASON_NOT_LISTED, "default", ""},
        {R, "api.search.example.com", 1, REASON_NOT_LISTED, "default", ""},
        {R, ".", 1, REASON_NOT_LISTED, "default", ""},
        {R, "example", 1, REASON_NOT_LISTED, "default", ""},
        {R, "cdn.search.example", 1, REASON_NOT_LISTED, "default", ""},
        {R, "a.cdn.search.example", 1, REASON_ALLOWED, "search@1.4.2 tools/search.yaml:7", "search:7"},
        {R, "a.b.cdn.search.example", 1, REASON_NOT_LISTED, "default", ""},
        {R, "a.evilcdn.search.example", 1, REASON_NOT_LISTED, "default", ""},
        {R, "wide.example", 1, REASON_NOT_LISTED, "default", ""},
        {R, "evilwide.example", 1, REASON_NOT_LISTED, "default", ""},
        {R, "a.wide.example", 1, REASON_ALLOWED, WIDE "6", "wide:6 wide:9"},
        {R, "a.b.wide.example", 1, REASON_ALLOWED, WIDE "6", "wide:6 wide:11"},
        {R, "a.c.b.wide.example", 1, REASON_ALLOWED, WIDE "6", "wide:6 wide:11"},
        {R, "b.wide.example", 1, REASON_ALLOWED, WIDE "6", "wide:6 wide:9"},
        {R, "api-1.wide.example", 1, REASON_ALLOWED, WIDE "6", "wide:6 wide:7 wide:9 wide:10"},
        {R, "api-.wide.example", 1, REASON_ALLOWED, WIDE "6", "wide:6 wide:7 wide:9"},
        {R, "api-1.x.wide.example", 1, REASON_ALLOWED, WIDE "6", "wide:6"},
        {R, "a-vv-x-x.wide.example", 1, REASON_ALLOWED, WIDE "6", "wide:6 wide:8 wide:9"},
        {R, "a-v-y.wide.example", 1, REASON_ALLOWED, WIDE "6", "wide:6 wide:9"},
        /* the deny list beats everything, the first entry counts */
        {R, "bad.wide.example", 1, REASON_DENY_LIST, "deny agents.yaml:7", ""},
        {R, "a.secret.wide.example", 1, REASON_DENY_LIST, "deny agents.yaml:6", ""},
        {R, "secret.wide.example", 1, REASON_ALLOWED, WIDE "6", "wide:6 wide:9"},
        {R, "a.b.secret.wide.example", 1, REASON_ALLOWED, WIDE "6", "wide:6"},
        {R, "x-1.wide.example", 1, REASON_DENY_LIST, "deny agents.yaml:8", ""},
        {R, "y-1.wide.example", 1, REASON_DENY_LIST, "deny agents.yaml:10", ""},
        {R, "z-1.wide.example", 1, REASON_ALLOWED, WIDE "6", "wide:6 wide:9"},
        {R, "a.b.deep.wide.example", 1, REASON_DENY_LIST, "deny agents.yaml:9", ""},
        {"10.77.2.200", "bad.wide.example", 1, REASON_DENY_LIST, "deny agents.yaml:7", ""},
        {"10.77.9.9", "bad.wide.example", 1, REASON_UNKNOWN_CLIENT, "default", ""},
        /* types */
        {R, "mail.example.com", 15, REASON_ALLOWED, "search@1.4.2 tools/search.yaml:8", "search:8"},
        {R, "mail.example.com", 16, REASON_TYPE_NOT_LISTED, "search@1.4.2 tools/search.yaml:8", ""},
        {R, "api.search.example", 16, REASON_ALLOWED, API1, "search:10"},
        {R, "api.search.example", 65, REASON_TYPE_BYPASS, API1, ""},
        {R, "api.search.example", 64, REASON_TYPE_BYPASS, API1, ""},
        {R, "api.search.example", 255, REASON_TYPE_ANY, API1, ""},
        {R, "api.search.example", 5, REASON_TYPE_NOT_LISTED, API1, ""},
        {R, "only4.search.example", 28, REASON_TYPE_NOT_LISTED, "search@1.4.2 tools/search.yaml:11", ""},
        {R, "only4.search.example", 1, REASON_ALLOWED, "search@1.4.2 tools/search.yaml:11", "search:11"},
        {R, "other.example.com", 255, REASON_NOT_LISTED, "default", ""},
        {R, "other.example.com", 65, REASON_NOT_LISTED, "default", ""},
        /* reverse names */
        {R, "1.2.0.192.in-addr.arpa", 12, REASON_PTR_UNKNOWN, "default", ""},
        {R, "1.2.0.192.in-addr.arpa", 16, REASON_ALLOWED, WIDE "12", "wide:12"},
        {R, "2.2.0.192.in-addr.arpa", 16, REASON_NOT_LISTED, "default", ""},
        {R, "0.ip6.arpa", 12, REASON_PTR_UNKNOWN, "default", ""},
        {R, "api.search.example", 12, REASON_TYPE_NOT_LISTED, API1, ""},
        {R, "xip6.arpa", 12, REASON_NOT_LISTED, "default", ""},
        /* canaries */
        {R, "use-application-dns.net", 1, REASON_CANARY, "default", ""},
        {R, "MASK.icloud.com", 28, REASON_CANARY, "default", ""},
        {R, "mask-h2.icloud.com", 65, REASON_CANARY, "default", ""},
        {R, "mask.icloud.co", 1, REASON_NOT_LISTED, "default", ""},
        {R, "nask.icloud.com", 1, REASON_NOT_LISTED, "default", ""},
        {R, "x.mask.icloud.com", 1, REASON_NOT_LISTED, "default", ""},
        {"10.77.9.9", "use-application-dns.net", 1, REASON_UNKNOWN_CLIENT, "default", ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) decide_row(&rows[i]);
}
END_TEST

START_TEST(canaries_off) {
    char text[sizeof FILES_GATEWAY + 64];
    snprintf(text, sizeof text, "%sdns: { canaries: false }\n", FILES_GATEWAY);
    files_write(&files, "gateway.yaml", text);
    ck_assert_int_eq(files_load(&files, 1), 0);
    decide_row(&(struct row){R, "use-application-dns.net", 1, REASON_NOT_LISTED, "default", ""});
}
END_TEST

static uint32_t endpoint_at(const char *tool, uint32_t line) {
    for (uint32_t i = 0; i < policy_endpoint_count(&files.policy); i++) {
        const struct policy_endpoint *e = policy_endpoint(&files.policy, i);
        const char *name = policy_text(&files.policy, policy_tool(&files.policy, e->tool)->name);
        if (e->line == line && strcmp(name, tool) == 0) return i;
    }
    ck_abort_msg("no endpoint %s:%u", tool, line);
}

START_TEST(reach) {
    static const struct {
        const char *tool;
        uint32_t line;
        const char *remote;
        bool reaches;
    } rows[] = {
        {"search", 6, "8.8.8.8", true},          {"search", 6, "2600::1", true},
        {"search", 6, "10.1.1.1", false},        {"search", 6, "192.0.2.1", false},
        {"search", 6, "127.0.0.1", false},       {"search", 6, "169.254.169.254", false},
        {"search", 6, "64:ff9b::808:808", false}, {"search", 6, "fd00::1", false},
        {"mail", 7, "198.51.100.9", true},       {"mail", 7, "198.51.101.9", false},
        {"mail", 7, "192.0.2.1", false},         {"mail", 7, "10.0.0.1", false},
        {"mail", 8, "2600::9", true},            {"mail", 8, "2601::9", false},
        {"mail", 9, "10.1.1.1", true},           {"mail", 9, "fd00::1", true},
        {"mail", 9, "10.77.1.99", false},        {"mail", 9, "10.77.2.1", false},
        {"mail", 9, "fd77:1::99", false},        {"mail", 9, "192.168.5.9", false},
        {"mail", 9, "192.168.6.9", true},        {"mail", 9, "127.0.0.1", false},
        {"mail", 9, "192.0.2.1", false},         {"mail", 9, "8.8.8.8", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct addr remote = files_addr(rows[i].remote);
        bool reaches = policy_endpoint_reaches(&files.policy,
                                               endpoint_at(rows[i].tool, rows[i].line), &remote);
        ck_assert_msg(reaches == rows[i].reaches, "%s:%u to %s", rows[i].tool, rows[i].line,
                      rows[i].remote);
    }
}
END_TEST

/* Of the other family, all the agent's addresses if they are few; none when they are many. */
START_TEST(clients) {
    struct addr found[POLICY_CLIENTS_MAX], research, six, builder;
    ck_assert_int_eq(addr_parse("10.77.1.17", &research), 0);
    ck_assert_int_eq(addr_parse("fd77:1::1f", &six), 0);
    ck_assert_int_eq(addr_parse("10.77.1.32", &builder), 0);
    uint32_t agent = policy_agent_of(&files.policy, &research);
    ck_assert_uint_eq(policy_clients(&files.policy, agent, &research, 4, found), 1);
    ck_assert(addr_equal(&found[0], &research));
    ck_assert_uint_eq(policy_clients(&files.policy, agent, &research, 6, found), 16);
    ck_assert(addr_equal(&found[15], &six));
    ck_assert_uint_eq(policy_clients(&files.policy, agent, &six, 4, found), 16);
    agent = policy_agent_of(&files.policy, &builder);
    ck_assert_uint_eq(policy_clients(&files.policy, agent, &builder, 6, found), 0);
    ck_assert_uint_eq(policy_clients(&files.policy, agent, &six, 4, found), 0);
    /* Several sources, which together are too many. */
    files_write(&files, "policy/agents.yaml",
                "agents:\n  - { agent: few, sources: [10.77.1.16/29, \"fd77:1::17\", 10.77.1.40/30], "
                "tools: [] }\n  - { agent: many, sources: [10.77.2.16/29, \"fd77:1::18\", "
                "10.77.2.32/30, 10.77.2.40/29], tools: [] }\n");
    ck_assert_int_eq(files_load(&files, 1), 0);
    struct addr few = files_addr("fd77:1::17"), many = files_addr("fd77:1::18");
    struct addr last = files_addr("10.77.1.43");
    ck_assert_uint_eq(policy_clients(&files.policy, policy_agent_of(&files.policy, &few), &few, 4,
                                     found), 12);
    ck_assert(addr_equal(&found[11], &last));
    ck_assert_uint_eq(policy_clients(&files.policy, policy_agent_of(&files.policy, &many), &many, 4,
                                     found), 0);
}
END_TEST

START_TEST(agent_tools) {
    ck_assert(policy_agent_has(&files.policy, 0, endpoint_at("wide", 6)));
    ck_assert(!policy_agent_has(&files.policy, 1, endpoint_at("wide", 6)));
    ck_assert(policy_agent_has(&files.policy, 1, endpoint_at("mail", 6)));
    ck_assert(!policy_agent_has(&files.policy, 1, endpoint_at("search", 7))); /* it has search@2 */
    ck_assert(!policy_agent_has(&files.policy, 2, endpoint_at("mail", 6)));
}
END_TEST

START_TEST(patterns) {
    static const struct {
        const char *glob, *label;
        bool matches;
    } rows[] = {
        {"*", "a", true},         {"*", "", true},          {"a*", "a", true},
        {"a*", "b", false},       {"*a", "ba", true},       {"*a", "ab", false},
        {"a*b*c", "abc", true},   {"a*b*c", "axbybzc", true}, {"a*b*c", "axbyb", false},
        {"a*b", "ab", true},      {"a*b", "a", false},      {"ab", "ab", true},
        {"ab", "abc", false},     {"*a*", "xay", true},     {"*a*", "xxy", false},
        {"a**", "ab", true},      {"a*", "", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool matches = image_glob_matches((const uint8_t *)rows[i].glob, strlen(rows[i].glob),
                                          (const uint8_t *)rows[i].label, strlen(rows[i].label));
        ck_assert_msg(matches == rows[i].matches, "%s %s", rows[i].glob, rows[i].label);
    }
    /* The worst case for a matcher that tries everything: 2^20 ways, here 63 x 63 steps. */
    static const char stars[] = "a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b";
    uint8_t label[63];
    memset(label, 'a', sizeof label);
    ck_assert(!image_glob_matches((const uint8_t *)stars, sizeof stars - 1, label, sizeof label));
}
END_TEST

/* ---- against a plain walk over everything ---------------------------------------------------- */

static uint32_t random_state;
static uint32_t pick(uint32_t bound) {
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % bound;
}

/* Few labels, so that names meet. `text` holds 64 bytes at least. */
static void random_name(char text[128], bool pattern) {
    static const char *const labels[] = {"a", "b", "ab", "ba", "aab"};
    static const char *const wild[] = {"*", "**", "a*", "*b", "a*b"};
    struct buf b = buf_over(text, 127);
    unsigned count = pick(4);
    if (pattern && pick(2)) buf_format(&b, "%s.", wild[pick(5)]);
    for (unsigned i = 0; i < count; i++) buf_format(&b, "%s.", labels[pick(5)]);
    buf_put_text(&b, pick(2) ? "one.test" : "two.test");
    text[b.used] = '\0';
}

static void random_policy(void) {
    static const char head[] = "tool: t%u\nversion: 1\nowner: a\npurpose: b\nendpoints:\n";
    char text[8192], name[128], path[64];
    for (unsigned t = 0; t < 6; t++) {
        size_t used = (size_t)snprintf(text, sizeof text, head, t);
        unsigned count = pick(30);
        for (unsigned i = 0; i < count; i++) {
            random_name(name, true);
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     " - { name: '%s', protocol: tcp, port: %u, types: [%s] }\n",
                                     name, 1000 + i, pick(2) ? "A" : "A, TXT");
        }
        if (count == 0) snprintf(text + used - strlen("\n"), sizeof text - used, " []\n");
        snprintf(path, sizeof path, "policy/tools/t%u.yaml", t);
        files_write(&files, path, text);
    }
    size_t used = (size_t)snprintf(text, sizeof text, "agents:\n");
    for (unsigned a = 0; a < 4; a++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 " - { agent: a%u, sources: [10.77.1.%u], tools: [", a, a);
        unsigned first = pick(6), count = pick(6);
        for (unsigned i = 0; i < count; i++) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%st%u", i ? ", " : "",
                                     (first + 5 * i) % 6);
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "] }\n");
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "deny: [x.test");
    for (unsigned i = pick(4); i > 0; i--) {
        random_name(name, true);
        used += (size_t)snprintf(text + used, sizeof text - used, ", '%s'", name);
    }
    snprintf(text + used, sizeof text - used, "]\n");
    files_write(&files, "policy/agents.yaml", text);
}

/* What the documentation says, without any index. */
static void decide_plainly(const struct policy *p, uint32_t agent, const struct name *name,
                           uint16_t type, struct decision *d) {
    *d = (struct decision){.agent = agent, .deny = POLICY_NONE, .endpoint = POLICY_NONE};
    for (uint32_t i = 0; i < policy_deny_count(p); i++) {
        const struct policy_pattern *q = policy_pattern(p, policy_deny(p, i)->pattern);
        if (!policy_pattern_matches(q, name)) continue;
        d->deny = i;
        d->reason = REASON_DENY_LIST;
        return;
    }
    const struct policy_agent *a = policy_agent(p, agent);
    for (uint32_t k = 0; k < a->tool_count; k++) {
        const struct policy_tool *t = policy_tool(p, policy_agent_tool(p, a->tool_first + k));
        for (uint32_t i = t->endpoint_first; i < t->endpoint_first + t->endpoint_count; i++) {
            const struct policy_endpoint *e = policy_endpoint(p, i);
            if (!policy_pattern_matches(policy_pattern(p, e->pattern), name)) continue;
            if (d->endpoint == POLICY_NONE) d->endpoint = i;
            for (unsigned n = 0; n < e->type_count; n++) {
                if (e->types[n] == type && d->count < POLICY_MATCH_MAX) d->endpoints[d->count++] = i;
            }
        }
    }
    d->reason = d->endpoint == POLICY_NONE ? REASON_NOT_LISTED
                : d->count > 0             ? REASON_ALLOWED
                                           : REASON_TYPE_NOT_LISTED;
}

START_TEST(like_a_plain_walk) {
    unsigned most = 0, denied = 0, allowed = 0;
    for (unsigned round = 0; round < 60; round++) {
        random_state = round + 1;
        files_end(&files);
        files_start(&files);
        files_write(&files, "gateway.yaml", FILES_GATEWAY);
        random_policy();
        ck_assert_msg(files_load(&files, 1) == 0, "%s", files.report);
        for (unsigned i = 0; i < 400; i++) {
            struct decision d, e;
            char text[128];
            random_name(text, false);
            struct name name = files_name(text);
            uint8_t bytes[4] = {10, 77, 1, (uint8_t)pick(4)};
            struct addr client = addr_from4(bytes);
            uint16_t type = pick(2) ? TYPE_A : TYPE_TXT;
            policy_decide(&files.policy, &client, &name, type, &d);
            ck_assert_uint_eq(d.agent, bytes[3]);
            decide_plainly(&files.policy, d.agent, &name, type, &e);
            ck_assert_msg(d.reason == e.reason && d.deny == e.deny && d.endpoint == e.endpoint &&
                              d.count == e.count &&
                              memcmp(d.endpoints, e.endpoints, d.count * sizeof *d.endpoints) == 0,
                          "round %u %s", round, text);
            if (d.count > most) most = d.count;
            denied += d.reason == REASON_DENY_LIST;
            allowed += d.reason == REASON_ALLOWED;
        }
    }
    /* The rounds must have met what they are for. */
    ck_assert_uint_ge(most, 10);
    ck_assert_uint_ge(denied, 500);
    ck_assert_uint_ge(allowed, 5000);
}
END_TEST

/* More endpoints than a decision names: the first ones, in order, whatever order they are found. */
START_TEST(too_many_matches) {
    char text[16384];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "tool: many\nversion: 1\nowner: a\npurpose: b\nendpoints:\n");
    for (unsigned i = 0; i < 50; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 " - { name: %s, protocol: tcp, port: %u }\n",
                                 i % 2 ? "a.many.example" : "'**.many.example'", 1000 + i);
    }
    files_write(&files, "policy/tools/many.yaml", text);
    files_write(&files, "policy/agents.yaml",
                "agents: [ { agent: a, sources: [10.77.1.1], tools: [many] } ]\n");
    ck_assert_msg(files_load(&files, 1) == 0, "%s", files.report);
    struct addr client = files_addr("10.77.1.1");
    struct name name = files_name("a.many.example");
    struct decision d, e;
    policy_decide(&files.policy, &client, &name, TYPE_A, &d);
    decide_plainly(&files.policy, 0, &name, TYPE_A, &e);
    ck_assert_uint_eq(d.count, POLICY_MATCH_MAX);
    ck_assert_mem_eq(d.endpoints, e.endpoints, sizeof d.endpoints);
    /* No deny list: the question of it is answered without a look at the name. */
    ck_assert_uint_eq(policy_deny_count(&files.policy), 0);
    ck_assert_uint_eq(policy_denies(&files.policy, &name), POLICY_NONE);
}
END_TEST

/* The longest names: 127 labels, and 255 octets. */
START_TEST(long_names) {
    char text[600];
    struct buf b = buf_over(text, sizeof text - 1);
    for (unsigned i = 0; i < 120; i++) buf_put_text(&b, "a.");
    buf_put_text(&b, "wide.example");
    text[b.used] = '\0';
    decide_row(&(struct row){R, text, 1, REASON_ALLOWED, WIDE "6", "wide:6"});
    b = buf_over(text, sizeof text - 1);
    for (unsigned i = 0; i < 127; i++) buf_put_text(&b, i ? ".a" : "a");
    text[b.used] = '\0';
    decide_row(&(struct row){R, text, 1, REASON_NOT_LISTED, "default", ""});
}
END_TEST

/* Two rules whose hashes agree cannot be had; two that share a bucket are told apart by the hash,
 * and equal hashes by what they stand for: a pattern is only found under its own kind and base. */
START_TEST(hash_is_not_trusted) {
    struct policy *p = &files.policy;
    struct addr client = files_addr(R);
    struct name name = files_name("api.search.example");
    struct image_rule *rules = (struct image_rule *)(uintptr_t)image_section(p, IMAGE_RULE);
    struct image_suffixes s;
    image_hash_suffixes(&name, &s);
    uint64_t hash = image_hash_rule(s.state[0], PATTERN_EXACT);
    for (uint32_t i = 0; i < image_count(p, IMAGE_RULE); i++) {
        if (rules[i].hash != hash) continue;
        struct image_rule right = rules[i];
        for (uint32_t other = 0; other < image_count(p, IMAGE_RULE); other++) {
            struct decision d;
            if (other != i) {
                rules[i].base = rules[other].base;
                rules[i].base_size = rules[other].base_size;
                rules[i].kind = rules[other].kind;
            }
            policy_decide(p, &client, &name, TYPE_A, &d);
            ck_assert_int_eq(d.reason, other == i ? REASON_ALLOWED : REASON_NOT_LISTED);
            rules[i] = right;
        }
        /* Of the right length and kind, and still another name. */
        uint8_t *base = (uint8_t *)(uintptr_t)image_section(p, IMAGE_RULE_BASE) + right.base;
        struct decision d;
        base[1] ^= 1;
        policy_decide(p, &client, &name, TYPE_A, &d);
        ck_assert_int_eq(d.reason, REASON_NOT_LISTED);
        base[1] ^= 1;
        return;
    }
    ck_abort_msg("the rule is not there");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("decide");
    TCase *c = tcase_create("decide");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, decisions);
    tcase_add_test(c, canaries_off);
    tcase_add_test(c, reach);
    tcase_add_test(c, clients);
    tcase_add_test(c, agent_tools);
    tcase_add_test(c, patterns);
    tcase_add_test(c, like_a_plain_walk);
    tcase_add_test(c, too_many_matches);
    tcase_add_test(c, long_names);
    tcase_add_test(c, hash_is_not_trusted);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
