#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "live-areas.h"

#define PAGE_BYTES 4096u

/* A range of one mapping, to be moved in one step. */
struct piece {
    uint64_t start, end;
    /* As the mapping was when the piece was planned. */
    int protection;
    bool is_memory_file, has_no_reserve;
};

struct pieces {
    struct piece *items;
    size_t count, capacity;
};

/* One entry of /proc/PID/pagemap. */
static inline bool is_present(uint64_t entry)
{
    return entry >> 63 & 1 || entry >> 62 & 1; /* in memory or in swap */
}

static inline bool is_of_file(uint64_t entry)
{
    return entry >> 61 & 1;
}

/* Reads entries from the pagemap of a process. False when it has ended. */
bool read_pagemap(int pagemap, uint64_t start, uint64_t end, uint64_t *entries);

/*
 * Cuts the memory of a running process that is worth moving into pieces of about `piece_bytes`: anonymous memory, and
 * parts of memory files that the process has changed. What it says may be out of date when a piece is moved.
 */
void plan_pieces(pid_t process, struct areas *areas, uint64_t piece_bytes, struct pieces *pieces,
                 bool (*is_over)(void));
