#pragma once

#include <stdint.h>
#include <sys/types.h>

/*
 * What dormouse-init makes ahead of need, while it waits for its configuration. The stage is a mount namespace without
 * any file system of the host but /proc and /sys. PID 1 begins in a copy of it, so a spare keeps no file system of the
 * host in use. Later the mounts of the burrow are put together in the stage, whose few mounts are quickly copied.
 */
struct stage {
    int host;      /* the mount namespace of the host */
    int mounts;    /* the stage */
    int copy;      /* the copy that PID 1 is in */
    int users;     /* the user namespace of PID 1 */
    int proc;      /* /proc of the host */
    int directory; /* the current directory in the host's mount namespace */
    int devices;   /* /dev of the burrow, a mount that is not attached */
    int socket;    /* /.dormouse/run of the burrow, likewise */
};

/* Post: this process is in a directory of the stage with proc and sys of the host and dev of the burrow. */
struct stage make_stage(uint32_t owner);
/* Once PID 1 is in its own copy. Post: the stage is empty, and this process is where it was before. */
void leave_stage(struct stage *stage, pid_t first);
/* Enters the empty stage again, whose root is the place for the root of the burrow. The current directory is lost. */
void enter_stage(const struct stage *stage);
/*
 * Copies the stage for PID 1, and returns the copy. Kernel rule: mounts that are copied into a mount namespace of
 * another user namespace are locked there. So no privilege in the burrow can undo them or make them writable.
 */
int copy_stage(const struct stage *stage);
