/* vet.h: from what an upstream said to what may be told. Pure.
 *
 * `struct vetted` has no public definition and no other maker than vet_answer(): code that wants to
 * open or to answer with addresses must go through here. A vetted answer belongs to (name, type)
 * and can be shared by clients; whether a given client may have it is vet_permit()'s to say, which
 * alone makes `struct permitted`.
 */
#ifndef RESOLVER_VET_VET_H
#define RESOLVER_VET_VET_H

#include "gateway/base/arena.h"
#include "gateway/policy/policy.h"
#include "resolver/wire/wire.h"

#define VET_CHAIN_MAX 8     /* CNAME hops */
#define VET_ADDRS_MAX 256
#define VET_OTHERS_BYTES_MAX 16384 /* rdata of a non-address answer, in all */

struct vetted;    /* structure checked: what the upstream says about (name, type) */
struct permitted; /* a vetted answer this client may have under this policy */

enum vetted_kind { VETTED_ADDRS, VETTED_OTHERS, VETTED_NODATA, VETTED_NXDOMAIN };

/* Judges an answer to (name, type). No answer to a meta type, ANY, SVCB or HTTPS passes, and no
 * truncated one. Follows the CNAME chain from `name`; records of other owners are ignored. Copies
 * what it keeps into one malloc()ed block, reference-counted from 1. Duplicate addresses are
 * merged, order is kept. The TTL is the smallest on the chain. A positive chain that ends without
 * data is NODATA. 0, -ENOMEM, or
 *   -REASON_BAD_ANSWER: loop, over 8 hops, CNAME beside other data of the same owner, two CNAMEs of
 *     one owner, DNAME that does not produce the CNAME below it, class not IN, address of the wrong
 *     family, NXDOMAIN with data, other records over VET_OTHERS_BYTES_MAX or too many
 *   -REASON_UPSTREAM_ERROR: SERVFAIL, REFUSED and other rcodes
 *   -REASON_NAME_CAP: over VET_ADDRS_MAX addresses */
int vet_answer(const struct name *name, uint16_t type, const struct wire_answer *answer,
               struct vetted **ret);
struct vetted *vetted_ref(struct vetted *v);
struct vetted *vetted_unref(struct vetted *v); /* takes NULL; returns NULL */

enum vetted_kind vetted_kind(const struct vetted *v);
uint32_t vetted_ttl(const struct vetted *v); /* as upstream gave it; negative: RFC 2308 */
unsigned vetted_chain(const struct vetted *v, const struct wire_hop **ret);
unsigned vetted_addrs(const struct vetted *v, const struct addr **ret);
unsigned vetted_others(const struct vetted *v, const struct wire_record **ret);
size_t vetted_bytes(const struct vetted *v); /* memory it takes */

/* Whether the decision covers this answer: no hop on the deny list, every address within what at
 * least one of the decision's endpoints may lead to, at most limits.addresses_per_name addresses.
 * Copies nothing but holds a reference. 0, -ENOMEM, -REASON_CHAIN_DENIED, -REASON_REBINDING or
 * -REASON_NAME_CAP; the decision's own reason (negative) when it was not to allow. */
int vet_permit(struct vetted *v, const struct policy *policy, const struct decision *d,
               struct permitted **ret);
struct permitted *permitted_free(struct permitted *p); /* takes NULL; returns NULL */
const struct vetted *permitted_vetted(const struct permitted *p);

#endif
