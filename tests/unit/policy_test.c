/* policy_test.c: policy_open() and the accessors: what is accepted is safe, what is not is refused. */
#include <netinet/in.h>
#include <sodium.h>

#include "gateway/policy/image.h"
#include "tests/unit/policy_files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct files files;

/* Small, but with something of everything. */
static void setup(void) {
    files_start(&files);
    files_write(&files, "gateway.yaml",
                "agents:\n"
                "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
                "  - { interface: eth2, subnets: [10.77.2.0/24, \"fd77:2::/64\"] }\n"
                "uplink: { interface: eth0 }\n"
                "management: { interface: eth3, subnets: [192.168.5.0/24] }\n"
                "upstreams: [ { address: 9.9.9.9 }, { address: \"2620:fe::fe\", port: 5353 } ]\n"
                "policy: policy\n");
    files_write(&files, "policy/agents.yaml",
                "agents:\n"
                "  - { agent: one, sources: [10.77.1.16/28, \"fd77:1::10/124\"], tools: [b, a] }\n"
                "  - { agent: two, sources: [10.77.1.32/28, 10.77.1.48, 10.77.2.1, \"fd77:1::20\",\n"
                "      \"fd77:1:0:0:1::/96\", \"fd77:2::1\"], tools: [a] }\n"
                "deny: [bad.one.example, \"x-*.one.example\", \"z-*.one.example\"]\n");
    files_write(&files, "policy/tools/a.yaml",
                "tool: a\nversion: 1\nowner: o\npurpose: p\nendpoints:\n"
                "  - { name: www.one.example, protocol: https, data: public }\n"
                "  - { name: \"api-*.one.example\", protocol: tcp, port: [80, 8000-8002] }\n"
                "  - { name: \"**.one.example\", protocol: udp, port: 99, types: [TXT, A] }\n"
                "  - { address: 8.8.8.0/24, protocol: tcp, port: [443, 80, 81] }\n"
                "  - { address: 8.8.8.8, protocol: tcp, port: [80, 82] }\n");
    files_write(&files, "policy/tools/b.yaml",
                "tool: b\nversion: 2\nowner: o\npurpose: p\nendpoints:\n"
                "  - { name: www.one.example, protocol: quic }\n"
                "  - { name: www.two.example, protocol: quic }\n"
                "  - { address: \"2600::/64\", protocol: udp, port: 99, ranges: [private] }\n"
                "  - { address: \"2600::1\", protocol: udp, port: 98-100 }\n");
    ck_assert_msg(files_load(&files, 1) == 0, "%s", files.report);
}

static void teardown(void) { files_end(&files); }

/* ---- using everything an image offers -------------------------------------------------------- */

