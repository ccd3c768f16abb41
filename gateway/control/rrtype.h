/* rrtype.h: names of DNS record types, for requests and answers to people. */
#ifndef GATEWAY_CONTROL_RRTYPE_H
#define GATEWAY_CONTROL_RRTYPE_H

#include <stdint.h>

#define RRTYPE_TEXT_MAX 16

/* "A", "aaaa", "TYPE65280" (RFC 3597 section 5). 0 or -EINVAL. */
int rrtype_parse(const char *text, uint16_t *ret);
const char *rrtype_format(uint16_t type, char text[RRTYPE_TEXT_MAX]);

#endif
