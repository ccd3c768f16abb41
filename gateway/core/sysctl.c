/* sysctl.c: switches below /proc/sys/net: CAP_NET_ADMIN may write these without being root. */
#include "gateway/core/sysctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gateway/core/ruleset.h"

#define ROOT "/proc/sys/net/"
#define PATH_MAX_HERE 128

static int path_of(const char *name, char path[PATH_MAX_HERE]) {
    int size = snprintf(path, PATH_MAX_HERE, ROOT "%s", name);
    return size < 0 || size >= PATH_MAX_HERE ? -ENAMETOOLONG : 0;
}

int sysctl_get(const char *name, char value[SYSCTL_VALUE_MAX]) {
    char path[PATH_MAX_HERE];
    int error = path_of(name, path);
    if (error < 0) return error;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    ssize_t size = read(fd, value, SYSCTL_VALUE_MAX - 1);
    error = size < 0 ? -errno : 0;
    close(fd);
    if (error < 0) return error;
    value[size] = '\0';
    value[strcspn(value, "\n")] = '\0';
    return 0;
}

static int value_write(const char *name, const char *value) {
    char path[PATH_MAX_HERE];
    int error = path_of(name, path);
    if (error < 0) return error;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    ssize_t size = write(fd, value, strlen(value));
    error = size < 0 ? -errno : 0;
    close(fd);
    return error;
}

int sysctl_set(const char *name, const char *value) {
    char now[SYSCTL_VALUE_MAX];
    int error = sysctl_get(name, now);
    if (error < 0) return error;
    if (strcmp(now, value) == 0) return 0;
    error = value_write(name, value);
    if (error == 0) error = sysctl_get(name, now);
    if (error < 0) return error;
    return strcmp(now, value) == 0 ? 0 : -EREMOTEIO;
}

struct setting {
    const char *name, *value;
    bool optional; /* absent on some kernels */
};

/* acct and timestamp: what flow records are made of. tcp_loose: a flow that was cut must not come back
 * in mid-stream. helper: expectations would open ports nobody decided on (the switch went away in
 * Linux 6.0, where helpers are off). src_valid_mark: reverse path checks look the route up with the
 * mark our prerouting chain set, or the barrier would swallow them. */
static const struct setting general[] = {
    {"netfilter/nf_conntrack_acct", "1", false},
    {"netfilter/nf_conntrack_timestamp", "1", false},
    {"netfilter/nf_conntrack_events", "1", false},
    {"netfilter/nf_conntrack_tcp_loose", "0", false},
    {"netfilter/nf_conntrack_helper", "0", true},
    {"ipv4/conf/all/src_valid_mark", "1", false},
    {"ipv4/conf/all/accept_redirects", "0", false},
    {"ipv4/conf/default/accept_redirects", "0", false},
    {"ipv4/conf/all/secure_redirects", "0", false},
    {"ipv4/conf/all/send_redirects", "0", false},
    {"ipv4/conf/default/send_redirects", "0", false},
    {"ipv4/conf/all/accept_source_route", "0", false},
    {"ipv4/conf/all/route_localnet", "0", false},
    {"ipv6/conf/all/accept_redirects", "0", true},
    {"ipv6/conf/default/accept_redirects", "0", true},
    {"ipv6/conf/all/accept_source_route", "0", true},
};

/* The kernel takes "all" of some switches together with the interface's own by OR. */
static const struct setting each[] = {
    {"ipv4/conf/%s/accept_redirects", "0", false},
    {"ipv4/conf/%s/send_redirects", "0", false},
    {"ipv4/conf/%s/accept_source_route", "0", false},
    {"ipv4/conf/%s/route_localnet", "0", false},
    {"ipv4/conf/%s/proxy_arp", "0", false},
    {"ipv6/conf/%s/accept_redirects", "0", true},
    {"ipv6/conf/%s/accept_source_route", "0", true},
};

