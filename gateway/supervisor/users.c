/* users.c: which uid and gid each process runs as. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>

#include "gateway/base/log.h"
#include "gateway/supervisor/supervisor.h"

static const char *const user_names[PROCESS_COUNT] = {
    [PROCESS_CORE] = USER_CORE,         [PROCESS_RESOLVER] = USER_RESOLVER,
    [PROCESS_RECORDER] = USER_RECORDER, [PROCESS_CONTROL] = USER_CONTROL,
    [PROCESS_LOADER] = USER_LOADER,
};

int users_find(struct supervisor *s, uint32_t base) {
    for (unsigned p = 0; p < PROCESS_COUNT; p++) {
        const struct passwd *user = getpwnam(user_names[p]);
        if (user && user->pw_uid != 0) {
            s->users[p] = (struct identity){user->pw_uid, user->pw_gid};
        } else if (base) {
            s->users[p] = (struct identity){base + p, base + p};
        } else {
            log_error("user %s does not exist: run systemd-sysusers (it reads "
                      "sysusers.d/tidegate.conf), or give numbers with --uid-base N",
                      user_names[p]);
            return -ENOENT;
        }
    }
    const struct group *admin = getgrnam(GROUP_ADMIN);
    s->admin = admin ? admin->gr_gid : 0;
    /* Files of the log get the group of their maker: its members may read them. */
    if (s->admin) s->users[PROCESS_RECORDER].gid = s->admin;
    return 0;
}
