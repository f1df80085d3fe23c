#pragma once

/*
 * Where a burrow has the files that tell programs their limits, if the engine gave it any. Kernel files describe the
 * host instead, and the guard has to know the numbers, too (guard-limits.c).
 */
#define LIMITS_DIRECTORY "dev/.limits"

/* Mounts those files over the kernel's. Pre: /proc and /sys are mounted below the current directory. */
void show_limits(void);
