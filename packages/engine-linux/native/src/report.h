#pragma once

#include <stdnoreturn.h>

/* The one error channel: a line `error <what>: <strerror>` on this fd, then exit status 1. */
void report_to(int fd);
int report_fd(void);
noreturn void fail(const char *what, ...) __attribute__((format(printf, 1, 2)));
/* Like fail(), without errno. */
noreturn void refuse(const char *what, ...) __attribute__((format(printf, 1, 2)));
/* What the agent says when it listens, said by us when there is none to start. */
void report_ready(int fd);
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For calls that return -1 and set errno. */
#define CHECK(call, ...) \
    ({ __typeof__(call) check_result_ = (call); if (check_result_ == -1) fail(__VA_ARGS__); check_result_; })
