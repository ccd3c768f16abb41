/* fault.h: what is wrong with the operator's files: collected while reading, told in one go, in the
 * order of the files: first what is wrong, then warnings.
 */
#ifndef GATEWAY_POLICY_LOAD_FAULT_H
#define GATEWAY_POLICY_LOAD_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One file that is read. Both paths live as long as the load. */
struct source_file {
    const char *path;     /* as the operator can open it: stands in front of every fault */
    const char *relative; /* below the policy folder: goes into the image */
    unsigned order;       /* faults are told in this order */
};

struct place {
    const struct source_file *file;
    uint32_t line, column; /* from 1 */
};

#define FAULTS_TOLD_MAX 10000 /* more are counted only */

struct fault;
struct faults {
    struct fault *all;
    size_t count, capacity;
    unsigned faults, warnings;
    bool nomem; /* some allocation of the load failed: the result is void */
};

void fault_add(struct faults *f, struct place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void fault_warn(struct faults *f, struct place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes all, faults before warnings, each sorted by place. */
void faults_print(struct faults *f, FILE *report);
void faults_free(struct faults *f);

/* Text from a file as it may be shown: at most 100 bytes, controls and what could reorder or hide
 * other text as \x.., so it cannot forge a line. Use: shown(text).text within one expression. */
struct shown {
    char text[432];
};
struct shown shown(const char *text);

/* How far two words are apart: edits of one letter, swaps of neighbours count once. Only as exact
 * as needed: anything above `most` is told as most + 1. */
unsigned word_distance(const char *a, const char *b, unsigned most);
/* Whether `candidate` is nearer to `word` than *best (start with UINT_MAX); updates *best. */
bool word_nearer(const char *word, const char *candidate, unsigned *best);

#endif
