/* policy.h: the policy image and decide().
 *
 * An image is one immutable block of bytes, made by the loader (gateway/policy/load) from
 * gateway.yaml and the policy folder. It is position-independent (offsets, never pointers) and the
 * same bytes are mapped by core, resolver, recorder and control, so all decide alike. Its digest is
 * a pure function of what the files say. Readers must call policy_open(), which checks every
 * offset, count and value once; after that the accessors need no checks.
 *
 * Indexes (agent, tool, endpoint, deny) are valid within one image only. What must last across
 * reloads uses the 16-byte keys.
 */
#ifndef GATEWAY_POLICY_POLICY_H
#define GATEWAY_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/base/addr.h"
#include "gateway/base/name.h"
#include "gateway/base/reason.h"

#define POLICY_DIGEST_SIZE 32      /* BLAKE2b-256 over all bytes of the image after the digest */
#define POLICY_DIGEST_TEXT_MAX 65  /* lower-case hex and NUL */
#define POLICY_KEY_SIZE 16
#define POLICY_NONE UINT32_MAX     /* "no index" */
#define POLICY_MATCH_MAX 32        /* endpoints one decision can name */
#define POLICY_CLIENTS_MAX 16      /* addresses for which a question over the other family opens */
#define POLICY_PORTS_MAX 64        /* ports one endpoint can list; refused at load above */
#define POLICY_TYPES_MAX 16        /* record types one endpoint can list */
#define POLICY_INTERFACES_MAX 16   /* agent interfaces */
#define POLICY_UPSTREAMS_MAX 8
#define POLICY_IFNAME_MAX 16       /* IFNAMSIZ */
#define POLICY_PATH_MAX 256
#define POLICY_IMAGE_MAX (512u << 20) /* bytes; a larger one is refused */
#define POLICY_LIFETIME_MAX 86400  /* seconds: dns.max_lifetime at most */
#define POLICY_GRACE_MAX 300       /* seconds: dns.grace at most */
/* Special ranges that an endpoint may opt into with `ranges:`. */
#define POLICY_RANGES_OPTIONAL (UINT32_C(1) << RANGE_PRIVATE | UINT32_C(1) << RANGE_DOCUMENTATION)

/* DNS types that the control treats by name (IANA registry). */
enum { TYPE_A = 1, TYPE_NS = 2, TYPE_CNAME = 5, TYPE_SOA = 6, TYPE_PTR = 12, TYPE_MX = 15,
       TYPE_TXT = 16, TYPE_AAAA = 28, TYPE_SRV = 33, TYPE_DNAME = 39, TYPE_OPT = 41,
       TYPE_SVCB = 64, TYPE_HTTPS = 65, TYPE_ANY = 255 };

enum policy_deny_answer { DENY_NXDOMAIN, DENY_REFUSED, DENY_NODATA };
enum policy_when_full { WHEN_FULL_REFUSE, WHEN_FULL_DROP };
enum policy_mode { MODE_ENFORCE, MODE_SHADOW, MODE_OBSERVE };
enum policy_ipv6 { IPV6_AUTO, IPV6_YES, IPV6_NO }; /* auto: whether a route to 2000::/3 exists */

/* gateway.yaml, compiled. All strings are NUL-terminated and NUL-padded. Times in seconds. */
struct policy_gateway {
    struct {
        char interface[POLICY_IFNAME_MAX];
        uint32_t subnet_first, subnet_count; /* see policy_subnet() */
    } agents[POLICY_INTERFACES_MAX];
    struct {
        struct addr address;
        uint16_t port;
        uint16_t zero;
        char tls_name[256]; /* empty: plain DNS */
    } upstreams[POLICY_UPSTREAMS_MAX];
    uint32_t agent_interfaces, upstream_count; /* used entries of the arrays above */
    char uplink[POLICY_IFNAME_MAX];
    char management[POLICY_IFNAME_MAX]; /* empty: none */
    uint32_t management_subnet_first, management_subnet_count;
    uint32_t masquerade; /* 0 or 1 */
    uint32_t ipv6;       /* enum policy_ipv6 */
    uint32_t deny;       /* enum policy_deny_answer */
    uint32_t canaries;   /* 1: canary names get NXDOMAIN */
    uint32_t min_lifetime, max_lifetime, grace;
    uint32_t when_full; /* enum policy_when_full */
    uint32_t openings_per_client, addresses_per_name, queries_per_second, pending_per_client;
    uint32_t log_segment_bytes, log_keep; /* rotation size; rotated files kept */
    char name[64]; /* of this gateway, in records; empty: the host name where it runs (the image says
                      only what the files say) */
    /* Absolute, but for policy_directory: as written, relative to the folder of gateway.yaml. */
    char log_directory[POLICY_PATH_MAX], policy_directory[POLICY_PATH_MAX];
    char state_directory[POLICY_PATH_MAX], runtime_directory[POLICY_PATH_MAX];
};

