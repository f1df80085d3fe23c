#ifndef DORMOUSE_BIND_LATER_H
#define DORMOUSE_BIND_LATER_H

#include <sys/types.h>

/* Reads entries from stdin and binds them in the mount namespace of `pid`: see jail.c. Returns when there are none. */
void bind_later(pid_t pid);

#endif
