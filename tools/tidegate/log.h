/* log.h: `tidegate log`: reads the audit log's files, needs no daemon. */
#ifndef TOOLS_TIDEGATE_LOG_H
#define TOOLS_TIDEGATE_LOG_H

/* argv[0] is "log", argv[1] the verb, options follow; `config`: a -c FILE from before the verb, or
 * NULL. Returns the exit status: 0, 1 (no log, or
 * something in it is not a record), 2 (usage). */
int log_main(int argc, char **argv, const char *config);

#endif
