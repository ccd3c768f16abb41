/* load_test.c: what the loader makes of files, and what it says about them, line for line. */
#include <fcntl.h>
#include <sys/wait.h>

#include "tests/unit/policy_files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct files files;

static const char tool_t[] = "tool: t\nversion: 1\nowner: o\npurpose: p\nendpoints:\n"
                             "  - { name: a.example.com, protocol: https, data: public }\n";

static void setup(void) {
    files_start(&files);
    files_write(&files, "gateway.yaml",
                "agents:\n"
                "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
                "uplink: { interface: eth0 }\n"
                "upstreams: [ { address: 9.9.9.9 } ]\n"
                "policy: policy\n"
                "management: { interface: eth3, subnets: [192.168.5.0/24] }\n");
    files_write(&files, "policy/agents.yaml",
                "agents:\n  - { agent: a, sources: [10.77.1.16/28], tools: [t] }\n");
    files_write(&files, "policy/tools/t.yaml", tool_t);
    files_write(&files, "policy/tools/v1.yaml",
                "tool: v\nversion: 1\nowner: o\npurpose: p\nendpoints:\n"
                "  - { name: o.example.com, protocol: https, data: public }\n");
    files_write(&files, "policy/tools/v2.yaml",
                "tool: v\nversion: 2\nowner: o\npurpose: p\nendpoints:\n"
                "  - { name: o.example.com, protocol: https, data: public }\n");
}

static void teardown(void) { files_end(&files); }

/* ---- tables ---------------------------------------------------------------------------------- */

struct case_row {
    const char *text, *report;
};

#include "tests/unit/load_endpoint_cases.h"
#include "tests/unit/load_gateway_cases.h"
#include "tests/unit/load_policy_cases.h"

/* The report with `prefix` in front of each line that does not name a file of its own. */
static void expect(const char *prefix, const char *report, const char *input) {
    char expected[8192] = "";
    size_t used = 0;
    for (const char *line = report; *line != '\0';) {
        size_t size = strcspn(line, "\n");
        bool own = line[0] < '0' || line[0] > '9';
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%.*s\n",
                                 own ? "" : prefix, (int)size, line);
        line += size + (line[size] == '\n');
    }
    ck_assert_msg(strcmp(files.report, expected) == 0, "input:\n%s\nsaid:\n%s\nexpected:\n%s", input,
                  files.report, expected);
}

static void run_rows(const char *file, const char *prefix, const char *before, const char *after,
                     const struct case_row *rows, size_t count) {
    char text[8192];
    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%s%s%s", before, rows[i].text, after);
        files_write(&files, file, text);
        bool fine = files_load(&files, 1) == 0;
        expect(prefix, rows[i].report, text);
        unsigned lines = 0;
        for (const char *c = files.report; *c != '\0'; c++) lines += *c == '\n';
        ck_assert_uint_eq(files.result.faults + files.result.warnings, lines);
        ck_assert(fine == (files.result.faults == 0));
    }
}

START_TEST(gateway_yaml) {
    run_rows("gateway.yaml", "gateway.yaml:", "", "", gateway_rows, COUNT(gateway_rows));
}
END_TEST

START_TEST(endpoints) {
    run_rows("policy/tools/t.yaml", "policy/tools/t.yaml:",
             "tool: t\nversion: 1\nowner: o\npurpose: p\nendpoints:\n  - ", "\n", endpoint_rows,
             COUNT(endpoint_rows));
}
END_TEST

START_TEST(manifests) {
    run_rows("policy/tools/t.yaml", "policy/tools/t.yaml:", "", "", manifest_rows,
             COUNT(manifest_rows));
}
END_TEST

START_TEST(agents_yaml) {
    run_rows("policy/agents.yaml", "policy/agents.yaml:", "", "", agents_rows, COUNT(agents_rows));
}
END_TEST

