#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The memory file that the memory of one process moves to. Every part of it is written at most once. */
struct live_file {
    int fd;
    char name[128];
    uint64_t checksum, cursor, moved_bytes;
    /* A write failed and could not be undone, so the checksum is not known. */
    bool is_torn;
    /* A process has mapped a part of it. */
    bool is_mapped;
    /* The disk starts writing at once. */
    bool writes_ahead;
    /* The addresses that follow the last piece, while they may follow it in the file too. */
    uint64_t next_address, next_offset, room_end;
};

bool open_live_file(struct live_file *file, const char *directory, const char *name, uid_t owner);
/* Where in the file the range goes. `area_end` is the end of its mapping. 0 when there is no more room. */
uint64_t place_in_file(struct live_file *file, uint64_t start, uint64_t end, uint64_t area_end);
/* Writes pages that are not zero. False when the disk is full. */
bool write_to_file(struct live_file *file, const char *pages, uint64_t length, uint64_t offset);
/* Makes a range a hole again after a failed write. */
void discard_in_file(struct live_file *file, uint64_t length, uint64_t offset);
/* Records the checksum in the file, if it is known. */
void seal_live_file(struct live_file *file);
/* Closes the file, and removes it if no process has mapped it. */
void close_live_file(struct live_file *file, const char *directory);
