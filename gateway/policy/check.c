/* check.c: policy_open(): whether a block of bytes is an image that every accessor and decide() can
 * use without looking again. Images come from our own loader, yet nobody trusts it: core is the
 * privileged one, the loader reads free text.
 *
 * Nothing here reads outside the block: the header is checked first, then the layout, then texts,
 * then elements (each only refers to what has been checked by then or is checked by count).
 *
 * The digest is not computed here, because this folder uses libc alone; see policy.h.
 */
#include "gateway/policy/image.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#define NAME_TEXT_SIZE_MAX 64  /* agents, tools, versions */
#define FILE_TEXT_SIZE_MAX 300 /* paths below the policy folder */
#define TEXT_SIZE_MAX      1024

static bool zeros(const void *bytes, size_t size) {
    const uint8_t *b = bytes;
    /* Each octet equals the one before it, and the first is zero. */
    return size == 0 || (b[0] == 0 && memcmp(b, b + 1, size - 1) == 0);
}

/* A control character in a text could forge a line of a log or steer a terminal. */
static bool printable(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if ((uint8_t)text[i] < 0x20 || text[i] == 0x7f) return false;
    }
    return true;
}

/* A fixed-size string: ends in NUL, zero from there on, printable. */
static bool string_valid(const char *text, size_t size) {
    size_t length = strnlen(text, size);
    return length < size && zeros(text + length, size - length) && printable(text, length);
}

bool image_interface_valid(const char *name) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t length = strlen(name);
    if (length == 0 || length >= POLICY_IFNAME_MAX || strspn(name, allowed) != length) return false;
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool interface_field_valid(const char *name, bool optional) {
    if (!string_valid(name, POLICY_IFNAME_MAX)) return false;
    return (optional && name[0] == '\0') || image_interface_valid(name);
}

/* ---- header and layout --------------------------------------------------------------------- */

static bool layout_valid(const struct policy *p) {
    const struct image_header *h = p->header;
    struct image_span spans[IMAGE_SECTION_COUNT];
    memcpy(spans, h->spans, sizeof spans);
    if (image_layout(spans) != p->size) return false;
    if (memcmp(spans, h->spans, sizeof spans) != 0) return false;
    for (unsigned s = 0; s < IMAGE_SECTION_COUNT; s++) {
        size_t end = spans[s].offset + spans[s].count * image_element_size(s);
        size_t next = s + 1 < IMAGE_SECTION_COUNT ? spans[s + 1].offset : p->size;
        if (!zeros(p->base + end, next - end)) return false;
    }
    return true;
}

static bool texts_valid(const struct policy *p) {
    const char *text = image_section(p, IMAGE_TEXT);
    uint32_t count = image_count(p, IMAGE_TEXT);
    if (count == 0 || text[0] != '\0' || text[count - 1] != '\0') return false;
    for (uint32_t i = 0; i < count; i++) {
        if (text[i] != '\0' && !printable(text + i, 1)) return false;
    }
    return true;
}

/* A reference to the start of a text of at most `most` bytes. */
static bool text_valid(const struct policy *p, uint32_t offset, size_t most) {
    const char *text = image_section(p, IMAGE_TEXT);
    if (offset >= image_count(p, IMAGE_TEXT)) return false;
    if (offset > 0 && text[offset - 1] != '\0') return false;
    return strlen(text + offset) <= most;
}

/* ---- gateway.yaml -------------------------------------------------------------------------- */

static bool upstream_valid(const struct policy_gateway *g, uint32_t i) {
    if (i >= g->upstream_count) return zeros(&g->upstreams[i], sizeof g->upstreams[i]);
    return addr_valid(&g->upstreams[i].address) && g->upstreams[i].port != 0 &&
           g->upstreams[i].zero == 0 &&
           string_valid(g->upstreams[i].tls_name, sizeof g->upstreams[i].tls_name);
}

/* Subnets belong to one interface each, in order, without gaps. */
static bool subnets_valid(const struct policy *p, const struct policy_gateway *g) {
    uint64_t next = 0;
    for (uint32_t i = 0; i < POLICY_INTERFACES_MAX; i++) {
        if (i >= g->agent_interfaces) {
            if (!zeros(&g->agents[i], sizeof g->agents[i])) return false;
            continue;
        }
        if (!interface_field_valid(g->agents[i].interface, false)) return false;
        if (g->agents[i].subnet_first != next) return false;
        next += g->agents[i].subnet_count;
    }
    if (g->management_subnet_first != next) return false;
    next += g->management_subnet_count;
    if (next != image_count(p, IMAGE_SUBNET)) return false;
    for (uint32_t i = 0; i < next; i++) {
        if (!prefix_valid(policy_subnet(p, i))) return false;
    }
    return true;
}

