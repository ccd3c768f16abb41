/* suggest.c: "did you mean". */
#include <string.h>

#include "tools/tidegate/cli.h"

#define WORD_MAX 32
#define NEAR 2 /* edits */

/* Optimal string alignment distance: insert, delete, change, swap of neighbours. */
static unsigned distance(const char *a, const char *b) {
    unsigned d[WORD_MAX + 1][WORD_MAX + 1];
    size_t m = strlen(a), n = strlen(b);
    if (m > WORD_MAX || n > WORD_MAX) return WORD_MAX;
    for (size_t i = 0; i <= m; i++) d[i][0] = (unsigned)i;
    for (size_t j = 0; j <= n; j++) d[0][j] = (unsigned)j;
    for (size_t i = 1; i <= m; i++)
        for (size_t j = 1; j <= n; j++) {
            unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[m][n];
}

const char *suggest(const char *typed, const char *const *known) {
    const char *best = NULL;
    unsigned least = NEAR + 1;
    size_t length = strlen(typed);
    for (; *known; known++) {
        /* The beginning of a word is near, however much is missing. */
        unsigned far = length >= 2 && !strncmp(*known, typed, length) ? 1 : distance(typed, *known);
        if (far >= least || far >= strlen(*known)) continue;
        least = far;
        best = *known;
    }
    return best;
}
