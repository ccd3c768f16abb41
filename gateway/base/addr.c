/* addr.c: addresses, prefixes, and the special ranges. */
#include "gateway/base/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static unsigned width(const struct addr *a) {
    return a->family == 4 ? 4 : 16;
}

struct addr addr_from4(const uint8_t bytes[4]) {
    struct addr a = {.family = 4};
    memcpy(a.bytes, bytes, 4);
    return a;
}

struct addr addr_from6(const uint8_t bytes[16]) {
    struct addr a = {.family = 6};
    memcpy(a.bytes, bytes, 16);
    return a;
}

int addr_parse(const char *text, struct addr *ret) {
    uint8_t bytes[16];
    if (inet_pton(AF_INET, text, bytes) == 1) {
        *ret = addr_from4(bytes);
        return 0;
    }
    if (inet_pton(AF_INET6, text, bytes) == 1) {
        *ret = addr_from6(bytes);
        return 0;
    }
    return -EINVAL;
}

/* Reads a prefix length: one to three digits, nothing else. */
static int parse_bits(const char *text, unsigned *ret) {
    size_t length = strlen(text);
    if (length < 1 || length > 3 || strspn(text, "0123456789") != length) return -EINVAL;
    if (length > 1 && text[0] == '0') return -EINVAL;
    *ret = (unsigned)strtoul(text, NULL, 10);
    return 0;
}

int prefix_parse(const char *text, struct prefix *ret) {
    char address[ADDR_TEXT_MAX];
    size_t length = strcspn(text, "/");
    if (length >= sizeof address) return -EINVAL;
    memcpy(address, text, length);
    address[length] = '\0';

    struct addr a;
    if (addr_parse(address, &a) < 0) return -EINVAL;
    unsigned bits = 8 * width(&a), most = bits;
    if (text[length] == '/' && parse_bits(text + length + 1, &bits) < 0) return -EINVAL;
    if (bits > most) return -ERANGE;
    struct prefix p = prefix_of(&a, (uint8_t)bits);
    if (!addr_equal(&p.addr, &a)) return -EDOM;
    *ret = p;
    return 0;
}

const char *addr_format(const struct addr *a, char *text) {
    int family = a->family == 4 ? AF_INET : AF_INET6;
    /* Family 0 stands for "no address" in messages; it must not look like one. */
    if (a->family == 0 || !inet_ntop(family, a->bytes, text, ADDR_TEXT_MAX)) {
        text[0] = '-';
        text[1] = '\0';
    }
    return text;
}

const char *prefix_format(const struct prefix *p, char *text) {
    addr_format(&p->addr, text);
    size_t used = strlen(text);
    unsigned bits = p->bits;
    text[used++] = '/';
    if (bits >= 100) text[used++] = (char)('0' + bits / 100);
    if (bits >= 10) text[used++] = (char)('0' + bits / 10 % 10);
    text[used++] = (char)('0' + bits % 10);
    text[used] = '\0';
    return text;
}

int addr_from_sockaddr(const struct sockaddr *sa, struct addr *ret, uint16_t *ret_port) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in in; /* copied: `sa` may point into a packet buffer, unaligned */
        memcpy(&in, sa, sizeof in);
        *ret = addr_from4((const uint8_t *)&in.sin_addr);
        *ret_port = ntohs(in.sin_port);
        return 0;
    }
    if (sa->sa_family != AF_INET6) return -EAFNOSUPPORT;
    struct sockaddr_in6 in;
    memcpy(&in, sa, sizeof in);
    const uint8_t *bytes = in.sin6_addr.s6_addr;
    *ret = memcmp(bytes, mapped, sizeof mapped) == 0 ? addr_from4(bytes + 12) : addr_from6(bytes);
    *ret_port = ntohs(in.sin6_port);
    return 0;
}

socklen_t addr_to_sockaddr(const struct addr *a, uint16_t port, struct sockaddr_storage *ret) {
    memset(ret, 0, sizeof *ret);
    if (a->family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)ret;
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, a->bytes, 4);
        return sizeof *in;
    }
    struct sockaddr_in6 *in = (struct sockaddr_in6 *)ret;
    in->sin6_family = AF_INET6;
    in->sin6_port = htons(port);
    memcpy(&in->sin6_addr, a->bytes, 16);
    return sizeof *in;
}

bool addr_equal(const struct addr *a, const struct addr *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

int addr_compare(const struct addr *a, const struct addr *b) {
    return memcmp(a, b, sizeof *a); /* family comes first, then bytes in network order */
}

bool addr_valid(const struct addr *a) {
    static const uint8_t zero[12];
    if (a->family != 4 && a->family != 6) return false;
    if (memcmp(a->zero, zero, sizeof a->zero) != 0) return false;
    return a->family == 6 || memcmp(a->bytes + 4, zero, sizeof zero) == 0;
}

bool prefix_valid(const struct prefix *p) {
    if (!addr_valid(&p->addr) || p->bits > 8 * width(&p->addr)) return false;
    if (p->zero[0] != 0 || p->zero[1] != 0 || p->zero[2] != 0) return false;
    struct prefix q = prefix_of(&p->addr, p->bits);
    return addr_equal(&q.addr, &p->addr);
}

/* Whether the first `bits` bits agree. */
static bool bits_equal(const uint8_t *a, const uint8_t *b, unsigned bits) {
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(a, b, whole) != 0) return false;
    return rest == 0 || ((a[whole] ^ b[whole]) & (0xff00u >> rest) & 0xff) == 0;
}

bool prefix_contains(const struct prefix *p, const struct addr *a) {
    return p->addr.family == a->family && bits_equal(p->addr.bytes, a->bytes, p->bits);
}

bool prefix_covers(const struct prefix *p, const struct prefix *q) {
    return p->bits <= q->bits && prefix_contains(p, &q->addr);
}