static bool settings_valid(const struct policy_gateway *g) {
    return g->masquerade <= 1 && g->ipv6 <= IPV6_NO && g->deny <= DENY_NODATA && g->canaries <= 1 &&
           g->when_full <= WHEN_FULL_DROP && g->min_lifetime >= 1 &&
           g->min_lifetime <= g->max_lifetime && g->max_lifetime <= POLICY_LIFETIME_MAX &&
           g->grace <= POLICY_GRACE_MAX && g->openings_per_client >= 1 &&
           g->addresses_per_name >= 1 && g->queries_per_second >= 1 && g->pending_per_client >= 1 &&
           g->log_segment_bytes >= 1 && g->log_keep >= 1;
}

static bool gateway_valid(const struct policy *p) {
    const struct policy_gateway *g = policy_gateway(p);
    if (g->agent_interfaces > POLICY_INTERFACES_MAX || g->upstream_count > POLICY_UPSTREAMS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < POLICY_UPSTREAMS_MAX; i++) {
        if (!upstream_valid(g, i)) return false;
    }
    return subnets_valid(p, g) && settings_valid(g) && interface_field_valid(g->uplink, true) &&
           interface_field_valid(g->management, true) && string_valid(g->name, sizeof g->name) &&
           string_valid(g->log_directory, POLICY_PATH_MAX) &&
           string_valid(g->policy_directory, POLICY_PATH_MAX) &&
           string_valid(g->state_directory, POLICY_PATH_MAX) &&
           string_valid(g->runtime_directory, POLICY_PATH_MAX) && g->log_directory[0] == '/' &&
           g->state_directory[0] == '/' && g->runtime_directory[0] == '/';
}

/* ---- agents and tools ---------------------------------------------------------------------- */

static bool agents_valid(const struct policy *p) {
    uint64_t source = 0, tool = 0;
    for (uint32_t i = 0; i < policy_agent_count(p); i++) {
        const struct policy_agent *a = policy_agent(p, i);
        if (a->source_first != source || a->tool_first != tool) return false;
        source += a->source_count;
        tool += a->tool_count;
        if (a->mode > MODE_OBSERVE || !text_valid(p, a->name, NAME_TEXT_SIZE_MAX) ||
            !text_valid(p, a->file, FILE_TEXT_SIZE_MAX)) {
            return false;
        }
    }
    if (source != image_count(p, IMAGE_SOURCE) || tool != image_count(p, IMAGE_AGENT_TOOL)) {
        return false;
    }
    for (uint32_t i = 0; i < source; i++) {
        if (!prefix_valid(policy_source(p, i))) return false;
    }
    for (uint32_t i = 0; i < tool; i++) {
        if (policy_agent_tool(p, i) >= policy_tool_count(p)) return false;
    }
    return true;
}

static bool tools_valid(const struct policy *p) {
    uint64_t endpoint = 0;
    for (uint32_t i = 0; i < policy_tool_count(p); i++) {
        const struct policy_tool *t = policy_tool(p, i);
        if (t->endpoint_first != endpoint) return false;
        endpoint += t->endpoint_count;
        if (endpoint > policy_endpoint_count(p)) return false;
        for (uint32_t e = t->endpoint_first; e < endpoint; e++) {
            if (policy_endpoint(p, e)->tool != i) return false;
        }
        if (!text_valid(p, t->name, NAME_TEXT_SIZE_MAX) ||
            !text_valid(p, t->version, NAME_TEXT_SIZE_MAX) ||
            !text_valid(p, t->owner, TEXT_SIZE_MAX) || !text_valid(p, t->purpose, TEXT_SIZE_MAX) ||
            !text_valid(p, t->file, FILE_TEXT_SIZE_MAX)) {
            return false;
        }
    }
    return endpoint == policy_endpoint_count(p);
}

/* ---- endpoints and patterns ---------------------------------------------------------------- */

