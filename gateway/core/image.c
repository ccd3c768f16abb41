/* image.c: policy images from descriptors that the supervisor hands over. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/core/core.h"

/* Records name the policy by its digest, so it must be that of these bytes. */
static int check_digest(const struct core_image *i) {
    uint8_t digest[POLICY_DIGEST_SIZE];
    const uint8_t *rest = (const uint8_t *)i->map + POLICY_DIGEST_SIZE;
    crypto_generichash(digest, sizeof digest, rest, i->size - POLICY_DIGEST_SIZE, NULL, 0);
    return memcmp(digest, policy_digest(&i->policy), sizeof digest) == 0 ? 0 : -EBADMSG;
}

int core_image_open(struct core_image *ret, int fd) {
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    struct stat st;
    /* Bytes that could still change would make the check below worthless. */
    int has = fcntl(fd, F_GET_SEALS);
    if (has < 0 || (has & seals) != seals) return -EPERM;
    if (fstat(fd, &st) < 0) return -errno;
    if (st.st_size <= 0 || (uint64_t)st.st_size > POLICY_IMAGE_MAX) return -EBADMSG;
    struct core_image i = {.fd = fd, .size = (size_t)st.st_size};
    i.map = mmap(NULL, i.size, PROT_READ, MAP_SHARED, fd, 0);
    if (i.map == MAP_FAILED) return -errno;
    int r = policy_open(&i.policy, i.map, i.size);
    if (r == 0) r = check_digest(&i);
    if (r < 0) {
        munmap(i.map, i.size);
        return r;
    }
    i.id = policy_id(&i.policy);
    *ret = i;
    return 0;
}

void core_image_close(struct core_image *i) {
    if (!i->map) return;
    munmap(i->map, i->size);
    close(i->fd);
    *i = (struct core_image){.fd = -1};
}