struct policy_agent {
    uint8_t key[POLICY_KEY_SIZE]; /* of the agent's name */
    uint32_t name;                /* policy_text() */
    uint32_t source_first, source_count; /* policy_source() */
    uint32_t tool_first, tool_count;     /* policy_agent_tool() */
    uint32_t mode;                       /* enum policy_mode */
    uint32_t file, line;                 /* where it stands; file: policy_text() */
};

struct policy_tool {
    uint32_t name, version, owner, purpose, file; /* policy_text() */
    uint32_t line;
    uint32_t endpoint_first, endpoint_count;
};

/* One name pattern (DESIGN section 4). `base` is the part without wildcards. */
enum pattern_kind {
    PATTERN_EXACT, /* base itself */
    PATTERN_ONE,   /* *.base: exactly one label below */
    PATTERN_DEEP,  /* **.base: one or more labels below */
    PATTERN_GLOB,  /* glob.base: one label below that matches `glob` ('*' = any run of octets) */
};

struct policy_pattern {
    struct name base;
    uint8_t kind; /* enum pattern_kind */
    uint8_t glob_length;
    uint8_t glob[NAME_LABEL_MAX + 1]; /* lower case, '*' included */
    uint8_t zero[2];
    uint32_t text; /* as written, policy_text() */
};

struct policy_endpoint {
    uint8_t key[POLICY_KEY_SIZE]; /* of tool@version, pattern or address, protocol, ports, types, ranges */
    uint32_t pattern;             /* policy_pattern(), or POLICY_NONE for an address endpoint */
    struct prefix address;        /* family 0 for a name endpoint */
    uint32_t tool;
    uint32_t line;                /* in the tool's file */
    uint32_t data;                /* data class, policy_text() */
    uint32_t ranges;              /* bit 1 << enum addr_range: special ranges it may lead into */
    uint8_t protocol;             /* IPPROTO_TCP or IPPROTO_UDP */
    uint8_t port_count, type_count, zero;
    uint16_t ports[POLICY_PORTS_MAX]; /* ascending, host order */
    uint16_t types[POLICY_TYPES_MAX]; /* ascending; A and AAAA unless the manifest lists others */
};

struct policy_deny {
    uint32_t pattern; /* policy_pattern() */
    uint32_t file, line;
};

/* One element of the kernel's maps for address endpoints: disjoint in (source, remote, protocol,
 * ports) over the whole image, so the kernel can hold them as intervals. */
struct policy_static {
    uint32_t agent, endpoint;
    struct prefix source, remote; /* same family */
    uint8_t protocol, zero;
    uint16_t port_first, port_last;
    uint16_t zero2;
};

/* A view of an image: plain pointers into it. The caller keeps the image mapped meanwhile. */
struct policy {
    const uint8_t *base;
    size_t size;
    const void *header; /* private */
};

/* Checks the whole image and fills the view. -EBADMSG if anything is off (never reads outside), or
 * if `image` is not aligned to 8. Whether the digest is that of the bytes is not looked at: this
 * folder uses libc alone. A process that takes an image from disk or from another process and
 * has libsodium (core) compares policy_digest() with crypto_generichash() over all bytes after it. */
int policy_open(struct policy *ret, const void *image, size_t size);

const uint8_t *policy_digest(const struct policy *p); /* POLICY_DIGEST_SIZE bytes */
uint64_t policy_id(const struct policy *p);           /* first 8 bytes of the digest, for messages */
const char *policy_digest_text(const struct policy *p, char text[POLICY_DIGEST_TEXT_MAX]);
const struct policy_gateway *policy_gateway(const struct policy *p);

