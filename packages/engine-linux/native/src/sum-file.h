#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How files are read. */
struct reading {
    /* From the disk, past the page cache: what the cache holds can be right while the disk is wrong. */
    bool is_direct;
    /* At most this much per second; 0: as fast as it goes. */
    uint64_t bytes_per_second;
    /* What was read so far. */
    uint64_t read_bytes;
};

/*
 * The checksum of a file (checksum.h), which is not followed if it is a link. False, with errno, when it cannot be
 * read.
 */
bool sum_file(int directory, const char *name, struct reading *reading, uint64_t *size, uint64_t *sum);
