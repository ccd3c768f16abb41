/* key.c: keys that last across reloads: BLAKE2b (RFC 7693), 16 bytes, over a kind and then every
 * field with a fixed size or an end mark, so that no two different things feed the same bytes.
 */
#include <sodium.h>
#include <string.h>

#include "gateway/policy/load/model.h"

static void feed_text(crypto_generichash_state *s, const char *text) {
    crypto_generichash_update(s, (const uint8_t *)text, strlen(text) + 1);
}

static void feed_numbers(crypto_generichash_state *s, const uint16_t *numbers, unsigned count) {
    uint8_t bytes[2 * POLICY_PORTS_MAX + 1] = {(uint8_t)count};
    for (unsigned i = 0; i < count; i++) {
        bytes[1 + 2 * i] = (uint8_t)(numbers[i] >> 8);
        bytes[2 + 2 * i] = (uint8_t)numbers[i];
    }
    crypto_generichash_update(s, bytes, 1 + 2 * count);
}

void key_of_agent(const char *name, uint8_t ret[POLICY_KEY_SIZE]) {
    crypto_generichash_state s;
    crypto_generichash_init(&s, NULL, 0, POLICY_KEY_SIZE);
    feed_text(&s, "agent");
    feed_text(&s, name);
    crypto_generichash_final(&s, ret, POLICY_KEY_SIZE);
}

void key_of_endpoint(const struct model_tool *tool, struct model_endpoint *e) {
    const struct policy_pattern *pattern = &e->pattern;
    uint8_t kinds[4] = {pattern->kind, pattern->glob_length, e->out.protocol,
                        (uint8_t)e->out.ranges};
    uint8_t more = (uint8_t)(e->out.ranges >> 8);
    crypto_generichash_state s;
    crypto_generichash_init(&s, NULL, 0, POLICY_KEY_SIZE);
    feed_text(&s, pattern->base.length > 0 ? "name" : "address");
    feed_text(&s, tool->full);
    crypto_generichash_update(&s, kinds, sizeof kinds);
    crypto_generichash_update(&s, &more, 1);
    if (pattern->base.length > 0) {
        crypto_generichash_update(&s, pattern->base.wire, pattern->base.length);
        crypto_generichash_update(&s, pattern->glob, pattern->glob_length);
    } else {
        crypto_generichash_update(&s, (const uint8_t *)&e->out.address, sizeof e->out.address);
    }
    feed_numbers(&s, e->out.ports, e->out.port_count);
    feed_numbers(&s, e->out.types, e->out.type_count);
    crypto_generichash_final(&s, e->out.key, POLICY_KEY_SIZE);
}
