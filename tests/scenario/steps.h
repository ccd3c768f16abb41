/* steps.h: the language of scenarios; see README.md. */
#ifndef TESTS_SCENARIO_STEPS_H
#define TESTS_SCENARIO_STEPS_H

#include "tests/scenario/world.h"

#define WORDS_MAX 24
#define BLOCK_MAX 65536

struct step {
    char *words[WORDS_MAX]; /* words without '=', in order */
    char *options[WORDS_MAX]; /* key=value */
    unsigned word_count, option_count;
    const char *block; /* indented lines that follow, two spaces taken off; "" if none */
};

/* The value of an option, or NULL. */
const char *step_option(const struct step *s, const char *key);
long step_number(const struct step *s, const char *key, long otherwise);

void step_run(struct world *w, const struct step *s);
/* expect.c */
void step_expect(struct world *w, const struct step *s);
/* Whatever came out that no step has expected. */
void expect_nothing(struct world *w);
void name_show(const struct name *n, char text[NAME_TEXT_MAX]);

#endif
