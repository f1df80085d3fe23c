#pragma once

#include <stdbool.h>

#include "sum-file.h"
#include "sums-table.h"

/* Longest path shown to people. It is printable, and cut off if it is longer. */
#define SHOWN_MAX 200

struct visitor {
    /* Return false to end the walk. `path` is relative to the root of the tree; `.` is the root itself. */
    bool (*visit)(struct entry_sums sums, const char *path, void *context);
    /* Called with errno set when a file cannot be read. */
    void (*unreadable)(const char *path, void *context);
    void *context;
};

/*
 * Visits every name of a tree, in any order, with a hash of everything about it: type, mode, owner, times, size,
 * device, link target, extended attributes, content. Follows no links, stays on one file system, and handles any depth.
 * Pre: the tree does not change meanwhile.
 */
void sum_tree(const char *root, struct reading *reading, const struct visitor *visitor);
