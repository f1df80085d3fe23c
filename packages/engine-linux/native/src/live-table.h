#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Adds a range to the guard's table in a stopped process, so that its memory keeps behaving like anonymous memory.
 * False when the table is full or is not one of ours; then it is unchanged.
 */
bool guard_range(pid_t process, uint64_t table, uint64_t start, uint64_t end);