/* As ck_assert(), which tells its parent through a pipe that it passed: too slow for millions. */
#define MUST(x)                                                                                    \
    do {                                                                                           \
        if (!(x)) ck_abort_msg("%s", #x);                                                          \
    } while (0)

static volatile size_t used; /* so that no look at the image is optimised away */

static void use_text(const struct policy *p, uint32_t offset) { used += strlen(policy_text(p, offset)); }

static void use_pattern(const struct policy *p, uint32_t index) {
    char text[NAME_TEXT_MAX];
    const struct policy_pattern *q = policy_pattern(p, index);
    used += (size_t)name_to_text(&q->base, text, sizeof text);
    use_text(p, q->text);
}

static void use_elements(const struct policy *p) {
    for (uint32_t i = 0; i < policy_agent_count(p); i++) {
        const struct policy_agent *a = policy_agent(p, i);
        use_text(p, a->name);
        use_text(p, a->file);
        for (uint32_t k = 0; k < a->source_count; k++) {
            const struct prefix *s = policy_source(p, a->source_first + k);
            MUST(policy_agent_of(p, &s->addr) == i);
        }
        for (uint32_t k = 0; k < a->tool_count; k++) {
            MUST(policy_agent_tool(p, a->tool_first + k) < policy_tool_count(p));
        }
        MUST(policy_agent_by_key(p, a->key) == i);
    }
    for (uint32_t i = 0; i < policy_tool_count(p); i++) {
        const struct policy_tool *t = policy_tool(p, i);
        use_text(p, t->name);
        use_text(p, t->version);
        use_text(p, t->owner);
        use_text(p, t->purpose);
        use_text(p, t->file);
        for (uint32_t k = 0; k < t->endpoint_count; k++) {
            MUST(policy_endpoint(p, t->endpoint_first + k)->tool == i);
        }
    }
    for (uint32_t i = 0; i < policy_deny_count(p); i++) {
        use_text(p, policy_deny(p, i)->file);
        use_pattern(p, policy_deny(p, i)->pattern);
    }
}

static void use_endpoints(const struct policy *p) {
    struct addr remote = {.family = 4, .bytes = {8, 8, 8, 8}};
    for (uint32_t i = 0; i < policy_endpoint_count(p); i++) {
        const struct policy_endpoint *e = policy_endpoint(p, i);
        MUST(policy_endpoint_by_key(p, e->key) == i);
        MUST(e->port_count <= POLICY_PORTS_MAX);
        use_text(p, e->data);
        if (e->pattern != POLICY_NONE) use_pattern(p, e->pattern);
        used += policy_endpoint_reaches(p, i, &remote);
        for (uint32_t a = 0; a < policy_agent_count(p); a++) used += policy_agent_has(p, a, i);
    }
    for (uint32_t i = 0; i < policy_static_count(p); i++) {
        const struct policy_static *s = policy_static(p, i);
        MUST(prefix_valid(&s->source) && prefix_valid(&s->remote));
        MUST(policy_agent_has(p, s->agent, s->endpoint));
    }
}

static void use_gateway(const struct policy *p) {
    const struct policy_gateway *g = policy_gateway(p);
    for (uint32_t i = 0; i < g->agent_interfaces; i++) {
        used += strlen(g->agents[i].interface);
        for (uint32_t k = 0; k < g->agents[i].subnet_count; k++) {
            MUST(prefix_valid(policy_subnet(p, g->agents[i].subnet_first + k)));
        }
    }
    for (uint32_t i = 0; i < g->upstream_count; i++) {
        MUST(addr_valid(&g->upstreams[i].address));
        used += strlen(g->upstreams[i].tls_name);
    }
    used += strlen(g->uplink) + strlen(g->management) + strlen(g->name) + strlen(g->log_directory) +
            strlen(g->state_directory) + strlen(g->runtime_directory) + strlen(g->policy_directory);
}

static void use_decisions(const struct policy *p) {
    static const char *const clients[] = {"10.77.1.17", "10.77.1.40", "fd77:1::11", "10.77.2.1",
                                          "1.2.3.4", "::1"};
    static const char *const names[] = {"www.one.example", "api-1.one.example", "a.b.one.example",
                                        "bad.one.example", "x-1.one.example", "example", ".",
                                        "other.example"};
    static const uint16_t types[] = {TYPE_A, TYPE_TXT, TYPE_HTTPS, TYPE_PTR};
    char text[POLICY_RULE_TEXT_MAX], digest[POLICY_DIGEST_TEXT_MAX];
    for (size_t i = 0; i < COUNT(clients) * COUNT(names) * COUNT(types); i++) {
        struct decision d;
        struct addr client;
        struct name name;
        MUST(addr_parse(clients[i % COUNT(clients)], &client) == 0);
        MUST(name_from_text(names[i / COUNT(clients) % COUNT(names)], &name) == 0);
        policy_decide(p, &client, &name, types[i / COUNT(clients) / COUNT(names)], &d);
        MUST(reason_valid(d.reason));
        MUST(d.count <= POLICY_MATCH_MAX);
        for (unsigned k = 0; k < d.count; k++) {
            MUST(policy_agent_has(p, d.agent, d.endpoints[k]));
        }
        used += strlen(policy_rule_text(p, &d, text)) + policy_denies(p, &name);
    }
    used += strlen(policy_digest_text(p, digest)) + policy_id(p);
}

static void use_everything(const struct policy *p) {
    use_gateway(p);
    use_elements(p);
    use_endpoints(p);
    use_decisions(p);
}

/* ---- tests ----------------------------------------------------------------------------------- */

START_TEST(accessors) {
    const struct policy *p = &files.policy;
    const struct policy_gateway *g = policy_gateway(p);
    char text[POLICY_DIGEST_TEXT_MAX], expected[POLICY_DIGEST_TEXT_MAX];
    uint8_t digest[POLICY_DIGEST_SIZE];
    use_everything(p);

    crypto_generichash(digest, sizeof digest, p->base + POLICY_DIGEST_SIZE,
                       p->size - POLICY_DIGEST_SIZE, NULL, 0);
    ck_assert_mem_eq(policy_digest(p), digest, sizeof digest);
    sodium_bin2hex(expected, sizeof expected, digest, sizeof digest);
    ck_assert_str_eq(policy_digest_text(p, text), expected);
    uint64_t id = policy_id(p);
    ck_assert_mem_eq(&id, digest, sizeof id);

    ck_assert_uint_eq(policy_agent_count(p), 2);
    ck_assert_uint_eq(policy_tool_count(p), 2);
    ck_assert_uint_eq(policy_endpoint_count(p), 9);
    ck_assert_uint_eq(policy_deny_count(p), 3);
    ck_assert_uint_eq(g->agent_interfaces, 2);
    ck_assert_uint_eq(g->upstream_count, 2);
    ck_assert_uint_eq(g->upstreams[0].port, 53);
    ck_assert_uint_eq(g->upstreams[1].port, 5353);
    ck_assert_str_eq(g->uplink, "eth0");
    ck_assert_str_eq(g->management, "eth3");
    ck_assert_str_eq(policy_text(p, policy_agent(p, 1)->name), "two");
    ck_assert_str_eq(policy_text(p, policy_agent(p, 1)->file), "agents.yaml");
    ck_assert_uint_eq(policy_agent(p, 1)->line, 3);
    ck_assert_str_eq(policy_text(p, policy_tool(p, 1)->file), "tools/b.yaml");
    static const uint8_t none[POLICY_KEY_SIZE];
    ck_assert_uint_eq(policy_endpoint_by_key(p, none), POLICY_NONE);
    ck_assert_uint_eq(policy_agent_by_key(p, none), POLICY_NONE);
    static const uint16_t ports[] = {80, 8000, 8001, 8002};
    ck_assert_uint_eq(policy_endpoint(p, 1)->port_count, 4);
    ck_assert_mem_eq(policy_endpoint(p, 1)->ports, ports, sizeof ports);
    static const uint16_t types[] = {TYPE_A, TYPE_TXT};
    ck_assert_uint_eq(policy_endpoint(p, 2)->type_count, 2);
    ck_assert_mem_eq(policy_endpoint(p, 2)->types, types, sizeof types);
    ck_assert_uint_eq(policy_endpoint(p, 7)->ranges, 1u << RANGE_PRIVATE);
}
END_TEST

/* A key tried whose leading octets are those of another. */
START_TEST(keys_compare_whole) {
    const struct policy *p = &files.policy;
    for (uint32_t i = 0; i < policy_endpoint_count(p); i++) {
        uint8_t key[POLICY_KEY_SIZE];
        memcpy(key, policy_endpoint(p, i)->key, sizeof key);
        key[15] ^= 1;
        ck_assert_uint_eq(policy_endpoint_by_key(p, key), POLICY_NONE);
    }
    uint8_t key[POLICY_KEY_SIZE];
    memcpy(key, policy_agent(p, 0)->key, sizeof key);
    key[15] ^= 1;
    ck_assert_uint_eq(policy_agent_by_key(p, key), POLICY_NONE);
}
END_TEST

START_TEST(static_elements) {
    /* agent, source, remote, protocol, ports; wide before narrow, and the narrow one only adds */
    static const char *const rows[] = {
        "two 10.77.1.32/28 8.8.8.0/24 6 80-81", "two 10.77.1.32/28 8.8.8.0/24 6 443-443",
        "two 10.77.1.32/28 8.8.8.8/32 6 82-82",
        "two 10.77.1.48/32 8.8.8.0/24 6 80-81", "two 10.77.1.48/32 8.8.8.0/24 6 443-443",
        "two 10.77.1.48/32 8.8.8.8/32 6 82-82", "two 10.77.2.1/32 8.8.8.0/24 6 80-81",
        "two 10.77.2.1/32 8.8.8.0/24 6 443-443", "two 10.77.2.1/32 8.8.8.8/32 6 82-82",
        "one 10.77.1.16/28 8.8.8.0/24 6 80-81", "one 10.77.1.16/28 8.8.8.0/24 6 443-443",
        "one 10.77.1.16/28 8.8.8.8/32 6 82-82",
        "one fd77:1::10/124 2600::/64 17 99-99", "one fd77:1::10/124 2600::1/128 17 98-98",
        "one fd77:1::10/124 2600::1/128 17 100-100",
    };
    const struct policy *p = &files.policy;
    ck_assert_uint_eq(policy_static_count(p), COUNT(rows));
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool found = false;
        for (uint32_t k = 0; k < policy_static_count(p); k++) {
            const struct policy_static *s = policy_static(p, k);
            char text[256], a[PREFIX_TEXT_MAX], b[PREFIX_TEXT_MAX];
            snprintf(text, sizeof text, "%s %s %s %u %u-%u",
                     policy_text(p, policy_agent(p, s->agent)->name), prefix_format(&s->source, a),
                     prefix_format(&s->remote, b), s->protocol, s->port_first, s->port_last);
            found |= strcmp(text, rows[i]) == 0;
        }
        ck_assert_msg(found, "%s", rows[i]);
    }
}
END_TEST

