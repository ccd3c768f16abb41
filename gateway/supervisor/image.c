/* image.c: a policy image in a sealed memfd. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/supervisor/supervisor.h"

/* MFD_NOEXEC_SEAL (Linux 6.3) is refused by older kernels, on which it is not needed. */
int memfd_make(const char *name) {
#ifdef MFD_NOEXEC_SEAL
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd >= 0) return fd;
#endif
    int plain = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return plain < 0 ? -errno : plain;
}

int image_open(struct image *ret, int fd) {
    struct stat st;
    struct image i = {.fd = fd};
    int error = -EBADMSG;
    /* Sealed before it is checked: what was checked is what everyone maps. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0 ||
        fstat(fd, &st) < 0) {
        error = -errno;
        goto fail;
    }
    if (st.st_size <= 0 || (uint64_t)st.st_size > POLICY_IMAGE_MAX) goto fail;
    i.size = (size_t)st.st_size;
    i.map = mmap(NULL, i.size, PROT_READ, MAP_SHARED, fd, 0);
    if (i.map == MAP_FAILED) {
        error = -errno;
        goto fail;
    }
    if (policy_open(&i.policy, i.map, i.size) < 0) {
        munmap(i.map, i.size);
        goto fail;
    }
    *ret = i;
    return 0;
fail:
    close(fd);
    return error;
}

void image_close(struct image *i) {
    if (i->fd < 0) return;
    munmap(i->map, i->size);
    close(i->fd);
    *i = (struct image){.fd = -1};
}
