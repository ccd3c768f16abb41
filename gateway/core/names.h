/* names.h: each name kept once, however many openings and flows carry it. */
#ifndef GATEWAY_CORE_NAMES_H
#define GATEWAY_CORE_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/base/name.h"

#define HASH_KEY_SIZE 16 /* of SipHash; names and addresses are chosen by strangers */

struct name_ref; /* an interned name; two are the same name exactly if the pointers are equal */
struct names;

/* `key` is random per process. NULL when out of memory. */
struct names *names_new(const uint8_t key[HASH_KEY_SIZE]);
struct names *names_free(struct names *n); /* takes NULL; no name may be used any more */

/* The name with one more reference; NULL when out of memory. */
struct name_ref *names_get(struct names *n, const struct name *name);
/* The name if it is kept, without a reference; else NULL. */
struct name_ref *names_find(const struct names *n, const struct name *name);
struct name_ref *name_ref_keep(struct name_ref *r);               /* takes NULL */
struct name_ref *names_drop(struct names *n, struct name_ref *r); /* takes NULL; returns NULL */

/* A NULL reference gives the name of length 0: not known. */
void name_ref_read(const struct name_ref *r, struct name *ret);
uint64_t name_ref_hash(const struct name_ref *r);
uint32_t names_count(const struct names *n);
size_t names_bytes(const struct names *n); /* memory used */

#endif
