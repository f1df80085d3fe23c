#pragma once

#include <stdint.h>

/* A file system for the agent's socket, not mounted anywhere yet. `owner` may put one thing into it. */
int make_link(uint32_t owner);
