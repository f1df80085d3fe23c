#ifndef DORMOUSE_GUEST_VOLUME_H
#define DORMOUSE_GUEST_VOLUME_H

#include <stdbool.h>
#include <sys/types.h>

#define VOLUMES_MAX 16

/* The sandbox's mounts are those of the agent. */
void volumes_belong_to(pid_t agent);
/* Mounts a volume at a path. Its requests wait until the host connects. Returns -1 with errno set. */
int mount_volume(int number, bool is_read_only, const char *path);
/* Open files on it fail from now on. */
int unmount_volume(int number, const char *path);
/* Connects to the relay of a volume. Returns -1 with errno set. */
int connect_volume(int number);

#endif
