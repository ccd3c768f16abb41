/* text.h: bytes of a file as text: UTF-8, and which characters may stand where. */
#ifndef GATEWAY_POLICY_LOAD_TEXT_H
#define GATEWAY_POLICY_LOAD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The code point at the start of NUL-terminated text; returns its octets, or 0 if they are not
 * UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). */
size_t text_utf8(const char *text, uint32_t *ret);
/* Whether a code point may be shown as it is: no control, and none of those that reorder or hide
 * text around them (bidirectional controls, zero-width, line separators, byte order mark). */
bool text_showable(uint32_t point);
bool text_is_ascii(const char *text);

#endif
