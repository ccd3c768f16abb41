/* gateway.c: gateway.yaml, the appliance. */
#include <stdlib.h>
#include <string.h>

#include "gateway/policy/image.h"
#include "gateway/policy/load/model.h"

#define COUNT(array)       (sizeof(array) / sizeof *(array))
#define DIRECTORY_TEXT_MAX (POLICY_PATH_MAX - 1)
/* runtime/control.sock has to fit sockaddr_un.sun_path (108 with NUL). */
#define RUNTIME_TEXT_MAX (107 - (sizeof "/control.sock" - 1))

void gateway_defaults(struct model *m) {
    m->gateway = (struct policy_gateway){
        .masquerade = 1,
        .ipv6 = IPV6_AUTO,
        .deny = DENY_NXDOMAIN,
        .canaries = 1,
        .min_lifetime = 30,
        .max_lifetime = 3600,
        .grace = 15,
        .when_full = WHEN_FULL_REFUSE,
        .openings_per_client = 4096,
        .addresses_per_name = 256,
        .queries_per_second = 500,
        .pending_per_client = 64,
        .log_segment_bytes = 64 << 20,
        .log_keep = 16,
        .log_directory = "/var/log/tidegate",
        .policy_directory = TIDEGATE_SYSCONFDIR "/tidegate/policy",
        .state_directory = "/var/lib/tidegate",
        .runtime_directory = "/run/tidegate",
    };
}

/* Copies a text whose length was checked into a zeroed field. */
static void set(char *field, const char *text) {
    memcpy(field, text, strlen(text));
}

/* ---- interfaces and subnets ------------------------------------------------------------------ */

static bool interface_read(const struct reader *r, const struct node *n, char *ret) {
    const char *name;
    if (!text_read(r, n, "the interface", 256, &name)) return false;
    if (strlen(name) >= POLICY_IFNAME_MAX) {
        fault_add(r->f, node_place(r, n),
                  "interface \"%s\" has more than 15 characters; write the kernel's name for it "
                  "(see ip link)",
                  shown(name).text);
        return false;
    }
    if (!image_interface_valid(name)) {
        fault_add(r->f, node_place(r, n),
                  "interface \"%s\" may hold letters, digits, . _ and - only", shown(name).text);
        return false;
    }
    if (strcmp(name, "lo") == 0) {
        fault_add(r->f, node_place(r, n),
                  "interface \"lo\" is the gateway itself; write the "
                  "interface that faces the network");
        return false;
    }
    set(ret, name);
    return true;
}

/* Addresses nobody can be routed from. */
#define RANGES_NO_SUBNET                                                                           \
    (UINT32_C(1) << RANGE_UNSPECIFIED | UINT32_C(1) << RANGE_LOOPBACK |                            \
     UINT32_C(1) << RANGE_LINK_LOCAL | UINT32_C(1) << RANGE_MULTICAST |                            \
     UINT32_C(1) << RANGE_EMBEDDED)

static uint32_t subnets_read(struct model *m, const struct reader *r, const struct node *list,
                             uint32_t interface) {
    const struct node *n;
    uint32_t count = 0;
    if (!list_read(r, list, "subnets", &n)) return 0;
    if (!n) fault_add(r->f, node_place(r, list), "subnets is empty; write at least one");
    for (; n; n = n->next) {
        struct prefix prefix;
        if (!prefix_read(r, n, "subnet", &prefix)) continue;
        uint32_t bad = prefix_ranges(&prefix) & RANGES_NO_SUBNET;
        if (bad) {
            char text[128];
            fault_add(r->f, node_place(r, n),
                      "subnet %s holds %s addresses, from which nothing is "
                      "routed; write the network that is there",
                      shown(n->text).text, ranges_text(bad, text));
            continue;
        }
        if (m->subnets.count == MODEL_SUBNETS_MAX) {
            fault_add(r->f, node_place(r, n),
                      "more than %u subnets; combine neighbours into larger "
                      "ones",
                      MODEL_SUBNETS_MAX);
            return count;
        }
        struct model_source *s = list_add(m, &m->subnets);
        if (!s) return count;
        *s = (struct model_source){prefix, node_place(r, n), interface};
        count++;
    }
    return count;
}

static const char *interface_name(const struct model *m, uint32_t owner) {
    return owner == POLICY_INTERFACES_MAX ? m->gateway.management
                                          : m->gateway.agents[owner].interface;
}

