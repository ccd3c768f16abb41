/* hash.c: SipHash-2-4. */
#include "resolver/cache/hash.h"

static uint64_t rotate(uint64_t v, unsigned by) {
    return v << by | v >> (64 - by);
}

static void rounds(uint64_t v[4], unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

/* Up to eight octets, little endian. */
static uint64_t word(const uint8_t *data, size_t size) {
    uint64_t w = 0;
    for (size_t i = 0; i < size; i++) w |= (uint64_t)data[i] << (8 * i);
    return w;
}

static void absorb(uint64_t v[4], uint64_t w) {
    v[3] ^= w;
    rounds(v, 2);
    v[0] ^= w;
}

uint64_t hash_keyed(const uint64_t key[2], const uint8_t *data, size_t size) {
    /* The constants spell "somepseudorandomlygeneratedbytes". */
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                     key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
    size_t at = 0;
    for (; size - at >= 8; at += 8) absorb(v, word(data + at, 8));
    absorb(v, word(data + at, size - at) | (uint64_t)size << 56);
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
