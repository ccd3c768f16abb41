/* name.h: domain names in canonical form: uncompressed wire format (RFC 1035 section 3.1), letters
 * A-Z folded to lower case, trailing root label included.
 *
 * Canonical form compares with memcmp() and cannot confuse "a\.b" with "a.b"; text is for people
 * only and escapes as RFC 1035 section 5.1 does (\. \\ \DDD).
 */
#ifndef GATEWAY_BASE_NAME_H
#define GATEWAY_BASE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_WIRE_MAX 255
#define NAME_LABEL_MAX 63
#define NAME_LABELS_MAX 127
#define NAME_TEXT_MAX 1016 /* every octet escaped as \DDD, dots, NUL */

struct name {
    uint8_t length; /* octets used in wire, 1 (the root) .. 255 */
    uint8_t wire[NAME_WIRE_MAX]; /* unused octets are zero */
};

/* Takes an uncompressed wire name of at most `size` octets. Returns octets consumed, or -EBADMSG. */
int name_from_wire(const uint8_t *wire, size_t size, struct name *ret);
/* Parses presentation text; a trailing dot is optional; "." is the root. -EINVAL if malformed. */
int name_from_text(const char *text, struct name *ret);
/* Writes text without trailing dot ("." for the root). `size` of NAME_TEXT_MAX always suffices.
 * Output is printable ASCII without space, quote or backslash other than in escapes.
 * Returns length, or -ENOSPC. */
int name_to_text(const struct name *n, char *text, size_t size);
/* Structure, case and padding are canonical: what every receiver of a message checks. */
bool name_valid(const struct name *n);
bool name_equal(const struct name *a, const struct name *b);
/* Labels without the root. */
unsigned name_labels(const struct name *n);
/* Whether `n` is `base` or below it, on a label boundary. */
bool name_within(const struct name *n, const struct name *base);
/* Only letters, digits, '-' and '_' in every label: what a host name in a policy may hold. */
bool name_is_host(const struct name *n);
/* The address a reverse name (in-addr.arpa, ip6.arpa) stands for: 0, or -EINVAL if it is not one. */
struct addr;
int name_to_reverse_addr(const struct name *n, struct addr *ret);

#endif
