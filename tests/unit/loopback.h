/* loopback.h: a network namespace of the test's own, with nothing but a loopback interface that is up.
 * Check runs each test in a process of its own, so the namespace ends with the test.
 */
#ifndef TESTS_UNIT_LOOPBACK_H
#define TESTS_UNIT_LOOPBACK_H

#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* False, and says so by name, when the test cannot have one: it must then return. */
static inline bool loopback_enter(const char *test) {
    struct ifreq request = {.ifr_name = "lo"};
    if (unshare(CLONE_NEWNET) < 0) {
        printf("SKIPPED %s: needs root for a network namespace\n", test);
        return false;
    }
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0;
    request.ifr_flags |= IFF_UP;
    ok = ok && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    close(fd);
    if (!ok)
        printf("SKIPPED %s: no loopback interface\n", test);
    return ok;
}

#endif
