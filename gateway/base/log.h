/* log.h: diagnostics of a process for its operator, to standard error, one line each, with the
 * syslog priority prefix "<N>" that journald reads when standard error is not a terminal.
 * This is not the audit log; decisions go to the recorder.
 */
#ifndef GATEWAY_BASE_LOG_H
#define GATEWAY_BASE_LOG_H

enum log_level { LOG_ERROR = 3, LOG_WARN = 4, LOG_NOTE = 5, LOG_DEBUG = 7 };

/* `process` is a string literal, shown in every line. Debug lines are off unless `debug`. */
void log_start(const char *process, int debug);
/* Control characters and bytes above 0x7e in the result are written as \xHH; at most 1,000 bytes. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_note(...) log_line(LOG_NOTE, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
