/* addr.h: IPv4 and IPv6 addresses and prefixes, as bytes in network order.
 *
 * The same struct goes into messages between processes and into the policy image, so every byte is
 * significant: unused bytes are zero, which makes memcmp() a valid comparison.
 */
#ifndef GATEWAY_BASE_ADDR_H
#define GATEWAY_BASE_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct addr {
    uint8_t family; /* 4 or 6; 0: none */
    uint8_t zero[3];
    uint8_t bytes[16]; /* IPv4 uses the first 4 */
};

struct prefix {
    struct addr addr; /* host bits are zero */
    uint8_t bits;     /* 0..32 or 0..128 */
    uint8_t zero[3];
};

#define ADDR_TEXT_MAX 46   /* as INET6_ADDRSTRLEN */
#define PREFIX_TEXT_MAX 50 /* with "/128" */

/* Kinds of ranges that an answer must not lead into (DESIGN invariant 5). */
enum addr_range {
    RANGE_PUBLIC = 0,
    RANGE_UNSPECIFIED, /* 0.0.0.0/8, ::/128 */
    RANGE_LOOPBACK,
    RANGE_PRIVATE,       /* RFC 1918, RFC 4193, 100.64.0.0/10 */
    RANGE_LINK_LOCAL,    /* 169.254.0.0/16 with the metadata address, fe80::/10 */
    RANGE_MULTICAST,     /* and broadcast, 240.0.0.0/4 */
    RANGE_DOCUMENTATION, /* RFC 5737, RFC 3849, RFC 9637, 198.18.0.0/15 */
    RANGE_EMBEDDED,      /* mapped, compatible, NAT64, 6to4, Teredo, whatever they embed */
    RANGE_RESERVED,      /* other special-purpose (RFC 6890 registries), and IPv6 outside 2000::/3 */
};

/* Parses a numeric address; no names, zones, or IPv4 shorthand. 0 or -EINVAL. */
int addr_parse(const char *text, struct addr *ret);
/* Parses "a.b.c.d/n", "v6::/n" or a bare address (full length). Host bits must be zero:
 * -EINVAL malformed, -ERANGE length out of range, -EDOM host bits set. */
int prefix_parse(const char *text, struct prefix *ret);
/* Writes canonical text (RFC 5952); `text` holds at least ADDR_TEXT_MAX. Returns `text`. */
const char *addr_format(const struct addr *a, char *text);
const char *prefix_format(const struct prefix *p, char *text);

/* From and to socket addresses. An IPv4-mapped IPv6 source becomes family 4. 0 or -EAFNOSUPPORT. */
int addr_from_sockaddr(const struct sockaddr *sa, struct addr *ret, uint16_t *ret_port);
socklen_t addr_to_sockaddr(const struct addr *a, uint16_t port, struct sockaddr_storage *ret);

struct addr addr_from4(const uint8_t bytes[4]);
struct addr addr_from6(const uint8_t bytes[16]);
bool addr_equal(const struct addr *a, const struct addr *b);
int addr_compare(const struct addr *a, const struct addr *b);
/* Family 4 or 6 and unused bytes zero: what every receiver of a message checks. */
bool addr_valid(const struct addr *a);
bool prefix_valid(const struct prefix *p);
bool prefix_contains(const struct prefix *p, const struct addr *a);
/* Whether p contains all of q. */
bool prefix_covers(const struct prefix *p, const struct prefix *q);
struct prefix prefix_of(const struct addr *a, uint8_t bits); /* clears host bits */

/* Which special range the address is in; RANGE_PUBLIC when in none. */
enum addr_range addr_range(const struct addr *a);
/* Every range some address of the prefix is in: bits 1 << enum addr_range. */
uint32_t prefix_ranges(const struct prefix *p);
const char *addr_range_name(enum addr_range r);

#endif
