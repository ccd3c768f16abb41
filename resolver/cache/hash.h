/* hash.h: SipHash-2-4 (Aumasson, Bernstein 2012), a keyed hash for tables whose keys strangers
 * choose: without the key nobody can find names that meet in one bucket.
 */
#ifndef RESOLVER_CACHE_HASH_H
#define RESOLVER_CACHE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_keyed(const uint64_t key[2], const uint8_t *data, size_t size);

#endif
