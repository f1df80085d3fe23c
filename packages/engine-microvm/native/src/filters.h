#pragma once

/* Reads one more seccomp program. Ends this process when it cannot be read. */
void filters_add(const char *path);

/* How many have been read. */
int filters_count(void);

/*
 * Loads them for good, in the order in which they were read. Pre: no_new_privs is set. Kernel rule: the strictest result
 * wins, and of equally strict ones that of the filter that was loaded last.
 */
void filters_load(void);
