#pragma once

#include <stdint.h>

/* These act on the current directory: the future root of the burrow, with /proc, /sys and /dev mounted. */
void write_sysctls(void);
/* For set_last_pid. The masks close the file. */
int open_last_pid(void);
void mask_paths(void);
/* The next process gets the pid after this one; 0 changes nothing. A restore needs the pids of its tree to be free. */
void set_last_pid(int fd, int64_t last_pid);
