/* ruleset.c: loading the ruleset by a child process, and how load and digest fit together. */
#include "gateway/core/ruleset.h"

#include <errno.h>
#include <fcntl.h>
#include <nftables/libnftables.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/base/clock.h"
#include "gateway/core/ruleset_table.h"

#define LOAD_TIMEOUT (30 * USEC_PER_SEC)
#define LOAD_TRIES 4

/* In the child, which ends here. Everything it did or did not do is in the exit status and the
 * kernel; _exit() keeps the parent's buffers and handlers out of it. Should core end meanwhile, the
 * child finishes its one transaction; the successor sees the generation move and verifies. */
static void __attribute__((noreturn)) child_load(int report, const char *text) {
    struct nft_ctx *nft;
    const char *words;
    int error;

    nft = nft_ctx_new(NFT_CTX_DEFAULT);
    if (!nft || nft_ctx_buffer_error(nft) != 0 || nft_ctx_buffer_output(nft) != 0) _exit(2);
    error = nft_run_cmd_from_buffer(nft, text);
    words = nft_ctx_get_error_buffer(nft);
    if (error != 0 && words) {
        size_t size = strnlen(words, RULESET_ERROR_MAX - 1);
        if (write(report, words, size) < 0) _exit(2);
    }
    _exit(error == 0 ? 0 : 1);
}

/* Reads the child's words until it ends; -ETIMEDOUT if it does not. */
static int child_words(int report, char *error) {
    usec_t end = clock_now(&clock_system) + LOAD_TIMEOUT;
    size_t used = 0;
    for (;;) {
        struct pollfd p = {.fd = report, .events = POLLIN};
        usec_t now = clock_now(&clock_system);
        char drop[256];
        if (now >= end) return -ETIMEDOUT;
        int ready = poll(&p, 1, (int)((end - now) / USEC_PER_MSEC) + 1);
        if (ready < 0 && errno != EINTR) return -errno;
        if (ready <= 0) continue;
        size_t room = RULESET_ERROR_MAX - 1 - used;
        ssize_t got = read(report, room ? error + used : drop, room ? room : sizeof drop);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0 ? -errno : 0;
        if (room) used += (size_t)got;
        error[used] = '\0';
    }
}

static int child_run(const char *text, char *error) {
    int report[2], status, result;
    pid_t child;

    error[0] = '\0';
    if (pipe2(report, O_CLOEXEC) != 0) return -errno;
    child = fork();
    if (child < 0) {
        result = -errno;
        close(report[0]);
        close(report[1]);
        return result;
    }
    if (child == 0) {
        close(report[0]);
        child_load(report[1], text);
    }
    close(report[1]);
    result = child_words(report[0], error);
    close(report[0]);
    if (result < 0) kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return -errno;
    if (result < 0) return result;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int text_load(const struct ruleset_config *c, bool rebuild, char *error) {
    struct buf text = {.size = ruleset_text_max(c)};
    int result;

    text.data = malloc(text.size);
    if (!text.data) return -ENOMEM;
    result = ruleset_text(c, rebuild, &text);
    buf_put_char(&text, '\0');
    if (result == 0 && text.overflow) result = -ENOSPC;
    if (result == 0) result = child_run((const char *)text.data, error);
    free(text.data);
    return result;
}

/* One load. 0 maps kept, 1 made anew. */
static int load_once(struct ruleset *r, const struct ruleset_config *c, bool rebuild,
                     char *error) {
    uint32_t size = c->map_size ? c->map_size : RULESET_MAP_SIZE;
    if (!rebuild) {
        int shape = ruleset_table_shape(r, size);
        if (shape < 0) return shape;
        /* No table, or one with nothing but what we would put there: fill it in place. If the kernel
         * sees a difference all the same, it refuses the whole transaction. */
        if (shape == 1 && text_load(c, false, error) == 0) return 0;
    }
    int result = text_load(c, true, error);
    return result < 0 ? result : 1;
}

int ruleset_load(struct ruleset *r, const struct ruleset_config *c, bool rebuild, char *error) {
    bool rebuilt = false;
    error[0] = '\0';
    for (unsigned try = 0; try < LOAD_TRIES; try++) {
        uint32_t before, after, now;
        uint8_t digest[32];
        int result = ruleset_generation(r, &before);
        if (result == 0) result = load_once(r, c, rebuild, error);
        if (result < 0) return result;
        rebuilt = rebuilt || result == 1;
        result = ruleset_generation(r, &after);
        if (result == 0) result = ruleset_digest(r, digest);
        if (result == 0) result = ruleset_generation(r, &now);
        if (result < 0 && result != -ENOENT && result != -EINTR) return result;
        /* The digest stands for our own load only if no other transaction came between. */
        if (result < 0 || after != before + 1 || now != after) continue;
        /* In place, a table that somebody put to sleep (flags dormant) could have stayed so. */
        if (!rebuild && result == 0 && ruleset_table_dormant(r) != 0) {
            rebuild = true;
            continue;
        }
        memcpy(r->digest, digest, sizeof digest);
        r->generation = now;
        r->loaded = true;
        return rebuilt ? 1 : 0;
    }
    return -EAGAIN;
}

int ruleset_verify(struct ruleset *r) {
    uint8_t digest[32];
    if (!r->loaded) return 0;
    int error = ruleset_digest(r, digest);
    if (error == -ENOENT) return 0;
    if (error < 0) return error;
    return memcmp(digest, r->digest, sizeof digest) == 0 ? 1 : 0;
}

int ruleset_open(struct ruleset *ret) {
    struct ruleset r = {0};
    int error = netlink_open(&r.netlink, NETLINK_NETFILTER, 0, 1 << 20);
    if (error < 0) return error;
    *ret = r;
    return 0;
}

void ruleset_close(struct ruleset *r) {
    netlink_close(&r->netlink);
    r->loaded = false;
}