static int setting_apply(const struct setting *s, const char *interface) {
    char name[PATH_MAX_HERE];
    int size;
    if (interface) {
        /* "ipv4/conf/%s/NAME" by hand: formats are literals. */
        const char *gap = strstr(s->name, "%s");
        if (!gap) return -EINVAL;
        size = snprintf(name, sizeof name, "%.*s%s%s", (int)(gap - s->name), s->name, interface,
                        gap + 2);
    } else {
        size = snprintf(name, sizeof name, "%s", s->name);
    }
    if (size < 0 || (size_t)size >= sizeof name) return -ENAMETOOLONG;
    int error = sysctl_set(name, s->value);
    /* An interface may be absent; its switches are set when it has appeared. */
    return error == -ENOENT && (s->optional || interface) ? 0 : error;
}

/* Agents must never be the gateway's router. And replies to an address that nobody has wait for its
 * neighbour to answer, on the account of the resolver's one socket: 250 of them would fill it, so
 * that an agent that asks from invented addresses would silence it for all. */
static const struct setting agents_only[] = {
    {"ipv6/conf/%s/accept_ra", "0", true},
    {"ipv4/neigh/%s/unres_qlen_bytes", "4096", false},
    {"ipv6/neigh/%s/unres_qlen_bytes", "4096", true},
};

static int interface_apply(const char *name, const struct setting *settings, size_t count,
                           const char **ret_name) {
    if (!ruleset_ifname_valid(name)) return -EINVAL;
    for (size_t i = 0; i < count; i++) {
        int error = setting_apply(&settings[i], name);
        if (error < 0) {
            if (ret_name) *ret_name = settings[i].name;
            return error;
        }
    }
    return 0;
}
#define EACH each, sizeof each / sizeof *each
#define AGENTS_ONLY agents_only, sizeof agents_only / sizeof *agents_only

/* A router that forwards ignores router advertisements unless accept_ra is 2 (ip-sysctl.rst): an
 * uplink that lives on them must go on doing so. */
static int advertisements_apply(const struct policy_gateway *g, const char **ret_name) {
    char name[PATH_MAX_HERE], value[SYSCTL_VALUE_MAX];
    snprintf(name, sizeof name, "ipv6/conf/%s/accept_ra", g->uplink);
    int error = sysctl_get(name, value);
    if (error == 0 && strcmp(value, "1") == 0) error = sysctl_set(name, "2");
    if (error < 0 && error != -ENOENT) {
        if (ret_name) *ret_name = agents_only[0].name;
        return error;
    }
    return 0;
}

int sysctl_prepare(const struct policy *p, const char **ret_name) {
    const struct policy_gateway *g = policy_gateway(p);
    int error = 0;
    for (size_t i = 0; i < sizeof general / sizeof *general; i++) {
        error = setting_apply(&general[i], NULL);
        if (error < 0) {
            if (ret_name) *ret_name = general[i].name;
            return error;
        }
    }
    for (uint32_t i = 0; i < g->agent_interfaces && error == 0; i++) {
        error = interface_apply(g->agents[i].interface, EACH, ret_name);
        if (error == 0) error = interface_apply(g->agents[i].interface, AGENTS_ONLY, ret_name);
    }
    if (error == 0) error = interface_apply(g->uplink, EACH, ret_name);
    if (error == 0 && g->management[0]) error = interface_apply(g->management, EACH, ret_name);
    return error == 0 ? advertisements_apply(g, ret_name) : error;
}

int sysctl_forwarding(bool on) {
    const char *value = on ? "1" : "0";
    int four = sysctl_set("ipv4/ip_forward", value);
    int six = sysctl_set("ipv6/conf/all/forwarding", value);
    if (six == -ENOENT) six = 0;
    return four < 0 ? four : six;
}

int sysctl_forwarding_is_on(void) {
    char four[SYSCTL_VALUE_MAX], six[SYSCTL_VALUE_MAX];
    int error = sysctl_get("ipv4/ip_forward", four);
    if (error < 0) return error;
    error = sysctl_get("ipv6/conf/all/forwarding", six);
    if (error < 0 && error != -ENOENT) return error;
    return strcmp(four, "1") == 0 && (error == -ENOENT || strcmp(six, "1") == 0) ? 1 : 0;
}
