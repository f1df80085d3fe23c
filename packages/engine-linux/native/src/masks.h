#pragma once

#include <stdint.h>

/* All act below the current directory, which is the burrow's future root with /proc, /sys and /dev mounted. */
void write_sysctls(void);
/* A restore needs the pids of its tree free: its own processes start behind this one. */
void set_last_pid(int64_t last_pid);
void mask_paths(void);
