/* opening.h: the client side of OPEN and OPENED, and the memory of what is open. No I/O: it fills
 * messages and reads answers; the shell of the resolver carries them.
 *
 * `struct opened` has no public definition and is made here only, when core says that the kernel has
 * acknowledged the opening of exactly this permitted answer for this client. What releases an answer
 * with addresses takes a `const struct opened *`, so an answer that nobody opened cannot be released
 * (DESIGN invariant 1). Later hits find it again as long as it lives: the memo.
 *
 * A memo is good for the same client, the same vetted answer, the same policy and the same epoch of
 * core. When one of them changes, core is asked again; asking twice is harmless.
 */
#ifndef RESOLVER_OPENING_OPENING_H
#define RESOLVER_OPENING_OPENING_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/base/addr.h"
#include "gateway/base/clock.h"
#include "gateway/base/name.h"
#include "gateway/proto/proto.h"
#include "resolver/vet/vet.h"

struct opening; /* all memos and all asks under way */
struct opened;  /* what the kernel has acknowledged for one client */

/* An OPEN that core has not answered yet. Read-only for others but for `owner`. */
struct asking {
    uint64_t id;
    struct addr client;
    struct name name;
    uint64_t policy;
    uint32_t lifetime; /* seconds, grace included */
    uint32_t retries;  /* how often it was asked again with another id */
    usec_t asked;      /* monotonic, of the first time */
    struct permitted *permitted;
    void *owner; /* the caller's: who waits for it */
    uint32_t hash;
    struct asking *next; /* in its hash chain */
};

/* Bounds: memos kept (rounded up to a power of two), bytes of answers they may pin, asks at once. Ids
 * of asks begin at `start`, which is random: core may still acknowledge what a predecessor asked. */
struct opening *opening_new(uint32_t memos, size_t bytes, uint32_t asks, uint64_t start);
struct opening *opening_free(struct opening *o); /* takes NULL; returns NULL; asks are dropped */

/* The memo for this client and answer, or NULL. Good until the next call that is not const. */
const struct opened *opening_find(struct opening *o, const struct addr *client,
                                  const struct vetted *v, uint64_t policy, usec_t now);
/* Whole seconds that may be told as TTL so that TTL + grace ends within the opening: 0 or more, or
 * -1 when not even 0 does. */
int64_t opened_ttl(const struct opened *o, uint32_t grace, usec_t now);
/* The answer that was opened, with a reference of the caller's. */
struct vetted *opened_answer(const struct opened *o);
uint32_t opened_count(const struct opened *o); /* map elements */
usec_t opened_deadline(const struct opened *o);

/* The youngest ask under way for this client and answer, or NULL. */
struct asking *opening_pending(const struct opening *o, const struct addr *client,
                               const struct vetted *v, uint64_t policy);
/* Starts an ask. `permitted` is taken over on success only. `name` is the one the client asked for.
 * 0, -ENOMEM, or -EBUSY when too many are under way. */
int opening_ask(struct opening *o, const struct addr *client, const struct name *name,
                uint64_t policy, uint32_t lifetime, struct permitted *permitted, usec_t now,
                struct asking **ret);
struct asking *opening_by_id(const struct opening *o, uint64_t id);
/* The OPEN message for it. */
void opening_message(const struct asking *a, struct proto_message *m);
/* Gives it another id: an answer to the old one is not taken any more. */
void opening_renew(struct opening *o, struct asking *a);
/* Ends an ask without an answer. Takes NULL. */
void opening_drop(struct opening *o, struct asking *a);

/* Core answered. 0: acknowledged, *ret is the memo (good until the next call that is not const) and
 * the ask is gone. -ESTALE: acknowledged in an epoch that is not the present one, so the opening may
 * be gone again; -reason: refused. In both cases the ask is still there, for the caller to renew or
 * drop. */
int opening_answered(struct opening *o, struct asking *a, const struct msg_opened *m, usec_t now,
                     const struct opened **ret);

/* Core told its epoch. Returns 1 if it changed, so that memos were forgotten and asks must be sent
 * again; 0 otherwise. */
int opening_epoch(struct opening *o, uint64_t epoch);
/* Another policy: forgets all memos. */
void opening_forget(struct opening *o);
uint32_t opening_memos(const struct opening *o);

#endif
