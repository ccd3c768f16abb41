/* image.c: mapping of policy images. */
#include "resolver/image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK)

static int map(int fd, struct image *ret) {
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return -errno;
    if ((seals & SEALS) != SEALS)
        return -EPERM;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_size <= 0 || (uint64_t)st.st_size > POLICY_IMAGE_MAX)
        return -EFBIG;
    struct image i = {.size = (size_t)st.st_size};
    i.bytes = mmap(NULL, i.size, PROT_READ, MAP_SHARED, fd, 0);
    if (i.bytes == MAP_FAILED)
        return -errno;
    int r = policy_open(&i.policy, i.bytes, i.size);
    if (r < 0) {
        munmap(i.bytes, i.size);
        return r;
    }
    *ret = i;
    return 0;
}

int image_map(int fd, struct image *ret) {
    int r = map(fd, ret);
    close(fd);
    return r;
}

void image_unmap(struct image *i) {
    if (i->bytes)
        munmap(i->bytes, i->size);
    *i = (struct image){0};
}
