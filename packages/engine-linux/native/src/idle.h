#pragma once

#include <stddef.h>

/* Gives this process the lowest CPU and disk priority, for work that no caller waits for. */
void be_idle(void);
/*
 * Call it after each write. An idle process flushes every few megabytes: otherwise the syncs of other processes would
 * wait for its backlog.
 */
void flush_if_idle(int fd, size_t bytes);
