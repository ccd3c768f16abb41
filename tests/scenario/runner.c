/* runner.c: replays scenario files against the engine; prints `N passed, N failed`.
 *
 *   runner [-v] FILE...
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/scenario/steps.h"

#define LINE_MAX_OCTETS 4096

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
    (void)st, (void)kind, (void)where;
    return remove(path);
}

/* Splits a line in place; "..." keeps spaces. */
static void split(char *line, struct step *s) {
    s->word_count = s->option_count = 0;
    while (*line) {
        while (*line == ' ' || *line == '\t')
            line++;
        if (!*line || *line == '#')
            return;
        char *start = line, *to = line;
        bool quoted = false, option = false;
        for (; *line && (quoted || (*line != ' ' && *line != '\t')); line++) {
            if (*line == '"') {
                quoted = !quoted;
                continue;
            }
            option |= *line == '=' && to > start;
            *to++ = *line;
        }
        if (*line)
            line++;
        *to = '\0';
        if (option && s->option_count < WORDS_MAX)
            s->options[s->option_count++] = start;
        else if (s->word_count < WORDS_MAX)
            s->words[s->word_count++] = start;
    }
}

struct reader {
    FILE *in;
    char line[LINE_MAX_OCTETS]; /* the next one, not used yet */
    bool have;
    int number;
};

static bool fill(struct reader *r) {
    while (!r->have) {
        if (!fgets(r->line, sizeof r->line, r->in))
            return false;
        r->number++;
        r->line[strcspn(r->line, "\r\n")] = '\0';
        r->have = true;
    }
    return true;
}

/* The next step with its block; false at the end. */
static bool next_step(struct reader *r, struct world *w, char *line, char *block, struct step *s) {
    size_t used = 0;
    do {
        if (!fill(r))
            return false;
        r->have = false;
        snprintf(line, LINE_MAX_OCTETS, "%s", r->line);
        w->line = r->number;
        split(line, s);
    } while (s->word_count == 0);
    block[0] = '\0';
    while (fill(r) && strncmp(r->line, "  ", 2) == 0) {
        used += (size_t)snprintf(block + used, BLOCK_MAX - used, "%s\n", r->line + 2);
        if (used >= BLOCK_MAX)
            used = BLOCK_MAX - 1;
        r->have = false;
    }
    s->block = block;
    return true;
}

static bool run_file(const char *path) {
    static char line[LINE_MAX_OCTETS], block[BLOCK_MAX];
    struct reader r = {.in = fopen(path, "r")};
    struct world *w = world_new(path);
    struct step s;
    if (!r.in || !w) {
        printf("%s: cannot be read\n", path);
        return false;
    }
    unsigned expectations = 0;
    while (!w->failed && next_step(&r, w, line, block, &s)) {
        expectations += strcmp(s.words[0], "expect") == 0;
        step_run(w, &s);
    }
    if (!w->failed)
        expect_nothing(w);
    if (expectations == 0)
        world_fail(w, "expects nothing at all");
    bool ok = !w->failed;
    if (w->directory[0])
        nftw(w->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    fclose(r.in);
    world_free(w);
    return ok;
}

int main(int argc, char **argv) {
    int first = argc > 1 && strcmp(argv[1], "-v") == 0 ? 2 : 1;
    unsigned passed = 0, failed = 0;
    for (int i = first; i < argc; i++) {
        bool ok = run_file(argv[i]);
        passed += ok;
        failed += !ok;
        if (first == 2 || !ok)
            printf("%s %s\n", ok ? "ok  " : "FAIL", argv[i]);
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
