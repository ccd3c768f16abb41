/* log.c: one write(2) a line, so that lines of several processes do not mix. */
#include "gateway/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "gateway/base/buf.h"

#define LINE_MAX_BYTES 1000

/* The one file-scope state of the base: a process has one name and one standard error. */
static struct {
    const char *process;
    int debug, terminal;
} to = {.process = "tidegate"};

void log_start(const char *process, int debug) {
    to.process = process;
    to.debug = debug;
    to.terminal = isatty(STDERR_FILENO); /* asked once: later the ioctl may be forbidden */
}

void log_line(enum log_level level, const char *format, ...) {
    if (level == LOG_DEBUG && !to.debug) return;
    int saved = errno; /* callers log and then return -errno */

    char text[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (size < 0) size = 0;
    if (size > (int)sizeof text - 1) size = sizeof text - 1;

    uint8_t line[LINE_MAX_BYTES];
    struct buf b = buf_over(line, sizeof line - 1); /* room for the end of line */
    if (!to.terminal) buf_format(&b, "<%d>", (int)level);
    buf_put_text(&b, to.process);
    buf_put_text(&b, ": ");
    for (int i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c < 0x7f)
            buf_put_char(&b, (char)c);
        else
            buf_format(&b, "\\x%02x", c);
    }
    line[b.used++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, b.used);
    (void)written; /* there is nobody left to tell */
    errno = saved;
}
