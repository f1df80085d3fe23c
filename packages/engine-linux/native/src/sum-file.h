#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How files are read. */
struct reading {
    /* Read the disk, not the page cache: the cache can be right while the disk is wrong. */
    bool is_direct;
    /* 0: no limit. */
    uint64_t bytes_per_second;
    /* Bytes read so far. */
    uint64_t read_bytes;
};

/*
 * Computes the checksum of a file (checksum.h). Does not follow links. Returns false with errno set when the file
 * cannot be read.
 */
bool sum_file(int directory, const char *name, struct reading *reading, uint64_t *size, uint64_t *sum);
