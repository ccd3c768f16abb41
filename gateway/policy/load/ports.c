/* ports.c: protocol, ports and record types of an endpoint. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gateway/policy/load/model.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- ports ----------------------------------------------------------------------------------- */

static bool port_refused(const struct reader *r, const struct node *n, uint32_t first,
                         uint32_t last) {
    if (first <= 53 && last >= 53) {
        fault_add(r->f, node_place(r, n),
                  "port 53 is DNS, which the gateway answers itself wherever "
                  "it is sent; remove the port, names resolve without it");
        return true;
    }
    if (first <= 853 && last >= 853) {
        fault_add(r->f, node_place(r, n),
                  "port 853 is encrypted DNS, which would go around the "
                  "gateway; remove the port, names resolve without it");
        return true;
    }
    return false;
}

/* "443" or "8000-8010". */
static bool range_parse(const char *text, uint32_t *ret_first, uint32_t *ret_last) {
    size_t size = strcspn(text, "-");
    if (!digits_parse(text, size, 65535, ret_first) || *ret_first == 0) return false;
    if (text[size] == '\0') {
        *ret_last = *ret_first;
        return true;
    }
    return digits_parse(text + size + 1, strlen(text + size + 1), 65535, ret_last);
}

static int compare_u16(const void *a, const void *b) {
    return (int)*(const uint16_t *)a - *(const uint16_t *)b;
}

static bool port_add(const struct reader *r, const struct node *n, struct policy_endpoint *e) {
    const char *text;
    uint32_t first, last;
    if (!text_read(r, n, "port", 64, &text)) return false;
    if (!range_parse(text, &first, &last)) {
        fault_add(r->f, node_place(r, n),
                  "port is \"%s\"; write a number from 1 to 65535, a range as "
                  "in 8000-8010, or a list of them",
                  shown(text).text);
        return false;
    }
    if (last < first) {
        fault_add(r->f, node_place(r, n), "port range %s runs backwards; write %u-%u", text, last,
                  first);
        return false;
    }
    if (port_refused(r, n, first, last)) return false;
    for (uint32_t port = first; port <= last; port++) {
        for (unsigned i = 0; i < e->port_count; i++) {
            if (e->ports[i] != port) continue;
            fault_add(r->f, node_place(r, n), "port %u is listed twice; remove one", port);
            return false;
        }
        if (e->port_count == POLICY_PORTS_MAX) {
            fault_add(r->f, node_place(r, n),
                      "more than %d ports in one endpoint; list only those "
                      "that are used, or write several endpoints",
                      POLICY_PORTS_MAX);
            return false;
        }
        e->ports[e->port_count++] = (uint16_t)port;
    }
    return true;
}

static bool ports_read(const struct reader *r, const struct node *n, struct policy_endpoint *e) {
    bool fine = true;
    if (n->kind != NODE_LIST) return port_add(r, n, e);
    if (!n->first) {
        fault_add(r->f, node_place(r, n), "port is an empty list; write the ports that are used");
        return false;
    }
    for (const struct node *p = n->first; p; p = p->next) fine &= port_add(r, p, e);
    qsort(e->ports, e->port_count, sizeof *e->ports, compare_u16);
    return fine;
}

static const struct {
    const char *name;
    uint8_t protocol;
    uint16_t port; /* 0: `port:` says */
} protocols[] = {
    {"https", IPPROTO_TCP, 443}, {"http", IPPROTO_TCP, 80}, {"quic", IPPROTO_UDP, 443},
    {"tcp", IPPROTO_TCP, 0},     {"udp", IPPROTO_UDP, 0},
};

bool protocol_read(const struct reader *r, const struct node *protocol, const struct node *port,
                   struct policy_endpoint *e) {
    static const char *const names[] = {"https", "http", "quic", "tcp", "udp"};
    uint32_t i;
    if (!choice_read(r, protocol, "protocol", names, COUNT(names), &i)) return false;
    e->protocol = protocols[i].protocol;
    const char *transport = e->protocol == IPPROTO_TCP ? "tcp" : "udp";
    if (protocols[i].port != 0) {
        e->ports[0] = protocols[i].port;
        e->port_count = 1;
        if (!port) return true;
        fault_add(r->f, node_place(r, port),
                  "%s is %s port %u already; remove port, or write "
                  "protocol: %s with the port",
                  names[i], transport, protocols[i].port, transport);
        return false;
    }
    if (port) return ports_read(r, port, e);
    fault_add(r->f, node_place(r, protocol),
              "%s needs a port; add port: and a number, range or list", transport);
    return false;
}