static void agent_interface_read(struct model *m, const struct reader *r, const struct node *n) {
    static const struct key keys[] = {{"interface", true}, {"subnets", true}};
    const struct node *v[COUNT(keys)];
    struct policy_gateway *g = &m->gateway;
    uint32_t i = g->agent_interfaces;
    if (!map_read(r, n, "an entry of agents", keys, COUNT(keys), v)) return;
    if (i == POLICY_INTERFACES_MAX) {
        fault_add(r->f, node_place(r, n),
                  "more than %d agent interfaces; put several networks behind "
                  "one",
                  POLICY_INTERFACES_MAX);
        return;
    }
    g->agent_interfaces++;
    g->agents[i].subnet_first = (uint32_t)m->subnets.count;
    if (v[1]) g->agents[i].subnet_count = subnets_read(m, r, v[1], i);
    if (!v[0] || !interface_read(r, v[0], g->agents[i].interface)) return;
    for (uint32_t k = 0; k < i; k++) {
        if (strcmp(g->agents[k].interface, g->agents[i].interface) == 0) {
            fault_add(r->f, node_place(r, v[0]),
                      "interface \"%s\" is listed twice; write all its "
                      "subnets in one entry",
                      g->agents[i].interface);
        }
    }
}

static void agents_read(struct model *m, const struct reader *r, const struct node *list) {
    const struct node *n;
    if (!list_read(r, list, "agents", &n)) return;
    if (!n) fault_add(r->f, node_place(r, list), "agents is empty; write at least one interface");
    for (; n; n = n->next) agent_interface_read(m, r, n);
}

static void tell_shared(const struct model *m, const struct reader *r, const struct node *n,
                        const char *name, const char *what) {
    for (uint32_t i = 0; name[0] != '\0' && i < m->gateway.agent_interfaces; i++) {
        if (strcmp(m->gateway.agents[i].interface, name) != 0) continue;
        fault_add(r->f, node_place(r, n),
                  "%s interface \"%s\" is an agent interface too; agents need "
                  "an interface of their own",
                  what, name);
        return;
    }
}

static void uplink_read(struct model *m, const struct reader *r, const struct node *n) {
    static const struct key keys[] = {{"interface", true}, {"masquerade", false}, {"ipv6", false}};
    static const char *const choices[] = {"auto", "yes", "no"};
    const struct node *v[COUNT(keys)];
    if (!map_read(r, n, "uplink", keys, COUNT(keys), v)) return;
    if (v[0] && interface_read(r, v[0], m->gateway.uplink)) {
        tell_shared(m, r, v[0], m->gateway.uplink, "uplink");
    }
    if (v[1]) bool_read(r, v[1], "masquerade", &m->gateway.masquerade);
    if (v[2]) choice_read(r, v[2], "ipv6", choices, COUNT(choices), &m->gateway.ipv6);
}

static void management_read(struct model *m, const struct reader *r, const struct node *n) {
    static const struct key keys[] = {{"interface", true}, {"subnets", true}};
    const struct node *v[COUNT(keys)];
    struct policy_gateway *g = &m->gateway;
    if (!map_read(r, n, "management", keys, COUNT(keys), v)) return;
    if (v[0] && interface_read(r, v[0], g->management)) {
        tell_shared(m, r, v[0], g->management, "management");
    }
    if (v[1]) g->management_subnet_count = subnets_read(m, r, v[1], POLICY_INTERFACES_MAX);
}

/* ---- upstreams ------------------------------------------------------------------------------- */

static bool in_subnet(const struct model *m, const struct addr *a) {
    for (size_t i = 0; i < m->subnets.count; i++) {
        const struct model_source *s = list_at(&m->subnets, i);
        if (s->owner != POLICY_INTERFACES_MAX && prefix_contains(&s->prefix, a)) return true;
    }
    return false;
}

static bool upstream_addr_read(struct model *m, const struct reader *r, const struct node *n,
                               struct addr *ret) {
    if (!addr_read(r, n, "upstream address", ret)) return false;
    enum addr_range range = addr_range(ret);
    if (range == RANGE_UNSPECIFIED || range == RANGE_MULTICAST || range == RANGE_LINK_LOCAL ||
        range == RANGE_EMBEDDED) {
        fault_add(r->f, node_place(r, n),
                  "upstream address %s is %s; write the resolver's own "
                  "address",
                  n->text, addr_range_name(range));
        return false;
    }
    if (in_subnet(m, ret)) {
        fault_add(r->f, node_place(r, n),
                  "upstream address %s is in an agent subnet; an agent must "
                  "not answer for the others, use a resolver behind the uplink",
                  n->text);
        return false;
    }
    return true;
}

