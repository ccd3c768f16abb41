/* cli.h: what the commands of `tidegate` share.
 *
 *   main.c      which command, its options, help
 *   instance.c  which gateway: socket path; conversation over the control socket
 *   show.c      text for people: clean, aligned
 *   files.c     check, and policies loaded from files
 *   explain.c, listing.c (openings, why), status.c, reload.c   one command each
 *   log.c       `tidegate log`
 */
#ifndef TOOLS_TIDEGATE_CLI_H
#define TOOLS_TIDEGATE_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "gateway/policy/load/load.h"
#include "gateway/policy/policy.h"

enum { EXIT_OK = 0, EXIT_DENIED = 1, EXIT_USAGE = 2 };

struct options { /* what the command line says; NULL: not given */
    const char *config, *socket;
    const char *client, *remote, *name, *type;
    const char *argument; /* DIR or ADDRESS */
    bool json, files, help;
};

/* instance.c ------------------------------------------------------------------------------------ */

/* Called for each answer; the last one has the member "ok". */
typedef void answer_fn(void *ctx, json_t *answer);
/* Sends one request (taken) to the instance that the options name and reads its answers: 0, or
 * -errno when the daemon cannot be reached or does not keep to the protocol. Says nothing. */
int instance_ask(const struct options *o, json_t *request, answer_fn *each, void *ctx);
/* Explains a failed instance_ask() on standard error, with what to do. */
void instance_unreachable(const struct options *o, int error);
/* For requests with one answer: the answer (owned by the caller), or NULL, explained. */
json_t *instance_ask_one(const struct options *o, json_t *request);

/* show.c ---------------------------------------------------------------------------------------- */

/* Prints UTF-8 text; controls, bidirectional marks and what is not UTF-8 are printed as escapes, so
 * that no text from elsewhere steers the terminal. */
void show_clean(FILE *to, const char *text);
/* A JSON value as text, "-" for null. `room` bytes suffice for numbers. Returns a pointer. */
const char *show_value(const json_t *v, char *room, size_t size);
void show_json(const json_t *v); /* on standard output, one line, ASCII */
void show_padded(const char *text, int width); /* clean, and blanks up to the width */
void show_digest(const json_t *digest);         /* its beginning */
/* "key     value" with the value clean; nothing when `value` is null. */
void show_field(const char *key, const json_t *value);

#define TABLE_COLUMNS_MAX 8
struct table; /* buffers rows and prints them aligned, a few hundred at a time */
struct table *table_new(const char *const *titles, unsigned columns);
void table_row(struct table *t, const char *const *cells);
struct table *table_free(struct table *t); /* prints what is left; returns NULL */

/* "1h 02m", "3m 05s", "12s" */
const char *show_duration(long long seconds, char text[32]);

/* files.c --------------------------------------------------------------------------------------- */

struct files { /* a policy loaded from files */
    struct load_result result;
    struct policy policy;
    json_t *report; /* lines */
};
/* Loads DIR or -c FILE or the default file. 0 or -EINVAL with the report filled. */
int files_load(const struct options *o, struct files *ret, const char **ret_what);
void files_free(struct files *f);
void files_report(const json_t *report, FILE *to);

/* commands: return the exit status --------------------------------------------------------------- */

int check_main(const struct options *o);
int explain_main(const struct options *o);
int why_main(const struct options *o);
int openings_main(const struct options *o);
int status_main(const struct options *o);
int reload_main(const struct options *o);

/* Complaint about the command line: prints it, returns EXIT_USAGE. */
int usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The known word nearest to what was typed, or NULL when none is near. `known` ends with NULL. */
const char *suggest(const char *typed, const char *const *known);

#endif
