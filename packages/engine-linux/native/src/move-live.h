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
};

/*
 * Moves the memory of one process, piece by piece, while it runs. Returns how many bytes, and stops early when
 * `is_over`
 * says so or a piece cannot be moved. Exits when a process could not be left as it was: the kernel then lets it go.
 */
uint64_t move_process(const struct burrow *burrow, pid_t process, bool (*is_over)(void));
