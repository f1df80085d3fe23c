#pragma once

/* Seccomp programs. Read them while the host's files are still accessible. */
struct filters;
struct filters *filters_read(const char *directory);

/*
 * The last step before the agent starts: limits capabilities, sets no_new_privs and loads the three filters. It cannot
 * be undone.
 */
void drop_privileges(const struct filters *filters);