START_TEST(refused_as_a_whole) {
    struct policy p = {.size = 77};
    size_t size = files.result.size;
    uint8_t *copy = malloc(size + 8);
    ck_assert_int_eq(policy_open(&p, files.result.image, sizeof(struct image_header) - 1), -EBADMSG);
    ck_assert_int_eq(policy_open(&p, files.result.image, (size_t)POLICY_IMAGE_MAX + 1), -EBADMSG);
    memcpy(copy + 1, files.result.image, size);
    ck_assert_int_eq(policy_open(&p, copy + 1, size), -EBADMSG); /* not aligned */
    ck_assert_uint_eq(p.size, 77);                               /* untouched */
    free(copy);
}
END_TEST

/* `bytes` is a block of exactly its size, so that a step outside is seen by the sanitizer. */
static int open_and_use(const uint8_t *bytes, size_t size) {
    struct policy p;
    int result = policy_open(&p, bytes, size);
    MUST(result == 0 || result == -EBADMSG);
    if (result == 0) use_everything(&p);
    return result;
}

START_TEST(truncated) {
    for (size_t size = 0; size < files.result.size; size++) {
        uint8_t *copy = malloc(size + (size == 0));
        memcpy(copy, files.result.image, size);
        MUST(open_and_use(copy, size) == -EBADMSG);
        free(copy);
    }
}
END_TEST