/* All indexes must be below the count; offsets must come from the image. */
const char *policy_text(const struct policy *p, uint32_t offset);
uint32_t policy_agent_count(const struct policy *p);
const struct policy_agent *policy_agent(const struct policy *p, uint32_t index);
const struct prefix *policy_source(const struct policy *p, uint32_t index);
uint32_t policy_agent_tool(const struct policy *p, uint32_t index); /* a tool index */
uint32_t policy_tool_count(const struct policy *p);
const struct policy_tool *policy_tool(const struct policy *p, uint32_t index);
uint32_t policy_endpoint_count(const struct policy *p);
const struct policy_endpoint *policy_endpoint(const struct policy *p, uint32_t index);
uint32_t policy_deny_count(const struct policy *p);
const struct policy_deny *policy_deny(const struct policy *p, uint32_t index);
const struct policy_pattern *policy_pattern(const struct policy *p, uint32_t index);
const struct prefix *policy_subnet(const struct policy *p, uint32_t index);
uint32_t policy_static_count(const struct policy *p);
const struct policy_static *policy_static(const struct policy *p, uint32_t index);

/* The index of the endpoint or agent with this key, or POLICY_NONE. O(1). */
uint32_t policy_endpoint_by_key(const struct policy *p, const uint8_t key[POLICY_KEY_SIZE]);
uint32_t policy_agent_by_key(const struct policy *p, const uint8_t key[POLICY_KEY_SIZE]);
/* The agent whose sources hold the address (longest prefix; sources of agents never overlap). */
uint32_t policy_agent_of(const struct policy *p, const struct addr *client);
/* The source addresses for which the client's request opens addresses of this family. Of its own
 * family: itself. Of the other one (a dual-stack host asks for AAAA over IPv4): all addresses the
 * agent may send from, if these are few; which of them the asking host has is not to be known.
 * 0: none, or more than POLICY_CLIENTS_MAX. */
unsigned policy_clients(const struct policy *p, uint32_t agent, const struct addr *client,
                        uint8_t family, struct addr ret[POLICY_CLIENTS_MAX]);
/* Whether the pattern matches the name. */
bool policy_pattern_matches(const struct policy_pattern *pattern, const struct name *name);

/* The outcome. Rules are told as (deny index) or (endpoint index), never both. */
struct decision {
    enum reason reason; /* REASON_ALLOWED, or why not */
    uint32_t agent;     /* POLICY_NONE when the client is unknown */
    uint32_t deny;      /* the deny entry that matched, or POLICY_NONE */
    uint32_t endpoint;  /* the first endpoint that matched the name, or POLICY_NONE */
    uint32_t count;     /* endpoints that match name and type, in order: the agent's list of tools,
                           then the line in the manifest */
    uint32_t endpoints[POLICY_MATCH_MAX];
};

/* Pure: no I/O, no allocation, no time. Order: client, canary, deny list, reverse names (type PTR
 * below in-addr.arpa and ip6.arpa: REASON_PTR_UNKNOWN; the caller may know an opening), endpoints,
 * type. A and AAAA are decided alike; whether IPv6 is up is not looked at. */
void policy_decide(const struct policy *p, const struct addr *client, const struct name *name,
                   uint16_t type, struct decision *ret);
/* The deny entry that matches, or POLICY_NONE: for the hops of a CNAME chain. */
uint32_t policy_denies(const struct policy *p, const struct name *name);
/* Whether the agent has the endpoint among its tools. */
bool policy_agent_has(const struct policy *p, uint32_t agent, uint32_t endpoint);
/* Whether the endpoint may lead to the address: a public one, or in a range it names; never an
 * address of agent or management subnets, or (address endpoint) one outside its prefix. */
bool policy_endpoint_reaches(const struct policy *p, uint32_t endpoint, const struct addr *remote);

#define POLICY_RULE_TEXT_MAX 512
/* "web-search@1.4.2 tools/web-search.yaml:8", "deny agents.yaml:12", or "default". */
const char *policy_rule_text(const struct policy *p, const struct decision *d,
                             char text[POLICY_RULE_TEXT_MAX]);

#endif
