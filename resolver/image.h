/* image.h: a policy image as the process holds it: mapped read-only from a sealed memfd. */
#ifndef RESOLVER_IMAGE_H
#define RESOLVER_IMAGE_H

#include "gateway/policy/policy.h"

struct image {
    void *bytes; /* NULL: none */
    size_t size;
    struct policy policy;
};

/* Maps and checks; the descriptor is closed either way. Only memory that nobody can change or
 * shorten any more is taken. 0 or -errno. */
int image_map(int fd, struct image *ret);
void image_unmap(struct image *i);

#endif
