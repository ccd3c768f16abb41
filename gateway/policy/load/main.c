/* main.c: tidegate-loader: gateway.yaml and the policy folder -> one image, or a report of faults.
 *
 * Started by tidegated for each load, see gateway/proto/handover.h. It reads free text with several
 * libraries, so before the first byte it gives up whatever it had: no sockets, no exec, no other
 * process, files for reading only. What it makes is checked by whoever takes it (policy_open()).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gateway/base/confine.h"
#include "gateway/base/log.h"
#include "gateway/policy/load/load.h"
#include "gateway/proto/handover.h"

#define EXIT_INTERNAL 70 /* EX_SOFTWARE */
#define FILES_MAX     32

/* tidegated as root has emptied the list of groups. Who runs `tidegated --check` as a plain user
 * cannot (that takes CAP_SETGID), and has no other right to give up. */
static bool plain_user(void) { return geteuid() != 0 && getgroups(0, NULL) > 0; }

static int confine(void) {
    if (confine_limits("tidegate-loader", FILES_MAX) < 0) return -1;
    if (!plain_user() && confine_identity(geteuid(), getegid(), NULL, 0) < 0) return -1;
    return confine_syscalls(CONFINE_LOADER);
}

static int image_write(const struct load_result *r) {
    const char *bytes = r->image;
    for (size_t done = 0; done < r->size;) {
        ssize_t n = write(LOADER_IMAGE, bytes + done, r->size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            log_error("writing the image: %s", n < 0 ? strerror(errno) : "nothing is taken");
            return -1;
        }
        done += (size_t)n;
    }
    return 0;
}

static int run(const char *config) {
    struct load_source source = {.config = config};
    struct load_result result;
    FILE *report = fdopen(LOADER_REPORT, "w");
    if (!report) {
        log_error("the report: %s", strerror(errno));
        return EXIT_INTERNAL;
    }
    int loaded = load_policy(&source, report, &result);
    if (fclose(report) != 0) {
        log_error("writing the report: %s", strerror(errno));
        return EXIT_INTERNAL;
    }
    if (loaded < 0) return LOADER_EXIT_FAULTS;
    int written = image_write(&result);
    load_result_free(&result);
    return written < 0 ? EXIT_INTERNAL : 0;
}

int main(int argc, char **argv) {
    if (argc != 3 || fcntl(LOADER_IMAGE, F_GETFD) < 0 || fcntl(LOADER_REPORT, F_GETFD) < 0) {
        fprintf(stderr, "tidegate-loader is started by tidegated; to check a policy, use "
                        "\"tidegate check\"\n");
        return 2;
    }
    log_start("tidegate-loader", strstr(argv[1], "debug") != NULL);
    if (confine() < 0) return EXIT_INTERNAL;
    /* Not exit(): what libraries do at exit is no part of what was allowed. */
    _exit(run(argv[2]));
}
