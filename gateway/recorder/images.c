/* images.c: maps and checks policy images. */
#include "gateway/recorder/images.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct image *image_free(struct image *i) {
    if (i == NULL) return NULL;
    if (i->map != NULL) munmap(i->map, i->size);
    free(i);
    return NULL;
}

/* Without these seals whoever holds the memfd could change what was checked, or shrink it and have
 * every reader killed by SIGBUS. */
static int image_map(struct image *i, int fd) {
    const int seals = F_SEAL_SHRINK | F_SEAL_WRITE;
    struct stat st;
    int have = fcntl(fd, F_GET_SEALS);
    if (have < 0 || (have & seals) != seals) return -EBADMSG;
    if (fstat(fd, &st) < 0) return -errno;
    if (st.st_size <= 0 || st.st_size > (off_t)POLICY_IMAGE_MAX) return -EBADMSG;
    i->size = (size_t)st.st_size;
    void *map = mmap(NULL, i->size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) return -errno;
    i->map = map;
    if (policy_open(&i->policy, map, i->size) < 0) return -EBADMSG;
    i->id = policy_id(&i->policy);
    policy_digest_text(&i->policy, i->digest);
    return 0;
}

static void to_front(struct images *im, struct image *i, unsigned from) {
    memmove(im->known + 1, im->known, from * sizeof im->known[0]);
    im->known[0] = i;
}

int images_add(struct images *im, int fd) {
    struct image *i = calloc(1, sizeof *i);
    int r = i == NULL ? -ENOMEM : image_map(i, fd);
    close(fd);
    if (r < 0) {
        image_free(i);
        return r;
    }
    for (unsigned k = 0; k < IMAGES_MAX; k++) {
        if (im->known[k] == NULL || im->known[k]->id != i->id) continue;
        image_free(i); /* back to a policy that is still known */
        to_front(im, im->known[k], k);
        return 0;
    }
    image_free(im->known[IMAGES_MAX - 1]);
    to_front(im, i, IMAGES_MAX - 1);
    return 0;
}

const struct image *images_find(const struct images *im, uint64_t id) {
    for (unsigned k = 0; k < IMAGES_MAX && im->known[k] != NULL; k++)
        if (im->known[k]->id == id) return im->known[k];
    return NULL;
}

const struct image *images_current(const struct images *im) {
    return im->known[0];
}

const char *images_gateway(const struct images *im) {
    const struct image *i = images_current(im);
    const char *name = i != NULL ? policy_gateway(&i->policy)->name : "";
    if (name[0] == '\0') name = im->host;
    return name[0] != '\0' ? name : NULL;
}

void images_free(struct images *im) {
    for (unsigned k = 0; k < IMAGES_MAX; k++) im->known[k] = image_free(im->known[k]);
}
