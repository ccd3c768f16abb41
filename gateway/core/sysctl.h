/* sysctl.h: kernel switches the gateway relies on, written and read back. */
#ifndef GATEWAY_CORE_SYSCTL_H
#define GATEWAY_CORE_SYSCTL_H

#include <stdbool.h>

#include "gateway/policy/policy.h"

/* Connection tracking, redirects, router advertisements and source routing; not forwarding. Run it
 * again when an interface has appeared: per-interface switches of absent ones are skipped. 0, or
 * -errno with `*ret_name` (static storage, may be NULL) telling the switch that could not be set;
 * switches after it were not tried. */
int sysctl_prepare(const struct policy *p, const char **ret_name);
/* Forwarding of both families. On: ip_forward = 1, ipv6 all forwarding = 1 (skipped where the kernel
 * has no IPv6). Off is tried for both families even when one fails. 0 or -errno. */
int sysctl_forwarding(bool on);
/* 1 both on, 0 not both, -errno. */
int sysctl_forwarding_is_on(void);

#define SYSCTL_VALUE_MAX 32
/* One switch by its name below /proc/sys/net/. Set: writes unless it has the value, reads back; 0,
 * -ENOENT no such switch, -EREMOTEIO the kernel kept another value, -errno. */
int sysctl_get(const char *name, char value[SYSCTL_VALUE_MAX]);
int sysctl_set(const char *name, const char *value);

#endif