/* ---- record types ---------------------------------------------------------------------------- */

/* Types that can be asked for by name (IANA registry). CNAME and DNAME are missing since chains are
 * followed anyway, NULL and private types since they only carry data out. */
static const struct {
    const char *name;
    uint16_t type;
} types[] = {
    {"A", 1},       {"NS", 2},          {"SOA", 6},   {"HINFO", 13}, {"MX", 15},     {"TXT", 16},
    {"RP", 17},     {"AFSDB", 18},      {"AAAA", 28}, {"LOC", 29},   {"SRV", 33},    {"NAPTR", 35},
    {"KX", 36},     {"CERT", 37},       {"DS", 43},   {"SSHFP", 44}, {"DNSKEY", 48}, {"TLSA", 52},
    {"SMIMEA", 53}, {"OPENPGPKEY", 61}, {"SPF", 99},  {"URI", 256},  {"CAA", 257},
};

static const struct {
    const char *name, *why;
} refused[] = {
    {"HTTPS", "it would carry addresses around the control; remove it, clients do without"},
    {"SVCB", "it would carry addresses around the control; remove it, clients do without"},
    {"ANY", "it is answered minimally (RFC 8482); list the types that are needed"},
    {"*", "it stands for ANY; list the types that are needed"},
    {"PTR", "it is answered from live openings; remove it"},
    {"CNAME", "chains are followed anyway; remove it"},
    {"DNAME", "chains are followed anyway; remove it"},
    {"OPT", "it is no record of a zone; remove it"},
    {"TSIG", "it is no record of a zone; remove it"},
    {"TKEY", "it is no record of a zone; remove it"},
    {"AXFR", "zones are not transferred; list the types that are needed"},
    {"IXFR", "zones are not transferred; list the types that are needed"},
    {"NULL", "it only carries data; remove it"},
};

static bool type_find(const struct reader *r, const struct node *n, uint16_t *ret) {
    const char *text;
    if (!text_read(r, n, "type", 64, &text)) return false;
    for (size_t i = 0; i < COUNT(types); i++) {
        if (strcasecmp(types[i].name, text) != 0) continue;
        *ret = types[i].type;
        return true;
    }
    for (size_t i = 0; i < COUNT(refused); i++) {
        if (strcasecmp(refused[i].name, text) != 0) continue;
        fault_add(r->f, node_place(r, n), "type %s cannot be allowed: %s", refused[i].name,
                  refused[i].why);
        return false;
    }
    fault_add(r->f, node_place(r, n),
              "unknown record type \"%s\"; write types such as A, AAAA, MX, "
              "TXT or SRV",
              shown(text).text);
    return false;
}

static bool type_add(const struct reader *r, const struct node *n, struct policy_endpoint *e) {
    uint16_t type;
    if (!type_find(r, n, &type)) return false;
    for (unsigned i = 0; i < e->type_count; i++) {
        if (e->types[i] != type) continue;
        fault_add(r->f, node_place(r, n), "type %s is listed twice; remove one",
                  shown(n->text).text);
        return false;
    }
    if (e->type_count == POLICY_TYPES_MAX) {
        fault_add(r->f, node_place(r, n),
                  "more than %d types in one endpoint; list only those that "
                  "are used",
                  POLICY_TYPES_MAX);
        return false;
    }
    e->types[e->type_count++] = type;
    return true;
}

bool types_read(const struct reader *r, const struct node *n, struct policy_endpoint *e) {
    const struct node *t;
    bool fine = true;
    if (!n) {
        e->types[0] = TYPE_A;
        e->types[1] = TYPE_AAAA;
        e->type_count = 2;
        return true;
    }
    if (!list_read(r, n, "types", &t)) return false;
    if (!t) {
        fault_add(r->f, node_place(r, n),
                  "types is empty; list the types, or remove it for A, AAAA");
        return false;
    }
    for (; t; t = t->next) fine &= type_add(r, t, e);
    qsort(e->types, e->type_count, sizeof *e->types, compare_u16);
    return fine;
}
