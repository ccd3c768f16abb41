/* log_show.h: one record as one line for people. */
#ifndef TOOLS_TIDEGATE_LOG_SHOW_H
#define TOOLS_TIDEGATE_LOG_SHOW_H

#include <jansson.h>
#include <stdbool.h>

/* time, agent, what, decision, reason, rule; `local`: the time zone of the reader instead of UTC. */
void log_show(const json_t *record, bool local);

#endif
