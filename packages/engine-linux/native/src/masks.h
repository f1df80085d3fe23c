#pragma once

/* Both act below the current directory, which is the burrow's future root with /proc, /sys and /dev mounted. */
void write_sysctls(void);
void mask_paths(void);