/* Every octet changed in several ways. What is still accepted must be safe to use. */
START_TEST(mutated) {
    uint8_t *bytes = files.result.image;
    size_t accepted = 0, refused = 0;
    for (size_t at = POLICY_DIGEST_SIZE; at < files.result.size; at++) {
        const uint8_t right = bytes[at];
        const uint8_t others[] = {0, 0xff, (uint8_t)(right + 1), (uint8_t)(right ^ 0x80)};
        for (size_t i = 0; i < COUNT(others); i++) {
            if (others[i] == right) continue;
            bytes[at] = others[i];
            if (open_and_use(bytes, files.result.size) == 0) accepted++;
            else refused++;
        }
        bytes[at] = right;
    }
    /* Lines, data classes, limits and the like have no wrong value; structure has. */
    ck_assert_uint_gt(refused, 8 * accepted);
    ck_assert_uint_gt(accepted, 100);
}
END_TEST

static uint32_t random_state = 1;
static uint32_t pick(uint32_t bound) {
    random_state = random_state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)random_state * bound >> 32);
}

/* Words and pairs of octets: offsets, counts and indexes that are off by much or by little. */
START_TEST(mutated_words) {
    uint8_t *bytes = files.result.image;
    for (size_t at = POLICY_DIGEST_SIZE; at + 4 <= files.result.size; at += 4) {
        uint32_t right, word;
        memcpy(&right, bytes + at, 4);
        const uint32_t others[] = {0, UINT32_MAX, 0x80000000u, right + 1, right - 1, right * 2,
                                   pick(16), pick((uint32_t)files.result.size)};
        for (size_t i = 0; i < COUNT(others); i++) {
            word = others[i];
            memcpy(bytes + at, &word, 4);
            open_and_use(bytes, files.result.size);
        }
        memcpy(bytes + at, &right, 4);
    }
    uint8_t *copy = malloc(files.result.size);
    for (unsigned round = 0; round < 5000; round++) {
        memcpy(copy, bytes, files.result.size);
        for (unsigned i = 1 + pick(3); i > 0; i--) {
            uint32_t at = POLICY_DIGEST_SIZE + pick((uint32_t)files.result.size - POLICY_DIGEST_SIZE);
            uint32_t from = pick((uint32_t)files.result.size - 8);
            size_t size = 1 + pick(8);
            if (at + size > files.result.size) continue;
            memcpy(copy + at, bytes + from, size); /* plausible bytes in another place */
        }
        open_and_use(copy, files.result.size);
    }
    free(copy);
}
END_TEST


