/* instance.c: which running gateway is meant, and talking with it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/tidegate/cli.h"

#define DEFAULT_RUNTIME "/run/tidegate"
#define ANSWER_SECONDS 100 /* a reload may take that long */
#define SCAN_LINES 10000
#define SOCKET_PATH_MAX 108

/* The value of a top-level `runtime:` line. A look at the text, since `reload` must find the daemon
 * although the configuration has faults just now. */
static bool runtime_scan(const char *config, char path[POLICY_PATH_MAX]) {
    char line[4096];
    bool found = false;
    FILE *f = fopen(config, "re");
    if (!f) return false;
    for (unsigned i = 0; !found && i < SCAN_LINES && fgets(line, sizeof line, f); i++) {
        if (strncmp(line, "runtime:", 8)) continue;
        const char *value = line + 8 + strspn(line + 8, " \t\"'");
        size_t length = strcspn(value, " \t\"'#\r\n");
        if (!length || length >= POLICY_PATH_MAX) break;
        memcpy(path, value, length);
        path[length] = 0;
        found = true;
    }
    fclose(f);
    return found;
}

/* By the loader, for a configuration written in another style. */
static bool runtime_load(const char *config, char path[POLICY_PATH_MAX]) {
    struct options o = {.config = config};
    struct files f;
    const char *what;
    bool good = files_load(&o, &f, &what) == 0;
    if (good) snprintf(path, POLICY_PATH_MAX, "%s", policy_gateway(&f.policy)->runtime_directory);
    files_free(&f);
    return good;
}

/* 0, or -errno and in `path` the configuration that cannot be read. */
static int instance_socket(const struct options *o, char path[SOCKET_PATH_MAX]) {
    char runtime[POLICY_PATH_MAX];
    const char *config = o->config ? o->config : TIDEGATE_SYSCONFDIR "/tidegate/gateway.yaml";
    if (o->socket) {
        snprintf(path, SOCKET_PATH_MAX, "%s", o->socket);
        return 0;
    }
    /* A mistyped FILE must not lead to another gateway. */
    if (o->config && access(o->config, R_OK) < 0) {
        int error = -errno;
        snprintf(path, SOCKET_PATH_MAX, "%s", o->config);
        return error;
    }
    bool known = runtime_scan(config, runtime) ||
                 (access(config, R_OK) == 0 && runtime_load(config, runtime));
    /* A path that does not fit cannot be a socket's: connect() will say that there is none. */
    if (snprintf(path, SOCKET_PATH_MAX, "%s/control.sock", known ? runtime : DEFAULT_RUNTIME) >=
        SOCKET_PATH_MAX)
        path[SOCKET_PATH_MAX - 1] = 0;
    return 0;
}

static int instance_connect(const char *path) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    if (strlen(path) >= sizeof to.sun_path) return -ENAMETOOLONG;
    memcpy(to.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
    int error = -errno;
    close(fd);
    return error;
}

static int request_send(int fd, json_t *request) {
    char *text = json_dumps(request, JSON_COMPACT | JSON_ENSURE_ASCII);
    size_t length = text ? strlen(text) : 0, done = 0;
    int error = text ? 0 : -ENOMEM;
    if (text) text[length++] = '\n'; /* in place of the NUL */
    while (error == 0 && done < length) {
        ssize_t sent = send(fd, text + done, length - done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) error = -errno;
        else done += (size_t)sent;
    }
    free(text);
    return error;
}

static int conversation(const char *path, json_t *request, answer_fn *each, void *ctx) {
    int fd = instance_connect(path), error = fd < 0 ? fd : request_send(fd, request);
    FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
    char *line = NULL;
    size_t room = 0;
    bool last = false;
    json_decref(request);
    while (error == 0 && in && !last) {
        errno = 0;
        ssize_t length = getline(&line, &room, in);
        if (length < 0) {
            error = errno == EAGAIN ? -ETIMEDOUT : errno ? -errno : -ECONNRESET;
            break;
        }
        json_t *answer = json_loadb(line, (size_t)length, 0, NULL);
        if (!json_is_object(answer)) error = -EPROTO;
        else each(ctx, answer);
        last = json_object_get(answer, "ok") != NULL;
        json_decref(answer);
    }
    if (error == 0 && !in) error = -errno;
    free(line);
    if (in) fclose(in);
    else if (fd >= 0) close(fd);
    return error;
}

int instance_ask(const struct options *o, json_t *request, answer_fn *each, void *ctx) {
    char path[SOCKET_PATH_MAX];
    int error = instance_socket(o, path);
    if (error == 0) return conversation(path, request, each, ctx);
    json_decref(request);
    return error;
}

void instance_unreachable(const struct options *o, int error) {
    char path[SOCKET_PATH_MAX];
    const char *hint = "";
    if (instance_socket(o, path) < 0) {
        fprintf(stderr, "tidegate: %s: %s (name a gateway.yaml with -c, or a --socket PATH)\n", path,
                strerror(-error));
        return;
    }
    if (error == -ENOENT || error == -ECONNREFUSED)
        hint = " (is tidegated running? pick another instance with -c FILE or --socket PATH)";
    if (error == -EACCES || error == -EPERM) hint = " (root and members of group tidegate may)";
    fprintf(stderr, "tidegate: %s: %s%s\n", path, strerror(-error), hint);
}

static void keep_answer(void *ctx, json_t *answer) {
    json_t **kept = ctx;
    json_decref(*kept);
    *kept = json_incref(answer);
}

json_t *instance_ask_one(const struct options *o, json_t *request) {
    json_t *answer = NULL;
    int error = instance_ask(o, request, keep_answer, &answer);
    if (error == 0) return answer;
    json_decref(answer);
    instance_unreachable(o, error);
    return NULL;
}
