/* main.c: tidegated, the gateway's supervisor. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "gateway/base/confine.h"
#include "gateway/base/log.h"
#include "gateway/supervisor/supervisor.h"

static const char usage[] =
    "usage: tidegated [-c FILE] [--check] [--debug] [--uid-base N]\n"
    "\n"
    "Runs the gateway in the foreground. SIGHUP reloads the policy, SIGTERM stops and leaves the\n"
    "closed ruleset in place. See tidegated(8).\n"
    "\n"
    "  -c, --config FILE   configuration (default " TIDEGATE_SYSCONFDIR "/tidegate/gateway.yaml)\n"
    "      --check         load configuration and policy, print every fault, exit 0 or 1\n"
    "      --debug         say more on standard error\n"
    "      --uid-base N    use uids N, N+1, ... for users that do not exist\n"
    "      --help, --version\n";

struct options {
    const char *config;
    bool check, debug;
    uint32_t uid_base;
};

/* 0, or the exit status + 1. */
static int options_parse(int argc, char **argv, struct options *o) {
    static const struct option names[] = {
        {"config", required_argument, NULL, 'c'},   {"check", no_argument, NULL, 'k'},
        {"debug", no_argument, NULL, 'd'},          {"uid-base", required_argument, NULL, 'u'},
        {"help", no_argument, NULL, 'h'},           {"version", no_argument, NULL, 'V'},
        {0},
    };
    char *end;
    for (int option; (option = getopt_long(argc, argv, "c:hV", names, NULL)) != -1;) {
        switch (option) {
        case 'c': o->config = optarg; break;
        case 'k': o->check = true; break;
        case 'd': o->debug = true; break;
        case 'u':
            errno = 0;
            o->uid_base = 0;
            unsigned long base = strtoul(optarg, &end, 10);
            if (errno || *end || end == optarg || base < 1 || base > 4000000000ul) {
                fprintf(stderr, "tidegated: --uid-base takes a number from 1 to 4000000000\n");
                return 3;
            }
            o->uid_base = (uint32_t)base;
            break;
        case 'h': fputs(usage, stdout); return 1;
        case 'V': puts("tidegated " TIDEGATE_VERSION); return 1;
        default: fputs("tidegated: see tidegated --help\n", stderr); return 3;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "tidegated: unexpected argument \"%s\"; see tidegated --help\n",
                argv[optind]);
        return 3;
    }
    return 0;
}

/* A descriptor of ours must not become standard error, which children share. */
static void standard_open(void) {
    for (int fd = 0; fd >= 0 && fd <= 2;) fd = open("/dev/null", O_RDWR);
}

static int signals_open(struct supervisor *s) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    s->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return s->signals < 0 ? -errno : 0;
}

/* The policy to start with: what the files say, else the last good one. */
static int policy_first(struct supervisor *s) {
    char digest[POLICY_DIGEST_TEXT_MAX];
    if (load_first(s, &s->current) == 0) return 0;
    if (store_last(s, &s->current) < 0) {
        log_error("no policy: %s is refused and there is no last good one; nothing was changed",
                  s->config);
        return -ENOENT;
    }
    s->stored = true;
    log_warn("STARTING WITH THE LAST GOOD POLICY %.16s: %s is refused, correct it and run "
             "`tidegate reload`",
             policy_digest_text(&s->current.policy, digest), s->config);
    return 0;
}

/* Kept: to change the identity of children and narrow their capabilities, to end them, and to hand
 * CAP_NET_ADMIN on to core. What needs more (directories, ports) is done. */
static int reduce(void) {
    static const int keep[] = {CAP_SETUID, CAP_SETGID, CAP_SETPCAP, CAP_KILL, CAP_NET_ADMIN};
    /* Not confine_limits(): children inherit limits, and each sets its own. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return confine_identity(0, 0, keep, sizeof keep / sizeof keep[0]);
}

int main(int argc, char **argv) {
    struct options o = {.config = TIDEGATE_SYSCONFDIR "/tidegate/gateway.yaml"};
    struct supervisor s = {.current = {.fd = -1}, .candidate = {.fd = -1}};
    standard_open();
    int status = options_parse(argc, argv, &o);
    if (status) return status - 1;
    log_start("tidegated", o.debug);
    s.config = o.config;
    s.debug = o.debug;
    s.check = o.check;
    if (geteuid() != 0 && !o.check) {
        log_error("must be started as root: it binds port 53 and changes the packet filter");
        return 1;
    }
    if ((geteuid() == 0 && users_find(&s, o.uid_base) < 0) || binaries_open(&s) < 0 ||
        signals_open(&s) < 0)
        return 1;
    if (o.check) {
        struct image image;
        return load_first(&s, &image) < 0;
    }
    if (policy_first(&s) < 0) return SUPERVISOR_EXIT_CONFIG;
    if (folders_make(&s) < 0 || sockets_open(&s) < 0 || reduce() < 0) return 1;
    notify("STATUS=Starting: ruleset and self-test.");
    return loop_run(&s) < 0;
}