/* ---- damage that single octets do not make ---------------------------------------------------- */

/* A copy of the image with so many elements more in each section: its own, then zeros. */
static uint8_t *resized(const int32_t more[IMAGE_SECTION_COUNT], size_t *ret_size) {
    const struct image_header *old = image_header(&files.policy);
    struct image_span spans[IMAGE_SECTION_COUNT];
    memcpy(spans, old->spans, sizeof spans);
    for (unsigned s = 0; s < IMAGE_SECTION_COUNT; s++) spans[s].count += (uint32_t)more[s];
    uint32_t size = image_layout(spans);
    MUST(size > 0);
    uint8_t *image = calloc(1, size);
    memcpy(image, old, sizeof *old);
    struct image_header *h = (struct image_header *)image;
    h->size = size;
    for (unsigned s = 0; s < IMAGE_SECTION_COUNT; s++) {
        uint32_t keep = spans[s].count < old->spans[s].count ? spans[s].count : old->spans[s].count;
        memcpy(image + spans[s].offset, files.policy.base + old->spans[s].offset,
               keep * image_element_size(s));
    }
    memcpy(h->spans, spans, sizeof spans);
    *ret_size = size;
    return image;
}

START_TEST(sections_resized) {
    for (unsigned s = 0; s < IMAGE_SECTION_COUNT; s++) {
        uint32_t count = image_count(&files.policy, s);
        const uint32_t counts[] = {0, count - 1, count + 1, 2 * count};
        int32_t more[IMAGE_SECTION_COUNT] = {0};
        for (size_t i = 0; i < COUNT(counts); i++) {
            size_t size;
            more[s] = (int32_t)(counts[i] - count);
            uint8_t *image = resized(more, &size);
            int result = open_and_use(image, size);
            /* Empty texts more at the end harm nobody, and a static element that is missing only
             * closes what was to be open. */
            bool harmless = (s == IMAGE_TEXT && counts[i] > count) ||
                            (s == IMAGE_STATIC && counts[i] < count);
            ck_assert_msg(result == (harmless ? 0 : -EBADMSG), "section %u of %u: %u", s, count,
                          counts[i]);
            free(image);
        }
    }
}
END_TEST

