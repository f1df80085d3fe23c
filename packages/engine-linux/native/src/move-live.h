#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "live-pieces.h"

/* What dormouse-move was told about a burrow. */
struct burrow {
    const char *cgroup, *directory, *name;
    pid_t first;
    uid_t owner;
    /* The guard library, and where in it the table, the frame and the code for calls are. */
    uint64_t guard_inode, table, frame, enter;
    uint64_t piece_bytes;
    bool writes_ahead;
    /* It may be called meanwhile, so pauses have to be short and rare. */
    bool is_urgent;
    /* A process with more seccomp filters is left alone: a filter of its own may kill it for calls made in it. */
    unsigned filters;
};

/*
 * Moves the memory of one process, piece by piece, while it runs, and adds to `bytes` how much. Stops early when
 * `is_over` says so or a piece cannot be moved. Exits when a process could not be left as it was: the kernel then lets
 * it go. False when the burrow cannot be stopped.
 */
bool move_process(const struct burrow *burrow, pid_t process, bool (*is_over)(void), uint64_t *bytes);
