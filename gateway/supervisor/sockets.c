/* sockets.c: the DNS sockets, the control listener and the pairs, made while we are root. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "gateway/base/log.h"
#include "gateway/supervisor/supervisor.h"

#define QUEUE_BYTES (4 << 20) /* what a pair or a UDP socket holds while its reader is restarted */
#define BACKLOG 512
#define BUSY_TRIES 40 /* of 50 ms: children of a killed predecessor may still be dying */

/* Past net.core.?mem_max as we have CAP_NET_ADMIN. A smaller buffer works, only worse. */
static void socket_buffer(int fd, int option, int forced) {
    int bytes = QUEUE_BYTES;
    if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) < 0 &&
        setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof bytes) < 0)
        log_warn("cannot enlarge a socket buffer: %s", strerror(errno));
}

static int socket_options(int fd, bool six, bool stream) {
    const int one = 1;
    if (six && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) < 0) return -errno;
    if (stream) return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ? -errno : 0;
    /* Redirected queries are answered from the address that was asked: the resolver must learn it.
     * No SO_REUSEADDR on UDP: it would let a second process take the port along with us. */
    int level = six ? IPPROTO_IPV6 : IPPROTO_IP, option = six ? IPV6_RECVPKTINFO : IP_PKTINFO;
    if (setsockopt(fd, level, option, &one, sizeof one) < 0) return -errno;
    socket_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE);
    socket_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE); /* replies wait in it for neighbours to answer */
    return 0;
}

static int dns_bind(int fd, bool six) {
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(53)};
    const struct sockaddr *any = six ? (struct sockaddr *)&any6 : (struct sockaddr *)&any4;
    socklen_t size = six ? sizeof any6 : sizeof any4;
    for (unsigned i = 0; bind(fd, any, size) < 0; i++) {
        if (errno != EADDRINUSE || i >= BUSY_TRIES) return -errno;
        usleep(50000);
    }
    return 0;
}

static int dns_open(bool six, bool stream) {
    const char *what = stream ? (six ? "TCP [::]:53" : "TCP 0.0.0.0:53")
                              : (six ? "UDP [::]:53" : "UDP 0.0.0.0:53");
    int type = (stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int fd = socket(six ? AF_INET6 : AF_INET, type, 0);
    int error = fd < 0 ? -errno : socket_options(fd, six, stream);
    if (error == 0) error = dns_bind(fd, six);
    if (error == 0 && stream && listen(fd, BACKLOG) < 0) error = -errno;
    if (error == 0) return fd;
    if (error == -EADDRINUSE)
        log_error("cannot bind %s: another program has it, often systemd-resolved's stub listener "
                  "(set DNSStubListener=no in /etc/systemd/resolved.conf and restart it), dnsmasq, "
                  "named or unbound; `ss -lnptu 'sport = :53'` names it",
                  what);
    else if (error == -EAFNOSUPPORT)
        log_error("cannot bind %s: this kernel has no IPv6; start it without ipv6.disable=1, "
                  "Tidegate must control IPv6 as well", what);
    else
        log_error("cannot bind %s: %s", what, strerror(-error));
    if (fd >= 0) close(fd);
    return error;
}

/* 0 free (a dead socket is removed), -EADDRINUSE when somebody listens, -EEXIST for another file. */
static int control_clear(const struct sockaddr_un *at) {
    struct stat st;
    if (lstat(at->sun_path, &st) < 0) return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode)) return -EEXIST;
    for (unsigned i = 0; i < BUSY_TRIES; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) return -errno;
        int error = connect(fd, (const struct sockaddr *)at, sizeof *at) < 0 ? errno : 0;
        close(fd);
        if (error == ECONNREFUSED) return unlink(at->sun_path) < 0 ? -errno : 0;
        usleep(50000);
    }
    return -EADDRINUSE;
}

static int control_path(const struct supervisor *s, struct sockaddr_un *ret) {
    const struct policy_gateway *g = policy_gateway(&s->current.policy);
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(ret->sun_path, sizeof ret->sun_path, "%s/control.sock",
                          g->runtime_directory);
    if (length > 0 && (size_t)length < sizeof ret->sun_path) return 0;
    log_error("runtime: %s is too long for a socket below it: at most %zu characters",
              g->runtime_directory, sizeof ret->sun_path - sizeof "/control.sock");
    return -ENAMETOOLONG;
}

static int control_open(struct supervisor *s) {
    struct sockaddr_un at;
    int fd = -1, error = control_path(s, &at);
    if (error < 0) return error;
    error = control_clear(&at);
    mode_t mask = umask(0117); /* 0660 from the start: no moment in which others may connect */
    if (error == 0) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 ||
            chown(at.sun_path, 0, s->admin) < 0 || listen(fd, 64) < 0)
            error = -errno;
    }
    umask(mask);
    if (error == 0) return fd;
    log_error("control socket %s: %s", at.sun_path,
              error == -EADDRINUSE ? "another process answers on it; stop it first"
              : error == -EEXIST   ? "something other than a socket is there; remove it"
                                   : strerror(-error));
    if (fd >= 0) close(fd);
    return error;
}

void sockets_remove(const struct supervisor *s) {
    struct sockaddr_un at;
    if (control_path(s, &at) == 0) unlink(at.sun_path);
}

bool pair_shut(const struct supervisor *s, enum pair pair) {
    struct pollfd ends[] = {{.fd = s->pairs[pair][0], .events = POLLRDHUP},
                            {.fd = s->pairs[pair][1], .events = POLLRDHUP}};
    return poll(ends, 2, 0) > 0;
}

int pair_open(struct supervisor *s, enum pair pair) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0) {
        log_error("cannot make a socket pair: %s", strerror(errno));
        return -errno;
    }
    for (unsigned i = 0; i < 2; i++) {
        socket_buffer(ends[i], SO_SNDBUF, SO_SNDBUFFORCE);
        if (s->pairs[pair][i] > 0) close(s->pairs[pair][i]);
        s->pairs[pair][i] = ends[i];
    }
    if (pair == PAIR_SUPERVISOR) s->core = (struct channel){.fd = ends[1]};
    return 0;
}

int sockets_open(struct supervisor *s) {
    for (unsigned i = 0; i < DNS_COUNT; i++) {
        s->dns[i] = dns_open(i == DNS_UDP6 || i == DNS_TCP6, i == DNS_TCP4 || i == DNS_TCP6);
        if (s->dns[i] < 0) return s->dns[i];
    }
    for (unsigned i = 0; i < PAIR_COUNT; i++)
        if (pair_open(s, i) < 0) return -EMFILE;
    s->record_state = memfd_make("recorder-state");
    if (s->record_state < 0 || ftruncate(s->record_state, sizeof(struct recorder_state)) < 0 ||
        fcntl(s->record_state, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        log_error("cannot make the recorder's memory: %s", strerror(errno));
        return -errno;
    }
    s->listener = control_open(s);
    return s->listener < 0 ? s->listener : 0;
}