/* Neighbours swapped, and one written over the other: order and uniqueness of every table. */
START_TEST(elements_swapped) {
    uint8_t *bytes = files.result.image, a[512], b[512];
    for (unsigned s = IMAGE_AGENT; s < IMAGE_SECTION_COUNT; s++) {
        size_t size = image_element_size(s);
        uint8_t *at = bytes + image_header(&files.policy)->spans[s].offset;
        MUST(size <= sizeof a);
        for (uint32_t i = 0; i + 1 < image_count(&files.policy, s); i++, at += size) {
            memcpy(a, at, size);
            memcpy(b, at + size, size);
            memcpy(at, b, size);
            memcpy(at + size, a, size);
            open_and_use(bytes, files.result.size);
            memcpy(at + size, b, size);
            open_and_use(bytes, files.result.size);
            memcpy(at, a, size);
            memcpy(at + size, a, size);
            open_and_use(bytes, files.result.size);
            memcpy(at + size, b, size);
        }
    }
    ck_assert_int_eq(open_and_use(bytes, files.result.size), 0);
}
END_TEST

static void *section_of(enum image_section s) {
    return (uint8_t *)files.result.image + image_header(&files.policy)->spans[s].offset;
}

/* Writes over `size` bytes at `at`, expects refusal, puts them back. */
static void damage(void *at, const void *bytes, size_t size) {
    uint8_t right[512];
    MUST(size <= sizeof right);
    memcpy(right, at, size);
    memcpy(at, bytes, size);
    ck_assert_int_eq(open_and_use(files.result.image, files.result.size), -EBADMSG);
    memcpy(at, right, size);
}

START_TEST(gateway_damaged) {
    struct image_header *h = files.result.image;
    struct policy_gateway *g = &h->gateway;
    char full[POLICY_PATH_MAX];
    memset(full, 'a', sizeof full);
    damage(g->name, full, sizeof g->name);
    damage(g->name, "a\x7f", 2);
    damage(g->name, "a\n", 2);
    damage(g->name, "a\0b", 3);
    damage(g->uplink, full, sizeof g->uplink);
    damage(g->uplink, ".\0\0\0", 4);
    damage(g->uplink, "..\0\0", 4);
    damage(g->uplink, "a/b", 3);
    damage(g->uplink, "a\"b", 3);
    damage(g->agents[0].interface, "\0\0\0\0", 4);
    damage(g->log_directory, full, sizeof g->log_directory);
    damage(g->log_directory, "relative", 8);
    damage(g->state_directory, "relative", 8);
    damage(g->runtime_directory, "relative", 8);
    damage(g->upstreams[7].tls_name, "x", 1);
    damage(g->uplink, "abcdefghijklmnop", 16);
    ck_assert(image_interface_valid("abcdefghijklmno"));
    ck_assert(!image_interface_valid("abcdefghijklmnop"));
    damage(&g->upstreams[0].port, "\0\0", 2);
    /* An appliance without uplink and management is what a folder alone makes. */
    memset(g->uplink, 0, sizeof g->uplink);
    memset(g->management, 0, sizeof g->management);
    ck_assert_int_eq(open_and_use(files.result.image, files.result.size), 0);
}
END_TEST

START_TEST(pattern_of_root) {
    struct policy_pattern *pattern = section_of(IMAGE_PATTERN);
    struct name root = {.length = 1};
    damage(&pattern->base, &root, sizeof root);
}
END_TEST

/* Whatever the loader thinks of it: an address endpoint leads to public addresses, to the ranges it
 * names, and never to our own networks. */
