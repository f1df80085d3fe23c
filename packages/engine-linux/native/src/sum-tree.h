#pragma once

#include <stdbool.h>

#include "sum-file.h"
#include "sums-table.h"

/* A name of a tree, as it is shown to people: printable, and cut off where it is too long. */
#define SHOWN_MAX 200

struct visitor {
    /* False ends the walk. `path` is the name from the root of the tree; `.` for the root itself. */
    bool (*visit)(struct known known, const char *path, void *context);
    /* A file of the tree cannot be read, with errno. */
    void (*unreadable)(const char *path, void *context);
    void *context;
};

/*
 * Visits every name of a tree, in no order, with a hash of all that it is: kind, rights, owner, times, size, device,
 * link target, extended attributes, content. Follows nothing, leaves no file system, and copes with any depth.
 * Pre: nobody changes the tree meanwhile.
 */
void sum_tree(const char *root, struct reading *reading, const struct visitor *visitor);