START_TEST(approvers_yaml) {
    run_rows("policy/approvers.yaml", "policy/approvers.yaml:", "", "", approvers_rows,
             COUNT(approvers_rows));
}
END_TEST

/* ---- files and folders ----------------------------------------------------------------------- */

static void fails(const char *report) {
    ck_assert_int_eq(files_load(&files, 1), -EINVAL);
    ck_assert_msg(strcmp(files.report, report) == 0, "said:\n%s\nexpected:\n%s", files.report, report);
}

static void passes(const char *report) {
    ck_assert_msg(files_load(&files, 1) == 0, "%s", files.report);
    ck_assert_msg(strcmp(files.report, report) == 0, "said:\n%s\nexpected:\n%s", files.report, report);
}

static void drop(const char *name) {
    char path[512];
    files_path(&files, name, path);
    ck_assert_int_eq(remove(path), 0);
}

#define UNREADABLE "does not exist; make this file, or correct the path\n"

START_TEST(missing_files) {
    drop("policy/agents.yaml");
    fails("policy/agents.yaml:1:1: " UNREADABLE);
    drop("gateway.yaml");
    fails("gateway.yaml:1:1: " UNREADABLE);
}
END_TEST

START_TEST(no_tools_folder) {
    drop("policy/tools/t.yaml");
    drop("policy/tools/v1.yaml");
    drop("policy/tools/v2.yaml");
    fails("policy/agents.yaml:2:51: unknown tool \"t\"; add its manifest to tools/, or remove it "
          "here\n");
    drop("policy/tools");
    fails("policy/tools:1:1: does not exist; make this directory, with a manifest for each tool\n");
    files_write(&files, "policy/tools", "x");
    fails("policy/tools:1:1: cannot be read as a directory: Not a directory; check its kind and "
          "permissions\n");
}
END_TEST

START_TEST(not_files) {
    char path[512];
    drop("policy/agents.yaml");
    files_path(&files, "policy/agents.yaml", path);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    fails("policy/agents.yaml:1:1: is a directory; a file is needed here\n");
    drop("policy/agents.yaml");
    ck_assert_int_eq(mkfifo(path, 0644), 0);
    fails("policy/agents.yaml:1:1: is no regular file; devices, pipes and sockets are not read\n");
    drop("policy/agents.yaml");
    ck_assert_int_eq(symlink("nowhere", path), 0);
    fails("policy/agents.yaml:1:1: " UNREADABLE);
    drop("policy/agents.yaml");
    ck_assert_int_eq(symlink("agents.yaml", path), 0);
    fails("policy/agents.yaml:1:1: cannot be read: Too many levels of symbolic links; check the "
          "path\n");
    drop("policy/agents.yaml");
    files_write(&files, "policy/agents.yaml", "");
    ck_assert_int_eq(truncate(path, (16 << 20) + 1), 0);
    fails("policy/agents.yaml:1:1: is larger than 16 MiB; split it up\n");
}
END_TEST

