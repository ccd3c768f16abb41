/* files.c: the policy of a scenario: the files of base/, overwritten by its own, compiled by the real
 * loader.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/policy/load/load.h"
#include "tests/scenario/world.h"

#define BASE "tests/scenario/base"
#define SUFFIXES "conf/public_suffix_list.dat"

static int copy_file(const char *from, const char *to) {
    char data[16384];
    FILE *in = fopen(from, "r"), *out = in ? fopen(to, "w") : NULL;
    if (!in || !out) {
        if (in)
            fclose(in);
        return -1;
    }
    size_t got = fread(data, 1, sizeof data, in);
    size_t put = fwrite(data, 1, got, out);
    fclose(in);
    return fclose(out) == 0 && put == got ? 0 : -1;
}

static int copy_folder(const char *from, const char *to) {
    DIR *dir = opendir(from);
    struct dirent *e;
    int r = 0;
    if (!dir || (mkdir(to, 0700) < 0 && errno != EEXIST)) {
        if (dir)
            closedir(dir);
        return -1;
    }
    while (r == 0 && (e = readdir(dir))) {
        char source[PATH_MAX], target[PATH_MAX];
        struct stat st;
        if (e->d_name[0] == '.')
            continue;
        snprintf(source, sizeof source, "%s/%s", from, e->d_name);
        snprintf(target, sizeof target, "%s/%s", to, e->d_name);
        if (stat(source, &st) < 0)
            r = -1;
        else
            r = S_ISDIR(st.st_mode) ? copy_folder(source, target) : copy_file(source, target);
    }
    closedir(dir);
    return r;
}

static int prepare(struct world *w) {
    if (w->directory[0])
        return 0;
    snprintf(w->directory, sizeof w->directory, "/tmp/tidegate-scenario-XXXXXX");
    if (!mkdtemp(w->directory)) {
        w->directory[0] = '\0';
        return -1;
    }
    return copy_folder(BASE, w->directory);
}

/* An empty block removes the file. */
int world_write(struct world *w, const char *path, const char *text) {
    char full[PATH_MAX];
    if (prepare(w) < 0 || strstr(path, ".."))
        return -1;
    snprintf(full, sizeof full, "%s/%s", w->directory, path);
    if (!*text)
        return unlink(full);
    FILE *out = fopen(full, "w");
    if (!out)
        return -1;
    fputs(text, out);
    return fclose(out);
}

int world_compile(struct world *w, struct policy *ret, void **ret_image) {
    char config[PATH_MAX];
    struct load_result result = {0};
    if (prepare(w) < 0)
        return -1;
    snprintf(config, sizeof config, "%s/gateway.yaml", w->directory);
    struct load_source source = {.config = config, .public_suffix_list = SUFFIXES};
    if (load_policy(&source, stdout, &result) < 0 || policy_open(ret, result.image, result.size) < 0)
        return -1;
    *ret_image = result.image;
    return 0;
}