static void upstream_read(struct model *m, const struct reader *r, const struct node *n) {
    static const struct key keys[] = {{"address", true}, {"port", false}, {"tls", false}};
    const struct node *v[COUNT(keys)];
    struct policy_gateway *g = &m->gateway;
    struct addr address;
    uint32_t port = 53;
    if (!map_read(r, n, "an upstream", keys, COUNT(keys), v)) return;
    if (v[2]) {
        fault_add(r->f, node_place(r, v[2]),
                  "DNS over TLS upstreams are not supported in this "
                  "version; remove tls and port, and use a resolver reached over a trusted path");
    }
    if (v[1] && !number_read(r, v[1], "port", 1, 65535, &port)) return;
    if (!v[0] || !upstream_addr_read(m, r, v[0], &address)) return;
    if (g->upstream_count == POLICY_UPSTREAMS_MAX) {
        fault_add(r->f, node_place(r, n), "more than %d upstreams; remove some",
                  POLICY_UPSTREAMS_MAX);
        return;
    }
    for (uint32_t i = 0; i < g->upstream_count; i++) {
        if (addr_equal(&g->upstreams[i].address, &address) && g->upstreams[i].port == port) {
            fault_add(r->f, node_place(r, v[0]), "upstream %s is listed twice; remove one",
                      v[0]->text);
            return;
        }
    }
    g->upstreams[g->upstream_count].address = address;
    g->upstreams[g->upstream_count++].port = (uint16_t)port;
}

