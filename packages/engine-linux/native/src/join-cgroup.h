#pragma once

#include <stdbool.h>

/* Moves this process, which must have a single thread, into a cgroup. Returns false with errno set. */
bool join_cgroup(const char *directory);
