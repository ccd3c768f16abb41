/* images.h: the policy image in force and the few before it. Messages name the image their indexes
 * belong to; under load a record of the last policy can come after the next one is in force.
 */
#ifndef GATEWAY_RECORDER_IMAGES_H
#define GATEWAY_RECORDER_IMAGES_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/policy/policy.h"

#define IMAGES_MAX 4

struct image {
    void *map;
    size_t size;
    uint64_t id;
    struct policy policy;
    char digest[POLICY_DIGEST_TEXT_MAX];
};

#define IMAGES_HOST_MAX 65 /* HOST_NAME_MAX and NUL */

struct images { /* newest first; all zero is an empty one */
    struct image *known[IMAGES_MAX];
    char host[IMAGES_HOST_MAX]; /* name of this gateway when its configuration gives it none */
};

/* Maps a sealed memfd, checks it, and makes it the one in force. Takes `fd`. 0; -EBADMSG when it is
 * not an image or not sealed, -errno. */
int images_add(struct images *im, int fd);
const struct image *images_find(const struct images *im, uint64_t id); /* NULL if not known */
const struct image *images_current(const struct images *im);           /* NULL if none */
const char *images_gateway(const struct images *im); /* its name; NULL if it has none */
void images_free(struct images *im);

#endif
