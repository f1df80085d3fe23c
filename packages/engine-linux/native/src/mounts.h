#pragma once

#include "config.h"

/* As real root, in a private mount namespace: the overlay, /dev and /.dormouse under config->root. */
void mount_outer(const struct config *config);
/* As root of the new user namespace: /proc, /sys, /dev/pts and the masks, then make config->root the root and forget the host's. */
void mount_inner(const struct config *config);

/* Opens a directory below the root without following symlinks: the sandbox owns what is on the way. */
int open_below(int root, const char *path);
/* Attaches the mount `mount_fd` to the directory `target_fd`. */
void attach(int mount_fd, int target_fd, const char *what);
