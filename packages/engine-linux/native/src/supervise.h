#pragma once

#include <stdnoreturn.h>

#include "config.h"
#include "privileges.h"

/* Descriptors that lead out of the burrow. The agent gets ready_fd and nothing else. */
struct outside {
    int end_fd;   /* a host file: why the burrow ended */
    int ready_fd; /* a pipe to the engine: `1` when the agent listens */
};

/*
 * PID 1 of the burrow: starts the agent as pid 2 and reaps children. When the agent ends, writes why to end_fd and ends
 * the burrow.
 */
noreturn void supervise(const struct config *config, const struct filters *filters, struct outside outside);
