#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "live-file.h"

/* Pages of a stopped process on their way into its memory file. */
struct live_copy {
    pid_t process;
    int pagemap;
    char *buffer;
    uint64_t buffer_bytes, used_bytes;
    struct copied {
        uint64_t at, length, offset;
    } *runs;
    size_t count, capacity;
};

void open_live_copy(struct live_copy *copy, pid_t process, uint64_t buffer_bytes);
void close_live_copy(struct live_copy *copy);
/*
 * Copies a range that will be at `offset` of the file: pages that are there, or all of them if `is_whole`. False
 * when it
 * does not fit or the process has ended.
 */
bool copy_range(struct live_copy *copy, uint64_t start, uint64_t end, uint64_t offset, bool is_whole);
/* Writes what was copied. False when the disk is full; then nothing of it is in the file, and the copy is empty. */
bool write_copy(struct live_copy *copy, struct live_file *file);
/* Adds what was written to the checksum of the file, and forgets it. The process may run meanwhile. */
void finish_copy(struct live_copy *copy, struct live_file *file);
