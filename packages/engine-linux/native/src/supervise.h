#pragma once

#include <stdnoreturn.h>

#include "config.h"
#include "privileges.h"

/* PID 1 of the burrow: starts the agent as pid 2, reaps, and ends the burrow, saying why in end_fd, when the agent ends. */
noreturn void supervise(const struct config *config, const struct filters *filters, int end_fd);
