#pragma once

#include <stdint.h>

/* These act on the current directory: the future root of the burrow, with /proc, /sys and /dev mounted. */
void write_sysctls(void);
/* The next process gets the pid after this one. A restore needs the pids of its tree to be free. */
void set_last_pid(int64_t last_pid);
void mask_paths(void);
