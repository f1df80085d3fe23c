#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* What /proc says about a thread. */
struct live_status {
    /* How many seccomp filters it has. A thread can only add filters. */
    unsigned filters;
    /* The user it opens files as, as the host sees it. */
    uid_t user;
};

/* False when the thread has ended. */
bool read_status(pid_t process, pid_t thread, struct live_status *status);
