#ifndef DORMOUSE_VOLUME_RECORDS_H
#define DORMOUSE_VOLUME_RECORDS_H

#include <stdint.h>

#include "volume-locks.h"

/*
 * The saved state of a volume. Records, by their first byte: `N` a node, and its name; `G` the content of an open file
 * without a name; `P` that of an open program, which is used if others have changed the program; `H` an open file; `L` a
 * lock; `S` a slot; `E` the end.
 */

#define FIRST_LINE "dormouse-volume 1\n"
/* The content of open files without a name is in memory after the sleep. */
#define NAMELESS_MAX_BYTES (64 << 20)
/* Programs and libraries beyond this are not copied: a process that runs one that was replaced may crash. */
#define PROGRAMS_MAX_BYTES (64 << 20)

struct node_record {
    uint64_t id, parent, inode, lookups;
    int64_t born;
    uint32_t is_gone, name_bytes;
};

struct ghost_record {
    uint64_t node, size;
    /* Nanoseconds. */
    int64_t modified;
    uint32_t mode, uid, gid, unused;
};

struct handle_record {
    uint64_t id, node;
    uint32_t flags, mode;
    int32_t flock;
    uint32_t is_directory;
};

struct lock_record {
    uint64_t node, owner;
    struct range range;
};

struct end_record {
    uint64_t next_node, next_handle;
};

#endif