START_TEST(address_forbidden) {
    static const char *const rows[] = {"127.0.0.0/8", "10.0.0.1/32", "169.254.169.254/32", "0.0.0.0/0",
                                       "192.168.5.0/24", "192.168.5.9/32", "192.168.0.0/16",
                                       "10.77.1.0/24", "10.0.0.0/8"};
    struct policy_endpoint *e = section_of(IMAGE_ENDPOINT);
    while (e->address.addr.family != 4) e++;
    /* Static elements would have to agree, so there are none. */
    int32_t more[IMAGE_SECTION_COUNT] = {[IMAGE_STATIC] = -(int32_t)policy_static_count(&files.policy)};
    for (size_t i = 0; i <= COUNT(rows); i++) {
        size_t size;
        struct policy_endpoint right = *e;
        const char *text = i < COUNT(rows) ? rows[i] : "172.16.0.0/12";
        MUST(prefix_parse(text, &e->address) == 0);
        if (i >= 4) e->ranges = 1u << RANGE_PRIVATE;
        uint8_t *image = resized(more, &size);
        int result = open_and_use(image, size);
        ck_assert_msg(result == (i < COUNT(rows) ? -EBADMSG : 0), "%s", text);
        free(image);
        *e = right;
    }
}
END_TEST

/* One rule written as two, everything else in order: a search would find only one of them. */
START_TEST(rule_split) {
    const struct image_rule *old = image_section(&files.policy, IMAGE_RULE);
    uint32_t count = image_count(&files.policy, IMAGE_RULE), i = 0;
    while (old[i].posting_count < 2) i++;
    int32_t more[IMAGE_SECTION_COUNT] = {[IMAGE_RULE] = 1, [IMAGE_RULE_BASE] = old[i].base_size};
    size_t size, base_size = old[i].base_size;
    ck_assert_uint_eq(image_directory_bits(count), image_directory_bits(count + 1));
    uint8_t *image = resized(more, &size);
    struct image_header *h = (struct image_header *)image;
    struct image_rule *rules = (struct image_rule *)(image + h->spans[IMAGE_RULE].offset);
    uint8_t *bases = image + h->spans[IMAGE_RULE_BASE].offset;
    size_t rest = image_count(&files.policy, IMAGE_RULE_BASE) - rules[i].base;
    memmove(bases + rules[i].base + base_size, bases + rules[i].base, rest);
    memmove(&rules[i + 1], &rules[i], (count - i) * sizeof *rules);
    rules[i].posting_count--;
    rules[i].deny_count = 0;
    rules[i + 1].posting_count = 1;
    rules[i + 1].posting_first += rules[i].posting_count;
    for (uint32_t k = i + 1; k <= count; k++) rules[k].base += (uint32_t)base_size;
    ck_assert_int_eq(open_and_use(image, size), -EBADMSG);
    free(image);
}
END_TEST

/* An endpoint, or a deny entry, that stands in no rule. */
static void drop_posting(bool deny) {
    struct image_rule right[64], *all = section_of(IMAGE_RULE);
    uint32_t count = image_count(&files.policy, IMAGE_RULE), i = 0;
    MUST(count <= COUNT(right));
    memcpy(right, all, count * sizeof *all);
    while (all[i].posting_count + all[i].deny_count < 2 ||
           (deny ? all[i].deny_count : all[i].posting_count) == 0) {
        i++;
    }
    uint32_t *number = deny ? &all[i].deny_count : &all[i].posting_count;
    --*number;
    for (uint32_t k = i + 1; k < count; k++) {
        if (deny) all[k].deny_first--;
        else all[k].posting_first--;
    }
    /* What follows moves up by one, so that only the last one is left over. */
    uint8_t *items = section_of(deny ? IMAGE_DENY_POSTING : IMAGE_POSTING), saved[2048];
    size_t size = image_element_size(deny ? IMAGE_DENY_POSTING : IMAGE_POSTING);
    size_t bytes = size * image_count(&files.policy, deny ? IMAGE_DENY_POSTING : IMAGE_POSTING);
    size_t at = size * ((deny ? all[i].deny_first : all[i].posting_first) + *number);
    MUST(bytes <= sizeof saved);
    memcpy(saved, items, bytes);
    memmove(items + at, items + at + size, bytes - at - size);
    ck_assert_int_eq(open_and_use(files.result.image, files.result.size), -EBADMSG);
    memcpy(items, saved, bytes);
    memcpy(all, right, count * sizeof *all);
    ck_assert_int_eq(open_and_use(files.result.image, files.result.size), 0);
}

