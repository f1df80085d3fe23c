#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One mapping of a process. */
struct area {
    uint64_t start, end, file_offset, inode;
    int protection;
    bool is_shared, is_memory_file, is_heap, is_named;
    /* From smaps only: its flags are all of those that are known to survive a move, and it has no protection key. */
    bool is_plain, has_no_reserve, has_key;
    /* From smaps only: memory that is not that of a file. */
    uint64_t anonymous_bytes;
};

struct areas {
    struct area *items;
    size_t count, capacity;
};

/*
 * Reads maps, which is fast, or smaps, which visits every page. False when the process has ended, or has so many
 * mappings that looking at them would make the pauses long.
 */
bool read_areas(pid_t process, const char *file, struct areas *areas);
/* The mapping that contains an address, or NULL. */
const struct area *area_at(const struct areas *areas, uint64_t address);
/* The address at which the file with this inode is mapped from its start; 0 when it is not. */
uint64_t mapped_at(const struct areas *areas, uint64_t inode);
/* Whether the address is code of the file with this inode. */
bool is_code_of(const struct areas *areas, uint64_t inode, uint64_t address);
/* Private memory without a file, or of a memory file. */
bool is_movable(const struct area *area);
