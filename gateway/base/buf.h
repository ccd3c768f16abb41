/* buf.h: a bounded output buffer over memory the caller owns. Writing past the end sets `overflow`
 * and writes nothing more; check once at the end.
 */
#ifndef GATEWAY_BASE_BUF_H
#define GATEWAY_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *data;
    size_t size, used;
    bool overflow;
};

static inline struct buf buf_over(void *data, size_t size) {
    return (struct buf){.data = data, .size = size};
}
void buf_put(struct buf *b, const void *data, size_t size);
void buf_put_text(struct buf *b, const char *text);
void buf_put_char(struct buf *b, char c);
void buf_put_u64(struct buf *b, uint64_t value); /* decimal */
void buf_format(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* `text` of `size` bytes as a JSON string with quotes; controls, DEL, and bytes that are not
 * printable ASCII become \u00XX, so the output is ASCII and cannot steer a terminal. */
void buf_put_json(struct buf *b, const char *text, size_t size);

#endif