START_TEST(posting_missing) {
    drop_posting(false);
    drop_posting(true);
}
END_TEST

/* A source that grows over its neighbour, with the table of clients following suit. */
START_TEST(sources_overlap) {
    struct prefix *sources = section_of(IMAGE_SOURCE);
    struct image_client *clients = section_of(IMAGE_CLIENT);
    unsigned grown = 0;
    for (uint32_t i = 0; i < image_count(&files.policy, IMAGE_CLIENT); i++) {
        struct prefix *s = &sources[clients[i].source], right = *s;
        struct image_client old = clients[i];
        if (s->addr.bytes[3] == 32 && s->bits == 28) s->bits = 27;
        else if (s->bits == 124) s->bits = 123;
        else continue;
        struct image_client wide = image_client_of(s);
        clients[i].last_low = wide.last_low;
        clients[i].last_high = wide.last_high;
        bool valid = prefix_valid(s); /* else its host bits are refused: also right */
        grown += valid;
        ck_assert_int_eq(open_and_use(files.result.image, files.result.size), -EBADMSG);
        *s = right;
        clients[i] = old;
    }
    ck_assert_uint_ge(grown, 1);
}
END_TEST

START_TEST(rule_order) {
    static const uint8_t a[] = "\1a", b[] = "\1b";
    const struct image_rule_id ids[] = {{0, 2, a}, {0, 2, b}, {0, 3, a}, {1, 2, a}};
    for (size_t i = 0; i < COUNT(ids); i++) {
        for (size_t k = 0; k < COUNT(ids); k++) {
            int c = image_rule_compare(ids[i], ids[k]);
            ck_assert_int_eq((c > 0) - (c < 0), (i > k) - (i < k));
        }
    }
}
END_TEST

START_TEST(layout) {
    struct image_span spans[IMAGE_SECTION_COUNT] = {{0}};
    ck_assert_uint_eq(image_layout(spans), sizeof(struct image_header));
    spans[IMAGE_PATTERN].count = UINT32_MAX;
    ck_assert_uint_eq(image_layout(spans), 0);
    static const struct { uint32_t count; unsigned bits; } rows[] = {
        {0, 0}, {1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {1u << 31, 31}, {UINT32_MAX, 31}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        ck_assert_uint_eq(image_directory_bits(rows[i].count), rows[i].bits);
    }
}
END_TEST

int main(void) {
    if (sodium_init() < 0) return EXIT_FAILURE;
    Suite *suite = suite_create("policy");
    TCase *c = tcase_create("policy");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300);
    tcase_add_test(c, accessors);
    tcase_add_test(c, keys_compare_whole);
    tcase_add_test(c, static_elements);
    tcase_add_test(c, refused_as_a_whole);
    tcase_add_test(c, truncated);
    tcase_add_test(c, mutated);
    tcase_add_test(c, mutated_words);
    tcase_add_test(c, sections_resized);
    tcase_add_test(c, elements_swapped);
    tcase_add_test(c, gateway_damaged);
    tcase_add_test(c, pattern_of_root);
    tcase_add_test(c, address_forbidden);
    tcase_add_test(c, rule_split);
    tcase_add_test(c, posting_missing);
    tcase_add_test(c, sources_overlap);
    tcase_add_test(c, rule_order);
    tcase_add_test(c, layout);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