struct prefix prefix_of(const struct addr *a, uint8_t bits) {
    struct prefix p = {.addr = *a, .bits = bits};
    unsigned whole = bits / 8, rest = bits % 8, size = width(a);
    if (whole < size) {
        p.addr.bytes[whole] &= (uint8_t)(0xff00u >> rest);
        memset(p.addr.bytes + whole + 1, 0, size - whole - 1);
    }
    return p;
}

/* ---- special ranges ------------------------------------------------------------------------ */

struct range_row {
    uint8_t bits, range;
    uint8_t bytes[16];
};

/* From the IANA special-purpose registries (RFC 6890 and what was added since). The first row that
 * holds the address counts, so a part stands before its whole. Rows that the registries call
 * globally reachable (AS112, AMT) are left out where they have a prefix of their own outside the
 * blocks below: they are public. */
static const struct range_row ranges4[] = {
    {8, RANGE_UNSPECIFIED, {0}},
    {8, RANGE_PRIVATE, {10}},
    {10, RANGE_PRIVATE, {100, 64}}, /* RFC 6598 */
    {8, RANGE_LOOPBACK, {127}},
    {16, RANGE_LINK_LOCAL, {169, 254}}, /* RFC 3927; 169.254.169.254 serves cloud metadata */
    {12, RANGE_PRIVATE, {172, 16}},
    {24, RANGE_RESERVED, {192, 0, 0}}, /* RFC 6890 section 2.1 */
    {24, RANGE_DOCUMENTATION, {192, 0, 2}},
    {24, RANGE_RESERVED, {192, 88, 99}}, /* relays of 6to4, RFC 7526 */
    {16, RANGE_PRIVATE, {192, 168}},
    {15, RANGE_DOCUMENTATION, {198, 18}}, /* benchmarks, RFC 2544 */
    {24, RANGE_DOCUMENTATION, {198, 51, 100}},
    {24, RANGE_DOCUMENTATION, {203, 0, 113}},
    {4, RANGE_MULTICAST, {224}},
    {4, RANGE_MULTICAST, {240}}, /* RFC 1112 section 4, with the broadcast address */
    {0, RANGE_PUBLIC, {0}},
};

static const struct range_row ranges6[] = {
    {128, RANGE_UNSPECIFIED, {0}},
    {128, RANGE_LOOPBACK, {[15] = 1}},
    {96, RANGE_EMBEDDED, {0}},                                /* compatible, RFC 4291 section 2.5.5.1 */
    {96, RANGE_EMBEDDED, {[10] = 0xff, [11] = 0xff}},         /* mapped, section 2.5.5.2 */
    {96, RANGE_EMBEDDED, {[8] = 0xff, [9] = 0xff}},           /* translated, RFC 2765 */
    {96, RANGE_EMBEDDED, {0x00, 0x64, 0xff, 0x9b}},           /* NAT64, RFC 6052 */
    {48, RANGE_EMBEDDED, {0x00, 0x64, 0xff, 0x9b, 0, 1}},     /* NAT64, RFC 8215 */
    {16, RANGE_EMBEDDED, {0x20, 0x02}},                       /* 6to4, RFC 3056 */
    {32, RANGE_EMBEDDED, {0x20, 0x01, 0, 0}},                 /* Teredo, RFC 4380 */
    {48, RANGE_DOCUMENTATION, {0x20, 0x01, 0, 2}},            /* benchmarks, RFC 5180 */
    {23, RANGE_RESERVED, {0x20, 0x01, 0}},                    /* protocol assignments, RFC 2928 */
    {32, RANGE_DOCUMENTATION, {0x20, 0x01, 0x0d, 0xb8}},      /* RFC 3849 */
    {20, RANGE_DOCUMENTATION, {0x3f, 0xff, 0}},               /* RFC 9637 */
    {7, RANGE_PRIVATE, {0xfc}},                               /* RFC 4193 */
    {10, RANGE_LINK_LOCAL, {0xfe, 0x80}},
    {8, RANGE_MULTICAST, {0xff}},
    {3, RANGE_PUBLIC, {0x20}}, /* the only block given out for global unicast */
    {0, RANGE_RESERVED, {0}},
};

enum addr_range addr_range(const struct addr *a) {
    if (a->family != 4 && a->family != 6) return RANGE_RESERVED;
    const struct range_row *row = a->family == 4 ? ranges4 : ranges6;
    while (!bits_equal(row->bytes, a->bytes, row->bits)) row++; /* the last row holds every address */
    return (enum addr_range)row->range;
}

uint32_t prefix_ranges(const struct prefix *p) {
    const struct range_row *row = p->addr.family == 4 ? ranges4 : ranges6;
    uint32_t touched = 0;
    /* Rows inside the prefix count until the row that holds all of it, which the last one does. */
    for (;; row++) {
        unsigned common = row->bits < p->bits ? row->bits : p->bits;
        if (!bits_equal(row->bytes, p->addr.bytes, common)) continue;
        touched |= UINT32_C(1) << row->range;
        if (row->bits <= p->bits) return touched;
    }
}

const char *addr_range_name(enum addr_range r) {
    static const char *const names[] = {
        [RANGE_PUBLIC] = "public",
        [RANGE_UNSPECIFIED] = "unspecified",
        [RANGE_LOOPBACK] = "loopback",
        [RANGE_PRIVATE] = "private",
        [RANGE_LINK_LOCAL] = "link-local",
        [RANGE_MULTICAST] = "multicast",
        [RANGE_DOCUMENTATION] = "documentation",
        [RANGE_EMBEDDED] = "embedded",
        [RANGE_RESERVED] = "reserved",
    };
    return (unsigned)r < sizeof names / sizeof *names ? names[r] : "unknown";
}
