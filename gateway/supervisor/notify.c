/* notify.c: the datagrams of sd_notify(3), written out here to keep libsystemd out of the parent
 * of everything. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/supervisor/supervisor.h"

void notify(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@')) return;
    size_t length = strlen(path);
    if (length >= sizeof to.sun_path) return;
    memcpy(to.sun_path, path, length);
    if (path[0] == '@') to.sun_path[0] = 0; /* abstract: the name is not NUL-terminated */
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return;
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to, size) < 0)
        log_warn("cannot tell the service manager \"%s\": %s", state, strerror(errno));
    close(fd);
}

/* Half the interval that the service manager expects a sign of life in; 0: it expects none. */
usec_t notify_watchdog(void) {
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    char *end = NULL;
    if (!usec || (pid && strtol(pid, NULL, 10) != (long)getpid())) return 0;
    errno = 0;
    unsigned long long value = strtoull(usec, &end, 10);
    if (errno || end == usec || *end) return 0;
    return (usec_t)(value / 2);
}
