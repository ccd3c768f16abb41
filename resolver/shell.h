/* shell.h: the engine in flow/ joined to the world: listeners, upstreams, core, recorder. It carries
 * out what the engine says, in order, and decides nothing.
 */
#ifndef RESOLVER_SHELL_H
#define RESOLVER_SHELL_H

#include <uv.h>

#include "gateway/base/clock.h"
#include "resolver/front/front.h"

struct shell;

struct shell_fds {
    int core, recorder; /* channels */
    int image;          /* sealed memfd of the policy in force */
    struct front_sockets sockets;
};

/* Takes the descriptors over. NULL: it cannot start (logged). */
struct shell *shell_new(uv_loop_t *loop, const struct clock *clock, const struct shell_fds *fds);
/* Stops the loop when it cannot go on (logged); shell_failed() then says so. */
int shell_failed(const struct shell *s);
/* Closes everything; memory goes when the loop has run the closing callbacks. */
void shell_close(struct shell *s);

#endif
