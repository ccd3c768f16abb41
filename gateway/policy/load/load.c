/* load.c: all files in their order, then the image. */
#include "gateway/policy/load/load.h"

#include <dirent.h>
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gateway/policy/load/model.h"

/* ---- the folder ------------------------------------------------------------------------------ */

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool ends_in(const char *name, const char *end) {
    size_t size = strlen(name), part = strlen(end);
    return size >= part && strcmp(name + size - part, end) == 0;
}

/* File names go into records and messages. */
static bool name_fits(const char *name) {
    size_t size = strlen(name);
    for (size_t i = 0; i < size; i++) {
        if (name[i] <= ' ' || name[i] > '~') return false;
    }
    return size <= 255;
}

static void file_name_take(struct model *m, const struct source_file *folder, const char *name,
                           struct list *names) {
    struct place at = {folder, 1, 1};
    if (name[0] == '.') return; /* git, editors */
    if (ends_in(name, ".yml")) {
        fault_warn(&m->faults, at, "%s is not read; rename it to end in .yaml", shown(name).text);
        return;
    }
    if (!ends_in(name, ".yaml")) return;
    if (!name_fits(name)) {
        fault_add(&m->faults, at, "the file name \"%s\" may hold printable ASCII only; rename it",
                  shown(name).text);
        return;
    }
    if (names->count == MODEL_FILES_MAX) {
        if (m->files_over++ == 0) {
            fault_add(&m->faults, at, "more than %u manifests; put fewer into one policy",
                      MODEL_FILES_MAX);
        }
        return;
    }
    const char **entry = list_add(m, names);
    if (entry) *entry = model_text(m, name);
}

/* Manifests in the order of their names, so that the image does not depend on the directory's. */
static bool manifests_list(struct model *m, const struct source_file *folder, struct list *names) {
    struct place at = {folder, 1, 1};
    DIR *dir = opendir(folder->path);
    if (!dir) {
        fault_add(&m->faults, at,
                  errno == ENOENT
                      ? "does not exist; make this directory, with a manifest for each tool"
                      : "cannot be read as a directory: %s; check its kind and permissions",
                  strerror(errno));
        return false;
    }
    struct dirent *entry;
    while ((entry = readdir(dir))) file_name_take(m, folder, entry->d_name, names);
    closedir(dir);
    if (names->count > 1) qsort(names->items, names->count, names->item_size, compare_names);
    return true;
}

static void tools_load(struct model *m, const char *directory) {
    struct list names = {.item_size = sizeof(char *)};
    const char *path = model_join(m, directory, "/tools", "");
    const struct source_file *folder = path ? model_file(m, path, "tools") : NULL;
    if (!folder || !manifests_list(m, folder, &names)) m->tools_incomplete = true;
    for (size_t i = 0; i < names.count && !m->faults.nomem; i++) {
        const char *name = *(const char **)list_at(&names, i);
        const char *full = model_join(m, path, "/", name);
        const char *relative = model_join(m, "tools/", name, "");
        struct source_file *file = full && relative ? model_file(m, full, relative) : NULL;
        if (file) manifest_load(m, file);
    }
    free(names.items);
}

static const struct source_file *policy_file(struct model *m, const char *directory,
                                             const char *name) {
    const char *path = model_join(m, directory, "/", name);
    return path ? model_file(m, path, name) : NULL;
}

/* Approvers are optional. */
static void approvers_maybe(struct model *m, const char *directory) {
    struct stat st;
    const struct source_file *file = policy_file(m, directory, "approvers.yaml");
    if (file && lstat(file->path, &st) == 0) approvers_load(m, file);
}

static void folder_load(struct model *m, const char *directory) {
    struct stat st;
    const char *problem = NULL;
    if (stat(directory, &st) < 0)
        problem = strerror(errno);
    else if (!S_ISDIR(st.st_mode))
        problem = "it is no directory";
    if (problem && m->policy_guessed) return;
    if (problem) {
        fault_add(&m->faults, m->policy_at,
                  "the policy folder \"%s\" cannot be opened: %s; correct "
                  "the path, or make the folder with agents.yaml and tools/",
                  shown(directory).text, problem);
        return;
    }
    approvers_maybe(m, directory);
    tools_load(m, directory);
    const struct source_file *agents = policy_file(m, directory, "agents.yaml");
    if (agents) agents_load(m, agents);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* `policy:` may be relative to the folder of gateway.yaml. */
static const char *policy_directory(struct model *m, const char *config) {
    const char *written = m->gateway.policy_directory, *slash = strrchr(config, '/');
    if (written[0] == '/' || !slash) return model_text(m, written);
    char *folder = model_alloc(m, (size_t)(slash - config) + 2);
    if (!folder) return NULL;
    memcpy(folder, config, (size_t)(slash - config) + 1);
    return model_join(m, folder, written, "");
}

static void everything_load(struct model *m, const struct load_source *source) {
    const char *directory = source->directory;
    gateway_defaults(m);
    if (!suffixes_load(m, source->public_suffix_list)) return;
    const struct source_file *start =
        model_file(m, source->config ? source->config : directory, "");
    if (!start) return;
    m->policy_at = (struct place){start, 1, 1};
    if (source->config) {
        gateway_load(m, start);
        /* Empty: not known for a fault. */
        bool known = m->gateway.policy_directory[0] != '\0';
        directory = known ? policy_directory(m, source->config) : NULL;
    }
    if (directory) folder_load(m, directory);
}

int load_policy(const struct load_source *source, FILE *report, struct load_result *ret) {
    struct load_result result = {0};
    struct model m = {0};
    if (sodium_init() < 0) return -EINVAL;
    model_start(&m, source->clock);
    if (!m.faults.nomem) everything_load(&m, source);
    if (m.faults.faults == 0 && !m.faults.nomem) image_build(&m, &result.image, &result.size);
    faults_print(&m.faults, report);
    if (m.faults.nomem) {
        fprintf(report, "%s:1:1: not enough memory to load it; free some, or give the host more\n",
                shown(source->config ? source->config : source->directory).text);
        m.faults.faults++;
        load_result_free(&result);
    }
    result.faults = m.faults.faults;
    result.warnings = m.faults.warnings;
    model_end(&m);
    *ret = result;
    return result.image ? 0 : -EINVAL;
}

void load_result_free(struct load_result *r) {
    free(r->image);
    r->image = NULL;
    r->size = 0;
}
