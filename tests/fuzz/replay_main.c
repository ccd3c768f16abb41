/* replay_main.c: runs a fuzz target over files instead of under libFuzzer, so that corpora and
 * findings are tried by any compiler. Arguments: files, or folders whose files are taken.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned tried;

static int try_file(const char *path) {
    FILE *f = fopen(path, "rb");
    uint8_t *room = malloc(INPUT_MAX), *input = NULL;
    if (!f || !room) {
        perror(path);
        exit(2);
    }
    size_t size = fread(room, 1, INPUT_MAX, f);
    fclose(f);
    input = malloc(size ? size : 1); /* exactly its size: the sanitizer sees what runs over */
    if (!input)
        exit(2);
    memcpy(input, room, size);
    free(room);
    LLVMFuzzerTestOneInput(input, size);
    free(input);
    tried++;
    return 0;
}

static void try_folder(const char *path) {
    DIR *d = opendir(path);
    if (!d) {
        perror(path);
        exit(2);
    }
    for (struct dirent *e; (e = readdir(d));) {
        char file[4096];
        if (e->d_name[0] == '.')
            continue;
        if (snprintf(file, sizeof file, "%s/%s", path, e->d_name) < (int)sizeof file)
            try_file(file);
    }
    closedir(d);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
            try_folder(argv[i]);
        else
            try_file(argv[i]);
    }
    printf("%s: %u inputs\n", argv[0], tried);
    return tried > 0 ? 0 : 2; /* nothing tried proves nothing */
}