/* `count` values that rise, none of them 0, then zeros. */
static bool rising(const uint16_t *values, unsigned count, unsigned size) {
    for (unsigned i = 0; i < count; i++) {
        if (values[i] <= (i > 0 ? values[i - 1] : 0)) return false;
    }
    return zeros(values + count, (size - count) * sizeof *values);
}

/* Address endpoints become openings without anyone looking at an answer, so what they may lead to
 * is judged here, by whoever uses the image, and not by the loader alone. */
static bool address_valid(const struct policy *p, const struct policy_endpoint *e) {
    if (!prefix_valid(&e->address) || e->type_count != 0) return false;
    if (prefix_ranges(&e->address) & ~(UINT32_C(1) << RANGE_PUBLIC | e->ranges)) return false;
    for (uint32_t i = 0; i < image_count(p, IMAGE_SUBNET); i++) {
        const struct prefix *subnet = policy_subnet(p, i);
        if (prefix_covers(subnet, &e->address) || prefix_covers(&e->address, subnet)) return false;
    }
    return true;
}

static bool endpoint_valid(const struct policy *p, const struct policy_endpoint *e) {
    static const struct prefix none;
    if (e->pattern == POLICY_NONE) {
        if (!address_valid(p, e)) return false;
    } else {
        if (e->pattern >= image_count(p, IMAGE_PATTERN) || e->type_count == 0) return false;
        if (memcmp(&e->address, &none, sizeof none) != 0) return false;
    }
    if (e->protocol != IPPROTO_TCP && e->protocol != IPPROTO_UDP) return false;
    if (e->ranges & ~POLICY_RANGES_OPTIONAL || e->zero != 0) return false;
    if (e->port_count < 1 || e->port_count > POLICY_PORTS_MAX) return false;
    if (e->type_count > POLICY_TYPES_MAX) return false;
    return rising(e->ports, e->port_count, POLICY_PORTS_MAX) &&
           rising(e->types, e->type_count, POLICY_TYPES_MAX) &&
           text_valid(p, e->data, NAME_TEXT_SIZE_MAX);
}

static bool glob_valid(const struct policy_pattern *q) {
    if (q->kind != PATTERN_GLOB) return q->glob_length == 0 && zeros(q->glob, sizeof q->glob);
    if (q->glob_length < 1 || q->glob_length > NAME_LABEL_MAX) return false;
    return zeros(q->glob + q->glob_length, sizeof q->glob - q->glob_length);
}

static bool pattern_valid(const struct policy *p, const struct policy_pattern *q) {
    if (q->kind > PATTERN_GLOB || q->zero[0] != 0 || q->zero[1] != 0) return false;
    if (!name_valid(&q->base) || q->base.length == 1) return false;
    return glob_valid(q) && text_valid(p, q->text, TEXT_SIZE_MAX);
}

static bool endpoints_valid(const struct policy *p) {
    for (uint32_t i = 0; i < policy_endpoint_count(p); i++) {
        if (!endpoint_valid(p, policy_endpoint(p, i))) return false;
    }
    for (uint32_t i = 0; i < image_count(p, IMAGE_PATTERN); i++) {
        if (!pattern_valid(p, policy_pattern(p, i))) return false;
    }
    for (uint32_t i = 0; i < policy_deny_count(p); i++) {
        const struct policy_deny *d = policy_deny(p, i);
        if (d->pattern >= image_count(p, IMAGE_PATTERN)) return false;
        if (!text_valid(p, d->file, FILE_TEXT_SIZE_MAX)) return false;
    }
    return true;
}

int policy_open(struct policy *ret, const void *image, size_t size) {
    struct policy p = {.base = image, .size = size, .header = image};
    if ((uintptr_t)image % 8 != 0 || size < sizeof(struct image_header) ||
        size > POLICY_IMAGE_MAX) {
        return -EBADMSG;
    }
    const struct image_header *h = p.header;
    if (memcmp(h->magic, IMAGE_MAGIC, sizeof h->magic) != 0 || h->version != IMAGE_VERSION ||
        h->size != size || h->zero != 0 || h->zero2 != 0) {
        return -EBADMSG;
    }
    if (!layout_valid(&p) || !texts_valid(&p) || !gateway_valid(&p) || !agents_valid(&p) ||
        !tools_valid(&p) || !endpoints_valid(&p) || !image_check_indexes(&p) ||
        !image_check_statics(&p)) {
        return -EBADMSG;
    }
    *ret = p;
    return 0;
}
