/* permit_test.c: which clients may have a vetted answer, under a policy made by the loader. */
#include "resolver/vet/vet.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/policy/load/load.h"
#include "tests/unit/scarce.h"

static struct load_result loaded;
static struct policy policy;

static void write_file(const char *folder, const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void remove_file(const char *folder, const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_int_eq(remove(path), 0);
}

static const char agents_yaml[] =
    "agents:\n"
    "  - { agent: one, sources: [10.77.1.0/28], tools: [plain, inside] }\n"
    "  - { agent: two, sources: [10.77.1.16/28], tools: [plain] }\n"
    "deny: [ \"*.bad.example\", worse.example ]\n";
static const char plain_yaml[] =
    "tool: plain\nversion: 1.0.0\nowner: a@example.com\npurpose: test\nendpoints:\n"
    "  - { name: api.good.example, protocol: https, data: public }\n";
static const char inside_yaml[] =
    "tool: inside\nversion: 1.0.0\nowner: a@example.com\npurpose: test\nendpoints:\n"
    "  - { name: api.good.example, protocol: tcp, port: 8443, data: public, ranges: [private] }\n";

static void setup(void) {
    char folder[] = "/tmp/tidegate-permit-XXXXXX", config[600], path[100];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(config, sizeof config,
             "agents:\n  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
             "uplink: { interface: eth0 }\nupstreams:\n  - { address: 198.51.100.54 }\n"
             "log: { directory: %s }\npolicy: %s\nstate: %s\nruntime: %s\n"
             "limits: { addresses_per_name: 3 }\n", folder, folder, folder, folder);
    snprintf(path, sizeof path, "%s/tools", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    write_file(folder, "gateway.yaml", config);
    write_file(folder, "agents.yaml", agents_yaml);
    write_file(folder, "tools/plain.yaml", plain_yaml);
    write_file(folder, "tools/inside.yaml", inside_yaml);
    snprintf(path, sizeof path, "%s/gateway.yaml", folder);
    struct load_source source = {.config = path,
                                 .public_suffix_list = "conf/public_suffix_list.dat"};
    ck_assert_int_eq(load_policy(&source, stderr, &loaded), 0);
    ck_assert_int_eq(policy_open(&policy, loaded.image, loaded.size), 0);
    ck_assert_uint_eq(policy_gateway(&policy)->addresses_per_name, 3);
    remove_file(folder, "gateway.yaml");
    remove_file(folder, "agents.yaml");
    remove_file(folder, "tools/plain.yaml");
    remove_file(folder, "tools/inside.yaml");
    remove_file(folder, "tools");
    ck_assert_int_eq(rmdir(folder), 0);
}

static void teardown(void) { load_result_free(&loaded); }

static struct name name_of(const char *text) {
    struct name n;
    ck_assert_msg(name_from_text(text, &n) == 0, "%s", text);
    return n;
}

/* An answer to `asked`: through the hops (separated by spaces) to the addresses. */
static struct vetted *answer_of(const char *asked, uint16_t type, const char *hops,
                                const char *addrs) {
    struct wire_record records[20];
    char text[2][500], *left, *part;
    struct wire_answer a = {.records = records};
    struct name name = name_of(asked), at = name;
    struct vetted *v = NULL;
    snprintf(text[0], sizeof text[0], "%s", hops);
    snprintf(text[1], sizeof text[1], "%s", addrs);
    for (left = text[0]; *hops && (part = strsep(&left, " "));) {
        struct wire_record *r = &records[a.count++];
        *r = (struct wire_record){.owner = at, .type = TYPE_CNAME, .class = 1, .ttl = 60,
                                  .target = name_of(part)};
        at = r->target;
    }
    for (left = text[1]; *addrs && (part = strsep(&left, " "));) {
        struct wire_record *r = &records[a.count++];
        *r = (struct wire_record){.owner = at, .type = type, .class = 1, .ttl = 60};
        ck_assert_int_eq(addr_parse(part, &r->addr), 0);
    }
    ck_assert_int_eq(vet_answer(&name, type, &a, &v), 0);
    return v;
}

static int permit(const char *client, const char *asked, uint16_t type, struct vetted *v) {
    struct addr addr;
    struct name name = name_of(asked);
    struct decision d;
    struct permitted *p = NULL;
    ck_assert_int_eq(addr_parse(client, &addr), 0);
    policy_decide(&policy, &addr, &name, type, &d);
    int result = vet_permit(v, &policy, &d, &p);
    ck_assert((result == 0) == (p != NULL));
    if (p)
        ck_assert_ptr_eq(permitted_vetted(p), v);
    ck_assert_ptr_null(permitted_free(p));
    return result;
}

#define API "api.good.example"
#define ONE "10.77.1.1"  /* may use both tools */
#define TWO "10.77.1.17" /* may use the one that stays outside */

START_TEST(c23_c34_permit) {
    static const struct { const char *client; uint16_t type; const char *hops, *addrs; int want; }
    rows[] = {
        {TWO, 1, "", "198.41.0.4", 0},
        {TWO, 1, "", "198.41.0.4 199.9.14.201 192.33.4.12", 0},
        {TWO, 1, "", "198.41.0.4 199.9.14.201 192.33.4.12 199.7.91.13", -REASON_NAME_CAP},
        {TWO, 28, "", "2001:503:ba3e::2:30", 0},
        {TWO, 1, "", "", 0}, /* no data is nothing to refuse */
        /* the deny list, at any hop; matched as everywhere */
        {TWO, 1, "cdn.other.example", "198.41.0.4", 0},
        {TWO, 1, "x.bad.example", "198.41.0.4", -REASON_CHAIN_DENIED},
        {TWO, 1, "X.Bad.Example", "198.41.0.4", -REASON_CHAIN_DENIED},
        {TWO, 1, "a.example b.example worse.example", "198.41.0.4", -REASON_CHAIN_DENIED},
        {TWO, 1, "worse.example fine.example", "198.41.0.4", -REASON_CHAIN_DENIED},
        {TWO, 1, "worse.example", "", -REASON_CHAIN_DENIED},
        {TWO, 1, "bad.example x.y.bad.example evilworse.example", "198.41.0.4", 0},
        /* c34: one bad address spoils the whole */
        {TWO, 1, "", "10.0.0.1", -REASON_REBINDING},
        {TWO, 1, "", "198.41.0.4 10.0.0.1", -REASON_REBINDING},
        {TWO, 1, "", "0.0.0.0", -REASON_REBINDING},
        {TWO, 1, "", "127.0.0.1", -REASON_REBINDING},
        {TWO, 1, "", "169.254.169.254", -REASON_REBINDING},
        {TWO, 1, "", "100.64.0.1", -REASON_REBINDING},
        {TWO, 1, "", "192.0.2.1", -REASON_REBINDING},
        {TWO, 1, "", "198.18.0.1", -REASON_REBINDING},
        {TWO, 1, "", "224.0.0.1", -REASON_REBINDING},
        {TWO, 1, "", "255.255.255.255", -REASON_REBINDING},
        {TWO, 1, "", "10.77.1.1", -REASON_REBINDING},
        {TWO, 28, "", "::", -REASON_REBINDING},
        {TWO, 28, "", "::1", -REASON_REBINDING},
        {TWO, 28, "", "fe80::1", -REASON_REBINDING},
        {TWO, 28, "", "fd00::1", -REASON_REBINDING},
        {TWO, 28, "", "ff02::1", -REASON_REBINDING},
        {TWO, 28, "", "2001:db8::1", -REASON_REBINDING},
        {TWO, 28, "", "::ffff:198.41.0.4", -REASON_REBINDING},
        {TWO, 28, "", "64:ff9b::c629:4", -REASON_REBINDING},
        {TWO, 28, "", "2002:c629:4::1", -REASON_REBINDING},
        {TWO, 28, "", "2001:503:ba3e::2:30 fd77:1::5", -REASON_REBINDING},
        /* one endpoint may lead inside: enough for the answer; never to the agents themselves */
        {ONE, 1, "", "10.0.0.1 198.41.0.4", 0},
        {ONE, 28, "", "fd00::1", 0},
        {ONE, 1, "", "10.77.1.9", -REASON_REBINDING},
        {ONE, 28, "", "fd77:1::9", -REASON_REBINDING},
        {ONE, 1, "", "127.0.0.1", -REASON_REBINDING},
        {ONE, 1, "worse.example", "10.0.0.1", -REASON_CHAIN_DENIED},
        /* not to be asked at all: the decision stands */
        {"10.99.0.1", 1, "", "198.41.0.4", -REASON_UNKNOWN_CLIENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct vetted *v = answer_of(API, rows[i].type, rows[i].hops, rows[i].addrs);
        int got = permit(rows[i].client, API, rows[i].type, v);
        ck_assert_msg(got == rows[i].want, "row %zu (%s %s): %s, not %s", i, rows[i].hops,
                      rows[i].addrs, reason_tag((uint32_t)-got),
                      reason_tag((uint32_t)-rows[i].want));
        vetted_unref(v);
    }
}
END_TEST

/* c34: every block of the special-purpose registries that is not the public internet, at its first and
 * last address, among good ones. */
START_TEST(c34_no_special_block) {
    static const char *const four[] = {
        "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255",
        "127.0.0.0", "127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.255.255",
        "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.8", "192.0.0.9", "192.0.0.170",
        "192.0.0.255", "192.0.2.0", "192.0.2.255", "192.88.99.0", "192.88.99.255", "192.168.0.0",
        "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.0", "198.51.100.255",
        "203.0.113.0", "203.0.113.255", "224.0.0.0", "239.255.255.255", "240.0.0.0",
        "255.255.255.254", "255.255.255.255"};
    static const char *const six[] = {
        "::", "::1", "::2", "::198.41.0.4", "::ffff:0.0.0.0", "::ffff:198.41.0.4",
        "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:255.255.255.255", "::ffff:0:198.41.0.4",
        "64:ff9b::", "64:ff9b::a9fe:a9fe", "64:ff9b::ffff:ffff", "64:ff9b:1::", "64:ff9b:1::a00:1",
        "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "100::", "100::ffff:ffff:ffff:ffff", "100:0:0:1::",
        "2001::", "2001::1", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "2001:1::1", "2001:1::2",
        "2001:2::", "2001:3::1", "2001:4:112::1", "2001:10::", "2001:20::", "2001:30::",
        "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::",
        "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2002::", "2002:a00:1::1", "2002:c629:4::1",
        "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
        "5f00::", "fc00::", "fd00:ec2::254", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe80::",
        "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "ff00::", "ff02::1", "ff0e::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"};
    for (size_t i = 0; i < sizeof four / sizeof *four + sizeof six / sizeof *six; i++) {
        bool is6 = i >= sizeof four / sizeof *four;
        const char *bad = is6 ? six[i - sizeof four / sizeof *four] : four[i];
        const char *good = is6 ? "2001:503:ba3e::2:30" : "198.41.0.4";
        for (int place = 0; place < 3; place++) {
            char addrs[200];
            snprintf(addrs, sizeof addrs, "%s %s %s", place == 0 ? bad : good,
                     place == 1 ? bad : good, place == 2 ? bad : good);
            struct vetted *v = answer_of(API, is6 ? 28 : 1, place == 2 ? "far.example" : "", addrs);
            ck_assert_msg(permit(TWO, API, is6 ? 28 : 1, v) == -REASON_REBINDING, "%s", addrs);
            vetted_unref(v);
        }
    }
}
END_TEST

START_TEST(decision_stands) {
    struct vetted *v = answer_of("other.example", 1, "", "198.41.0.4");
    ck_assert_int_eq(permit(TWO, "other.example", 1, v), -REASON_NOT_LISTED);
    ck_assert_int_eq(permit(TWO, "x.bad.example", 1, v), -REASON_DENY_LIST);
    vetted_unref(v);
    /* Addresses under a decision that names no endpoint. */
    struct decision d = {.reason = REASON_ALLOWED, .count = 0};
    struct permitted *p = NULL;
    v = answer_of(API, 1, "", "198.41.0.4");
    ck_assert_int_eq(vet_permit(v, &policy, &d, &p), -REASON_REBINDING);
    ck_assert_ptr_null(p);
    vetted_unref(v);
}
END_TEST

/* The loader lets no endpoint list CNAME; should that ever change, this holds already. */
START_TEST(targets_told_as_data_are_hops_too) {
    static const struct { const char *target; int want; } rows[] = {
        {"fine.example", 0}, {"worse.example", -REASON_CHAIN_DENIED},
        {"q.bad.example", -REASON_CHAIN_DENIED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct name name = name_of(API);
        struct wire_record r = {.owner = name, .type = TYPE_CNAME, .class = 1, .ttl = 60,
                                .target = name_of(rows[i].target)};
        r.rdata = r.target.wire;
        r.rdata_size = r.target.length;
        struct wire_answer a = {.records = &r, .count = 1};
        struct vetted *v = NULL;
        ck_assert_int_eq(vet_answer(&name, TYPE_CNAME, &a, &v), 0);
        ck_assert_int_eq(permit(TWO, API, TYPE_A, v), rows[i].want);
        vetted_unref(v);
    }
    /* Other data has no target. */
    struct name name = name_of(API);
    struct wire_record r = {.owner = name, .type = TYPE_TXT, .class = 1, .ttl = 60,
                            .rdata = (const uint8_t *)"\1x", .rdata_size = 2};
    struct wire_answer a = {.records = &r, .count = 1};
    struct vetted *v = NULL;
    ck_assert_int_eq(vet_answer(&name, TYPE_TXT, &a, &v), 0);
    ck_assert_int_eq(permit(TWO, API, TYPE_A, v), 0);
    vetted_unref(v);
}
END_TEST

START_TEST(reference_is_held) {
    struct addr client;
    struct name name = name_of(API);
    struct decision d;
    struct permitted *p = NULL;
    const struct addr *addrs;
    struct vetted *v = answer_of(API, 1, "", "198.41.0.4");
    ck_assert_int_eq(addr_parse(TWO, &client), 0);
    policy_decide(&policy, &client, &name, 1, &d);
    memory_is_scarce = true;
    int result = vet_permit(v, &policy, &d, &p);
    memory_is_scarce = false;
    ck_assert_int_eq(result, -ENOMEM);
    ck_assert_ptr_null(p);
    ck_assert_int_eq(vet_permit(v, &policy, &d, &p), 0);
    vetted_unref(v); /* the permitted keeps it alive */
    ck_assert_uint_eq(vetted_addrs(permitted_vetted(p), &addrs), 1);
    ck_assert_uint_eq(addrs[0].bytes[0], 198);
    ck_assert_ptr_null(permitted_free(p));
    ck_assert_ptr_null(permitted_free(NULL));
}
END_TEST

int main(void) {
    Suite *s = suite_create("permit");
    TCase *t = tcase_create("permit");
    tcase_add_unchecked_fixture(t, setup, teardown);
    tcase_add_test(t, c23_c34_permit);
    tcase_add_test(t, c34_no_special_block);
    tcase_add_test(t, decision_stands);
    tcase_add_test(t, targets_told_as_data_are_hops_too);
    tcase_add_test(t, reference_is_held);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
