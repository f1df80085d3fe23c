#pragma once

#include <stdbool.h>
#include <stddef.h>

/* How a process looks at files that sandboxes made. */
struct view {
    /* The directory that becomes its root. */
    int directory;
    /* The first id of sandboxes on this host, and how many there are: decimal numbers. */
    const char *base, *count;
    /* The capabilities that it keeps, over those ids only. */
    const int *kept;
    size_t kept_count;
    unsigned cpu_seconds;
    /* It gets SIGTERM instead of SIGKILL when its parent dies, to remove what it has half written. */
    bool cleans_up;
};

/*
 * Continues in a child that is root of a user namespace with the ids of sandboxes, without network, and whose root
 * directory is the view: a link leads nowhere but into it, even if it changes. The parent waits and exits like the
 * child.
 */
void enter_view(const struct view *view);