static void upstreams_read(struct model *m, const struct reader *r, const struct node *list) {
    const struct node *n;
    if (!list_read(r, list, "upstreams", &n)) return;
    if (!n) {
        fault_add(r->f, node_place(r, list),
                  "upstreams is empty; write at least one, as in - { address: 198.51.100.53 }");
    }
    for (; n; n = n->next) upstream_read(m, r, n);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void dns_read(struct model *m, const struct reader *r, const struct node *n) {
    static const struct key keys[] = {{"deny", false},
                                      {"min_lifetime", false},
                                      {"max_lifetime", false},
                                      {"grace", false},
                                      {"canaries", false}};
    static const char *const choices[] = {"nxdomain", "refused", "nodata"};
    const struct node *v[COUNT(keys)];
    struct policy_gateway *g = &m->gateway;
    if (!map_read(r, n, "dns", keys, COUNT(keys), v)) return;
    if (v[0]) choice_read(r, v[0], "deny", choices, COUNT(choices), &g->deny);
    bool fine = true;
    if (v[1])
        fine &= duration_read(r, v[1], "min_lifetime", 1, POLICY_LIFETIME_MAX, &g->min_lifetime);
    if (v[2])
        fine &= duration_read(r, v[2], "max_lifetime", 1, POLICY_LIFETIME_MAX, &g->max_lifetime);
    if (v[3]) duration_read(r, v[3], "grace", 0, POLICY_GRACE_MAX, &g->grace);
    if (v[4]) bool_read(r, v[4], "canaries", &g->canaries);
    if (fine && g->min_lifetime > g->max_lifetime) {
        fault_add(r->f, node_place(r, v[1] ? v[1] : v[2]),
                  "min_lifetime (%us) is above max_lifetime "
                  "(%us); lower the one or raise the other",
                  g->min_lifetime, g->max_lifetime);
    }
}

/* An absolute directory, for a field of POLICY_PATH_MAX. */
static void directory_read(const struct reader *r, const struct node *n, const char *what,
                           size_t most, char *field) {
    const char *text;
    if (!text_read(r, n, what, most, &text)) return;
    if (text[0] != '/') {
        fault_add(r->f, node_place(r, n), "%s \"%s\" is relative; write the whole path, from /",
                  what, shown(text).text);
        return;
    }
    memset(field, 0, POLICY_PATH_MAX);
    set(field, text);
}

static void log_read(struct model *m, const struct reader *r, const struct node *n) {
    static const struct key keys[] = {
        {"directory", false}, {"when_full", false}, {"segment_bytes", false}, {"keep", false}};
    static const char *const choices[] = {"refuse", "drop"};
    const struct node *v[COUNT(keys)];
    struct policy_gateway *g = &m->gateway;
    if (!map_read(r, n, "log", keys, COUNT(keys), v)) return;
    if (v[0]) directory_read(r, v[0], "log directory", DIRECTORY_TEXT_MAX, g->log_directory);
    if (v[1]) choice_read(r, v[1], "when_full", choices, COUNT(choices), &g->when_full);
    if (v[2]) number_read(r, v[2], "segment_bytes", 4096, 1u << 30, &g->log_segment_bytes);
    if (v[3]) number_read(r, v[3], "keep", 1, 100000, &g->log_keep);
}

static void limits_read(struct model *m, const struct reader *r, const struct node *n) {
    static const struct key keys[] = {{"openings_per_client", false},
                                      {"addresses_per_name", false},
                                      {"queries_per_second", false},
                                      {"pending_per_client", false}};
    const struct node *v[COUNT(keys)];
    struct policy_gateway *g = &m->gateway;
    if (!map_read(r, n, "limits", keys, COUNT(keys), v)) return;
    if (v[0]) number_read(r, v[0], keys[0].name, 1, 1000000, &g->openings_per_client);
    if (v[1]) number_read(r, v[1], keys[1].name, 1, 256, &g->addresses_per_name);
    if (v[2]) number_read(r, v[2], keys[2].name, 1, 1000000, &g->queries_per_second);
    if (v[3]) number_read(r, v[3], keys[3].name, 1, 65535, &g->pending_per_client);
}

static void policy_path_read(struct model *m, const struct reader *r, const struct node *n) {
    const char *text;
    m->policy_at = node_place(r, n);
    memset(m->gateway.policy_directory, 0, POLICY_PATH_MAX);
    if (!text_read(r, n, "policy", DIRECTORY_TEXT_MAX, &text)) return;
    set(m->gateway.policy_directory, text);
}

enum {
    AGENTS,
    UPLINK,
    MANAGEMENT,
    UPSTREAMS,
    DNS,
    LOG,
    POLICY,
    STATE,
    RUNTIME,
    LIMITS,
    NAME,
    KEYS
};

/* What can be seen of a file with a fault is where the policy is, so its faults can be told too. */
static void root_broken(struct model *m, const struct reader *r, const struct node *root) {
    const char *text = map_peek(root, "policy");
    (void)r;
    m->policy_guessed = true;
    memset(m->gateway.policy_directory, 0, POLICY_PATH_MAX);
    if (text && strlen(text) <= DIRECTORY_TEXT_MAX) set(m->gateway.policy_directory, text);
}

static void root_read(struct model *m, const struct reader *r, const struct node *root) {
    static const struct key keys[KEYS] = {
        [AGENTS] = {"agents", true},
        [UPLINK] = {"uplink", true},
        [MANAGEMENT] = {"management", false},
        [UPSTREAMS] = {"upstreams", true},
        [DNS] = {"dns", false},
        [LOG] = {"log", false},
        [POLICY] = {"policy", false},
        [STATE] = {"state", false},
        [RUNTIME] = {"runtime", false},
        [LIMITS] = {"limits", false},
        [NAME] = {"name", false},
    };
    const struct node *v[KEYS];
    struct policy_gateway *g = &m->gateway;
    const char *name;
    if (!map_read(r, root, "gateway.yaml", keys, KEYS, v)) {
        root_broken(m, r, NULL);
        return;
    }
    unsigned faults = m->faults.faults;
    if (v[AGENTS]) agents_read(m, r, v[AGENTS]);
    /* Subnets that are not known for their faults: nothing can be held against them. */
    m->appliance = v[AGENTS] && m->faults.faults == faults;
    g->management_subnet_first = (uint32_t)m->subnets.count;
    if (v[UPLINK]) uplink_read(m, r, v[UPLINK]);
    if (v[MANAGEMENT]) management_read(m, r, v[MANAGEMENT]);
    overlaps_tell(m, &m->subnets, "subnet", interface_name);
    if (v[UPSTREAMS]) upstreams_read(m, r, v[UPSTREAMS]);
    if (v[DNS]) dns_read(m, r, v[DNS]);
    if (v[LOG]) log_read(m, r, v[LOG]);
    if (v[POLICY]) policy_path_read(m, r, v[POLICY]);
    if (v[STATE]) {
        directory_read(r, v[STATE], "state", DIRECTORY_TEXT_MAX, g->state_directory);
    }
    if (v[RUNTIME]) {
        directory_read(r, v[RUNTIME], "runtime", RUNTIME_TEXT_MAX, g->runtime_directory);
    }
    if (v[LIMITS]) limits_read(m, r, v[LIMITS]);
    if (v[NAME] && word_read(r, v[NAME], "name", "-_.", sizeof g->name - 1, &name)) {
        set(g->name, name);
    }
}

void gateway_load(struct model *m, const struct source_file *file) {
    m->policy_at = (struct place){file, 1, 1};
    document_load(m, file, root_read, root_broken);
}
