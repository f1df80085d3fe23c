#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int channel = STDERR_FILENO;

void report_to(int fd) { channel = fd; }

int report_fd(void) { return channel; }

static void write_line(const char *line, size_t length)
{
    /* Ignore a reader that has gone away. */
    ssize_t ignored = write(channel, line, length);
    (void)ignored;
}

void report(const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    if (length < 0)
        return;
    if ((size_t)length > sizeof(line) - 2)
        length = sizeof(line) - 2;
    line[length] = '\n';
    write_line(line, (size_t)length + 1);
}

void report_ready(int fd)
{
    ssize_t ignored = write(fd, "1", 1);
    (void)ignored;
}

noreturn void fail(const char *what, ...)
{
    const char *reason = strerror(errno);
    char text[400];
    va_list args;
    va_start(args, what);
    vsnprintf(text, sizeof(text), what, args);
    va_end(args);
    report("error %s: %s", text, reason);
    _exit(1);
}

noreturn void refuse(const char *what, ...)
{
    char text[400];
    va_list args;
    va_start(args, what);
    vsnprintf(text, sizeof(text), what, args);
    va_end(args);
    report("error %s", text);
    _exit(1);
}
