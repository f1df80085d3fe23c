#pragma once

#include <stdnoreturn.h>

/* The only error channel: writes a line `error <what>: <strerror>` to this fd, then exits with status 1. */
void report_to(int fd);
int report_fd(void);
noreturn void fail(const char *what, ...) __attribute__((format(printf, 1, 2)));
/* Like fail(), without errno. */
noreturn void refuse(const char *what, ...) __attribute__((format(printf, 1, 2)));
/* Writes what the agent writes when it listens, for a burrow without an agent. */
void report_ready(int fd);
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For calls that return -1 and set errno. */
#define CHECK(call, ...) \
    ({ __typeof__(call) check_result_ = (call); if (check_result_ == -1) fail(__VA_ARGS__); check_result_; })
