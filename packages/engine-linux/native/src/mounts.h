#pragma once

#include <stdint.h>

#include "config.h"
#include "stage.h"

/*
 * As real root, in the host's mount namespace: puts together the overlay, /dev, /.dormouse and volumes in the stage.
 * Returns the mount namespace for PID 1. This process is of no further use then: it has left the host's namespaces.
 */
int mount_outer(const struct config *config, const struct stage *stage, uint32_t owner);

/* What PID 1 makes ahead of need, in its copy of the stage: mounts that are not attached, and an open file. */
struct inner {
    int proc, sys, terminals;
    int last_pid;
};

/* As root of the new user namespace: makes /proc, /sys and /dev/pts with their masks, and sets up the network. */
struct inner prepare_inner(void);
/* In the mount namespace that mount_outer returned, whose root is that of the burrow: attaches them. */
void mount_inner(const struct config *config, const struct inner *inner);

/* A copy of the mount at `path`, not attached. `flags`: AT_RECURSIVE, or 0. */
int clone_tree(const char *path, unsigned int flags);
/* Opens a directory below the root without following symlinks: the sandbox controls the path. */
int open_below(int root, const char *path);
/* Attaches the mount `mount_fd` to the directory `target_fd`. */
void attach(int mount_fd, int target_fd, const char *what);
/* Enters a private copy of the host's mount namespace. */
void leave_mounts_of_host(void);
