#pragma once

#include <stdbool.h>

/* Makes this process, which must have one thread only, a member of a cgroup. False with errno set when that fails. */
bool join_cgroup(const char *directory);
