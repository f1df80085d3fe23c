#pragma once

#include "config.h"

/*
 * As real root, in a private mount namespace: mounts the overlay, /dev, /.dormouse and volumes. Then the current
 * directory is the future root of the burrow.
 */
void mount_outer(const struct config *config);
/*
 * As root of the new user namespace, in the same directory: mounts /proc, /sys, /dev/pts and the masks, makes the
 * directory the root and detaches the host's root.
 */
void mount_inner(const struct config *config);

/* Opens a directory below the root without following symlinks: the sandbox controls the path. */
int open_below(int root, const char *path);
/* Attaches the mount `mount_fd` to the directory `target_fd`. */
void attach(int mount_fd, int target_fd, const char *what);
