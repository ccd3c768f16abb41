/* marks.h: which number stands for which agent and endpoint in a 32-bit attribution mark.
 *
 *   31..18 subject (an agent)   17..0 endpoint
 *
 * The kernel keeps marks in its maps and flows, over reloads and restarts of core; so a number keeps
 * its meaning until nothing in the kernel has it any more. The table is kept in the state directory.
 * A number that a start of core had to give out anew is `fresh`: what the kernel already has under
 * it was made by somebody who meant something else (the table was lost), and must be removed.
 */
#ifndef GATEWAY_CORE_MARKS_H
#define GATEWAY_CORE_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/policy/policy.h"

#define MARKS_ENDPOINT_BITS 18
#define MARKS_ENDPOINT_MAX 262143u
#define MARKS_SUBJECT_MAX 16382u /* one less than fits: 0xffffffff is the self-test's mark */
#define MARKS_SUBJECTS 16384u    /* what marks_subject() stays below */
#define MARKS_FILE "marks"

static inline uint32_t marks_subject(uint32_t mark) { return mark >> MARKS_ENDPOINT_BITS; }

struct marks;

struct marks *marks_new(void);             /* NULL when out of memory */
struct marks *marks_free(struct marks *m); /* takes NULL, returns NULL */

/* Reads the table from the directory into an empty struct. 0; -ENOENT there is none; -EBADMSG it is
 * torn or not ours: nothing was taken; -errno. */
int marks_load(struct marks *m, int directory);
/* Writes it in one step: after a loss of power there is the old file or the new one. Numbers that
 * marks_retain() gave up can be given out again only when this has succeeded. 0 or -errno. */
int marks_save(struct marks *m, int directory);

/* Numbers, fresh ones, for all agents and endpoints of the policy that have none. Those of other
 * keys are kept. 0, or -ENOSPC: too many keys; nothing changed, *ret_what says of what ("agents",
 * "endpoints"). */
int marks_assign(struct marks *m, const struct policy *p, const char **ret_what);
/* Nothing in the kernel has a fresh number any more: they count as known from now on. */
void marks_settle(struct marks *m);
/* Gives up the numbers of keys that the policy lacks. Their openings and flows must be gone.
 * How many. */
unsigned marks_retain(struct marks *m, const struct policy *p);

/* The mark for agent and endpoint, by index in `p`; 0 if either has no number. */
uint32_t marks_of(const struct marks *m, const struct policy *p, uint32_t agent,
                  uint32_t endpoint);
/* What the mark means in `p`: indexes, POLICY_NONE for what the policy lacks. False: the mark is
 * unknown or fresh. */
bool marks_read(const struct marks *m, const struct policy *p, uint32_t mark, uint32_t *ret_agent,
                uint32_t *ret_endpoint);

#endif
