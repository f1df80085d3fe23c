#pragma once

#include "config.h"

/*
 * As real root, in a private mount namespace: the overlay, /dev, /.dormouse and volumes. Leaves us in the burrow's
 * future root.
 */
void mount_outer(const struct config *config);
/*
 * As root of the new user namespace, in the same directory: /proc, /sys, /dev/pts and the masks. Then it becomes the
 * root and the host's is gone.
 */
void mount_inner(const struct config *config);

/* Opens a directory below the root without following symlinks: the sandbox owns what is on the way. */
int open_below(int root, const char *path);
/* Attaches the mount `mount_fd` to the directory `target_fd`. */
void attach(int mount_fd, int target_fd, const char *what);
