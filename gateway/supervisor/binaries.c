/* binaries.c: the programs that the supervisor starts. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/supervisor/supervisor.h"

/* The folder of our own executable when the others lie beside it (build tree), else the installed
 * one. */
static int binaries_folder(void) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        char *slash = strrchr(path, '/');
        if (slash) {
            *slash = 0;
            int beside = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
            if (beside >= 0 && faccessat(beside, "tidegate-core", F_OK, 0) == 0) return beside;
            if (beside >= 0) close(beside);
        }
    }
    int installed = open(TIDEGATE_LIBEXECDIR, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (installed < 0) log_error("%s: %s", TIDEGATE_LIBEXECDIR, strerror(errno));
    return installed;
}

int binaries_open(struct supervisor *s) {
    int folder = binaries_folder(), error = 0;
    if (folder < 0) return -ENOENT;
    for (unsigned p = 0; p < PROCESS_COUNT && !error; p++) {
        char name[64];
        snprintf(name, sizeof name, "tidegate-%s", process_name(p));
        s->binaries[p] = openat(folder, name, O_PATH | O_CLOEXEC);
        if (s->binaries[p] >= 0) continue;
        error = -errno;
        log_error("cannot find the program %s: %s", name, strerror(-error));
    }
    close(folder);
    return error;
}
