#pragma once

/* Seccomp programs, read while the host's files are still in reach. */
struct filters;
struct filters *filters_read(const char *directory);

/*
 * The last thing before the agent starts: container-like capabilities, no_new_privs, the three filters. There is no way
 * back.
 */
void drop_privileges(const struct filters *filters);