/* As root everything may be read, so a child without that right tries. */
START_TEST(unreadable) {
    char path[512];
    files_path(&files, "policy/agents.yaml", path);
    ck_assert_int_eq(chmod(path, 0), 0);
    ck_assert_int_eq(chmod(files.top, 0755), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && setuid(65534) < 0) _exit(2);
        files_load(&files, 1);
        _exit(strcmp(files.report, "policy/agents.yaml:1:1: may not be read; let the user that loads "
                                   "the policy read it (see chmod)\n") == 0 ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* Editors, git and minisign leave files of their own; what looks like a mistake is told. */
START_TEST(other_files) {
    files_write(&files, "policy/tools/t.yaml.minisig", "untrusted comment: \n");
    files_write(&files, "policy/tools/README.md", "{{{");
    files_write(&files, "policy/tools/.t.yaml.swp", "{{{");
    files_write(&files, "policy/tools/.hidden.yaml", "{{{");
    files_write(&files, "policy/tools/t.yaml~", "{{{");
    passes("");
    files_write(&files, "policy/tools/u.yml", "{{{");
    passes("policy/tools:1:1: warning: u.yml is not read; rename it to end in .yaml\n");
    files_write(&files, "policy/tools/a b.yaml", tool_t);
    files_write(&files, "policy/tools/\033[31m.yaml", tool_t);
    ck_assert_int_eq(files_load(&files, 1), -EINVAL);
    ck_assert_ptr_nonnull(strstr(files.report, "policy/tools:1:1: the file name \"a b.yaml\" may hold "
                                               "printable ASCII only; rename it\n"));
    ck_assert_ptr_nonnull(strstr(files.report, "the file name \"\\x1b[31m.yaml\" may hold"));
    ck_assert_ptr_null(strchr(files.report, '\033'));
}
END_TEST

START_TEST(same_tool_twice) {
    files_write(&files, "policy/tools/u.yaml", tool_t);
    fails("policy/tools/u.yaml:1:7: t@1 is defined twice (first in tools/t.yaml:1); change the "
          "version, or remove one\n");
}
END_TEST

/* One broken manifest, and nothing but its own fault is told: its tool is known nevertheless. */
START_TEST(faults_do_not_breed) {
    files_write(&files, "policy/tools/t.yaml", "tool: t\nversion: 1\nendpoints: [\n");
    fails("policy/tools/t.yaml:3:12: this [ is not closed or a comma is missing (line 4); write a "
          "comma between entries and ] at the end\n");
    files_write(&files, "policy/tools/t.yaml", "tool: t\nversion: 1\ncolour: x\nendpoints: x\n");
    /* Warnings come last. */
    fails("policy/tools/t.yaml:3:1: unknown key \"colour\" in a manifest; it takes tool, version, "
          "digest, owner, purpose, expires, endpoints\n"
          "policy/tools/t.yaml:4:12: endpoints must be a list; write [x]\n"
          "policy/tools/t.yaml:1:7: warning: t@1 has no owner; add it, so that a reviewer knows whom "
          "to ask\n");
    /* A tool whose name cannot be seen may be the one that is named. */
    files_write(&files, "policy/tools/t.yaml", "\xff");
    fails("policy/tools/t.yaml:1:1: holds a byte that is not UTF-8; save the file as UTF-8\n");
    files_write(&files, "policy/tools/t.yaml", "{ tool: [t], version: 1, x");
    ck_assert_int_eq(files_load(&files, 1), -EINVAL);
    ck_assert_uint_eq(files.result.faults, 1);
    /* Subnets that are not known for a fault are not held against sources. */
    files_write(&files, "policy/tools/t.yaml", tool_t);
    files_write(&files, "gateway.yaml",
                "agents: [ { interface: eth1, subnets: [10.77.1.0] } ]\nuplink: { interface: eth0 }\n"
                "upstreams: [ { address: 9.9.9.9 } ]\npolicy: policy\nstate: x\n");
    ck_assert_int_eq(files_load(&files, 1), -EINVAL);
    ck_assert_uint_eq(files.result.faults, 2);
    files_write(&files, "gateway.yaml",
                "agents: [ { interface: eth1, subnets: [10.77.1.0/33] } ]\n"
                "uplink: { interface: eth0 }\nupstreams: [ { address: 9.9.9.9 } ]\npolicy: policy\n");
    fails("gateway.yaml:1:40: subnet \"10.77.1.0/33\" has too many bits; IPv4 has at most /32, IPv6 "
          "/128\n");
}
END_TEST

/* All faults of all files in one go, in the order of the files. */
START_TEST(all_in_one_go) {
    files_write(&files, "gateway.yaml",
                "agents: [ { interface: eth1, subnets: [10.77.1.0/24] } ]\n"
                "uplink: { interface: eth0 }\nupstreams: []\npolicy: policy\nstate: x\n");
    files_write(&files, "policy/tools/t.yaml",
                "tool: t\nversion: 1\nowner: o\npurpose: p\nendpoints:\n"
                "  - { name: \"*\", protocol: https, data: public }\n"
                "  - { name: a.example.com, protocol: tcp, port: 0, data: public }\n");
    files_write(&files, "policy/agents.yaml",
                "agents:\n  - { agent: a, sources: [10.77.9.16/28], tools: [tt] }\ndney: []\n");
    files_write(&files, "policy/approvers.yaml", "approvers: x\n");
    fails("gateway.yaml:3:12: upstreams is empty; write at least one, as in - { address: "
          "198.51.100.53 }\n"
          "gateway.yaml:5:8: state \"x\" is relative; write the whole path, from /\n"
          "policy/approvers.yaml:1:12: approvers must be a list; write [x]\n"
          "policy/tools/t.yaml:6:13: \"*\" would match every name; list the names that are needed\n"
          "policy/tools/t.yaml:7:49: port is \"0\"; write a number from 1 to 65535, a range as in "
          "8000-8010, or a list of them\n"
          "policy/agents.yaml:2:27: source 10.77.9.16/28 is in none of the agent subnets; correct it, "
          "or add its subnet to gateway.yaml\n"
          "policy/agents.yaml:2:51: unknown tool \"tt\"; did you mean \"t\"?\n"
          "policy/agents.yaml:3:1: unknown key \"dney\" in agents.yaml; did you mean \"deny\"?\n"
          "policy/approvers.yaml:1:1: warning: approvals are not enforced in this version; manifests "
          "count without signatures\n");
}
END_TEST

START_TEST(expired_is_left_out) {
    files_write(&files, "policy/agents.yaml",
                "agents:\n  - { agent: a, sources: [10.77.1.16/28], tools: [old, t] }\n");
    files_write(&files, "policy/tools/old.yaml",
                "tool: old\nversion: 1\nowner: o\npurpose: p\nexpires: 2026-11-30\nendpoints:\n"
                "  - { name: o.example.com, protocol: https, data: public }\n"
                "  - { address: 8.8.8.8, protocol: https, data: public }\n");
    passes("policy/tools/old.yaml:5:10: warning: old@1 expired on 2026-11-30 and is left out; have it "
           "reviewed and write a later date, or remove the file\n");
    ck_assert_uint_eq(policy_tool_count(&files.policy), 3);
    ck_assert_uint_eq(policy_static_count(&files.policy), 0);
    struct decision d;
    struct addr client = files_addr("10.77.1.17");
    struct name gone = files_name("o.example.com"), stays = files_name("a.example.com");
    policy_decide(&files.policy, &client, &gone, TYPE_A, &d);
    ck_assert_int_eq(d.reason, REASON_NOT_LISTED);
    policy_decide(&files.policy, &client, &stays, TYPE_A, &d);
    ck_assert_int_eq(d.reason, REASON_ALLOWED);
}
END_TEST

/* ---- values ---------------------------------------------------------------------------------- */

START_TEST(defaults) {
    passes("");
    const struct policy_gateway *g = policy_gateway(&files.policy);
    ck_assert_uint_eq(g->masquerade, 1);
    ck_assert_uint_eq(g->ipv6, IPV6_AUTO);
    ck_assert_uint_eq(g->deny, DENY_NXDOMAIN);
    ck_assert_uint_eq(g->canaries, 1);
    ck_assert_uint_eq(g->min_lifetime, 30);
    ck_assert_uint_eq(g->max_lifetime, 3600);
    ck_assert_uint_eq(g->grace, 15);
    ck_assert_uint_eq(g->when_full, WHEN_FULL_REFUSE);
    ck_assert_uint_eq(g->openings_per_client, 4096);
    ck_assert_uint_eq(g->addresses_per_name, 256);
    ck_assert_uint_eq(g->queries_per_second, 500);
    ck_assert_uint_eq(g->pending_per_client, 64);
    ck_assert_str_eq(g->name, "");
    ck_assert_str_eq(g->log_directory, "/var/log/tidegate");
    ck_assert_str_eq(g->policy_directory, "policy");
    ck_assert_str_eq(g->state_directory, "/var/lib/tidegate");
    ck_assert_str_eq(g->runtime_directory, "/run/tidegate");
}
END_TEST

START_TEST(settings) {
    files_write(&files, "gateway.yaml",
                "name: gw-7\n"
                "agents:\n  - interface: eth1\n    subnets: [10.77.1.0/24]\n"
                "uplink: { interface: eth0, masquerade: false, ipv6: no }\n"
                "upstreams: [ { address: \"2620:fe::fe\", port: 5300 } ]\n"
                "dns: { deny: nodata, min_lifetime: 5s, max_lifetime: 2m, grace: 0s, canaries: false }\n"
                "log: { directory: /l, when_full: drop, segment_bytes: 4096, keep: 3 }\n"
                "policy: policy\nstate: /s\nruntime: /r\n"
                "limits: { openings_per_client: 1, addresses_per_name: 2, queries_per_second: 3, "
                "pending_per_client: 4 }\n");
    passes("");
    const struct policy_gateway *g = policy_gateway(&files.policy);
    ck_assert_str_eq(g->name, "gw-7");
    ck_assert_uint_eq(g->masquerade, 0);
    ck_assert_uint_eq(g->ipv6, IPV6_NO);
    ck_assert_uint_eq(g->upstream_count, 1);
    ck_assert_uint_eq(g->upstreams[0].address.family, 6);
    ck_assert_uint_eq(g->upstreams[0].port, 5300);
    ck_assert_uint_eq(g->deny, DENY_NODATA);
    ck_assert_uint_eq(g->min_lifetime, 5);
    ck_assert_uint_eq(g->max_lifetime, 120);
    ck_assert_uint_eq(g->grace, 0);
    ck_assert_uint_eq(g->canaries, 0);
    ck_assert_uint_eq(g->when_full, WHEN_FULL_DROP);
    ck_assert_uint_eq(g->log_segment_bytes, 4096);
    ck_assert_uint_eq(g->log_keep, 3);
    ck_assert_str_eq(g->log_directory, "/l");
    ck_assert_str_eq(g->state_directory, "/s");
    ck_assert_str_eq(g->runtime_directory, "/r");
    ck_assert_uint_eq(g->openings_per_client, 1);
    ck_assert_uint_eq(g->addresses_per_name, 2);
    ck_assert_uint_eq(g->queries_per_second, 3);
    ck_assert_uint_eq(g->pending_per_client, 4);
}
END_TEST

/* The folder alone: sources are held against nothing, everything else is checked. */
START_TEST(folder_alone) {
    files_write(&files, "policy/agents.yaml",
                "agents:\n  - { agent: a, sources: [172.16.0.0/12], tools: [t] }\n");
    ck_assert_msg(files_load(&files, 0) == 0, "%s", files.report);
    ck_assert_str_eq(files.report, "");
    ck_assert_uint_eq(policy_gateway(&files.policy)->agent_interfaces, 0);
    files_write(&files, "policy/agents.yaml", "agents: x\n");
    ck_assert_int_eq(files_load(&files, 0), -EINVAL);
    ck_assert_str_eq(files.report, "policy/agents.yaml:1:9: agents must be a list; write [x]\n");
    struct load_source source = {.directory = "/nonexistent", .public_suffix_list = files_list()};
    struct load_result result;
    FILE *nowhere = fopen("/dev/null", "w");
    ck_assert_int_eq(load_policy(&source, nowhere, &result), -EINVAL);
    fclose(nowhere);
}
END_TEST

/* What is shipped as an example has no fault and needs no warning. */
START_TEST(examples) {
    static const struct load_source sources[] = {
        {.config = "conf/gateway.yaml", .public_suffix_list = "conf/public_suffix_list.dat"},
        {.directory = "conf/policy", .public_suffix_list = "conf/public_suffix_list.dat"},
    };
    for (size_t i = 0; i < COUNT(sources); i++) {
        struct load_result result;
        char *report;
        size_t size;
        FILE *out = open_memstream(&report, &size);
        int error = load_policy(&sources[i], out, &result);
        fclose(out);
        ck_assert_msg(error == 0 && size == 0, "%s", report);
        struct policy p;
        ck_assert_int_eq(policy_open(&p, result.image, result.size), 0);
        ck_assert_uint_eq(policy_agent_count(&p), 2);
        ck_assert_uint_eq(policy_static_count(&p), 1);
        load_result_free(&result);
        free(report);
    }
}
END_TEST

static void digest_here(char text[POLICY_DIGEST_TEXT_MAX]) {
    passes("");
    policy_digest_text(&files.policy, text);
}

/* The image is what the files say: not where they are, in which order the folder lists them, or
 * what a comment says. */
START_TEST(same_files_same_image) {
    char here[POLICY_DIGEST_TEXT_MAX], there[POLICY_DIGEST_TEXT_MAX];
    digest_here(here);
    digest_here(there);
    ck_assert_str_eq(here, there);
    teardown();
    setup();
    drop("policy/tools/t.yaml"); /* made again last */
    files_write(&files, "policy/tools/t.yaml", tool_t);
    files_write(&files, "policy/README", "x");
    digest_here(there);
    ck_assert_str_eq(here, there);
    char text[sizeof tool_t + 32];
    snprintf(text, sizeof text, "%s  # a comment\n", tool_t);
    files_write(&files, "policy/tools/t.yaml", text);
    digest_here(there);
    ck_assert_str_eq(here, there);
    memcpy(strstr(text, "a.example"), "b", 1);
    files_write(&files, "policy/tools/t.yaml", text);
    digest_here(there);
    ck_assert_str_ne(here, there);
}
END_TEST

static void keys_of(uint8_t agent[POLICY_KEY_SIZE], uint8_t endpoint[POLICY_KEY_SIZE]) {
    passes("");
    memcpy(agent, policy_agent(&files.policy, 0)->key, POLICY_KEY_SIZE);
    memcpy(endpoint, policy_endpoint(&files.policy, 0)->key, POLICY_KEY_SIZE);
}

/* Keys outlive what does not concern them, and nothing else. */
START_TEST(keys_last) {
    static const struct { const char *text; bool same; } rows[] = {
        {"{ data: internal, types: [AAAA, A], protocol: tcp, port: [443], name: A.Example.com. }", true},
        {"{ name: b.example.com, protocol: https, data: public }", false},
        {"{ name: \"*.a.example.com\", protocol: https, data: public }", false},
        {"{ name: \"**.a.example.com\", protocol: https, data: public }", false},
        {"{ name: \"a*.a.example.com\", protocol: https, data: public }", false},
        {"{ name: a.example.com, protocol: quic, data: public }", false},
        {"{ name: a.example.com, protocol: tcp, port: [443, 444], data: public }", false},
        {"{ name: a.example.com, protocol: https, types: [A], data: public }", false},
        {"{ name: a.example.com, protocol: https, ranges: [private], data: public }", false},
        {"{ address: 8.8.8.8, protocol: https, data: public }", false},
    };
    uint8_t agent[2][POLICY_KEY_SIZE], endpoint[2][POLICY_KEY_SIZE];
    char text[512];
    keys_of(agent[0], endpoint[0]);
    for (size_t i = 0; i < COUNT(rows); i++) {
        snprintf(text, sizeof text, "# moved\ntool: t\nversion: 1\nowner: x\npurpose: y\nendpoints:\n"
                 "  - %s\n", rows[i].text);
        files_write(&files, "policy/tools/t.yaml", text);
        keys_of(agent[1], endpoint[1]);
        ck_assert_mem_eq(agent[0], agent[1], POLICY_KEY_SIZE);
        bool same = memcmp(endpoint[0], endpoint[1], POLICY_KEY_SIZE) == 0;
        ck_assert_msg(same == rows[i].same, "%s", rows[i].text);
    }
}
END_TEST

/* ---- bounds ---------------------------------------------------------------------------------- */

START_TEST(too_many_faults) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fputs("agents: []\ndeny:\n", out);
    for (unsigned i = 0; i < 30000; i++) fputs("- '*'\n", out);
    fclose(out);
    files_put(&files, "policy/agents.yaml", text, size);
    free(text);
    ck_assert_int_eq(files_load(&files, 1), -EINVAL);
    ck_assert_uint_eq(files.result.faults, 30000);
    ck_assert_ptr_nonnull(strstr(files.report, ":1:1: 20001 more faults and warnings are not shown; "
                                               "correct these first\n"));
}
END_TEST

/* Every way to be broken, cut anywhere: a fault each time, never a crash or a hang. */
START_TEST(cut_anywhere) {
    static const char *const names[] = {"gateway.yaml", "policy/agents.yaml", "policy/tools/t.yaml"};
    for (size_t f = 0; f < COUNT(names); f++) {
        char path[512], text[2048];
        files_path(&files, names[f], path);
        FILE *in = fopen(path, "r");
        size_t size = fread(text, 1, sizeof text, in);
        fclose(in);
        for (size_t cut = 0; cut < size; cut += 3) {
            files_put(&files, names[f], text, cut);
            files_load(&files, 1);
        }
        for (size_t at = 0; at < size; at += 2) {
            static const char others[] = "\0\t\n:-[]{}\"'*&!#|%@,\xff";
            char right = text[at];
            text[at] = others[at / 2 % (sizeof others - 1)];
            files_put(&files, names[f], text, size);
            files_load(&files, 1);
            text[at] = right;
        }
        files_put(&files, names[f], text, size);
    }
    passes("");
}
END_TEST

START_TEST(suffix_list) {
    char path[512], policy[512];
    struct load_source source = {.directory = policy, .public_suffix_list = path};
    struct load_result result;
    char *report;
    size_t size;
    files_path(&files, "list.dat", path);
    files_path(&files, "policy", policy);
    for (unsigned round = 0; round < 3; round++) {
        if (round == 1) files_write(&files, "list.dat", "");
        if (round == 2) files_write(&files, "list.dat", "com\nnet\n");
        FILE *out = open_memstream(&report, &size);
        ck_assert_int_eq(load_policy(&source, out, &result), -EINVAL);
        fclose(out);
        ck_assert_ptr_nonnull(strstr(report, round == 0
            ? "list.dat:1:1: the list of public suffixes is needed to judge wildcards; install it "
              "there, or make it with tools/update-psl\n"
            : "list.dat:1:1: is no list of public suffixes; make it with tools/update-psl\n"));
        free(report);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("load");
    TCase *c = tcase_create("load");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300);
    tcase_add_test(c, gateway_yaml);
    tcase_add_test(c, endpoints);
    tcase_add_test(c, manifests);
    tcase_add_test(c, agents_yaml);
    tcase_add_test(c, approvers_yaml);
    tcase_add_test(c, missing_files);
    tcase_add_test(c, no_tools_folder);
    tcase_add_test(c, not_files);
    tcase_add_test(c, unreadable);
    tcase_add_test(c, other_files);
    tcase_add_test(c, same_tool_twice);
    tcase_add_test(c, faults_do_not_breed);
    tcase_add_test(c, all_in_one_go);
    tcase_add_test(c, expired_is_left_out);
    tcase_add_test(c, defaults);
    tcase_add_test(c, settings);
    tcase_add_test(c, folder_alone);
    tcase_add_test(c, examples);
    tcase_add_test(c, same_files_same_image);
    tcase_add_test(c, keys_last);
    tcase_add_test(c, too_many_faults);
    tcase_add_test(c, cut_anywhere);
    tcase_add_test(c, suffix_list);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
