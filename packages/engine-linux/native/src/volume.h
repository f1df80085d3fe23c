#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Changes of a volume. The caller is confined to the volume: its root directory is the volume, so paths that follow links
 * stay in it. A failure prints `error ERRNO` and ends the process.
 */

/*
 * Reads standard input into a file. Other processes see the old file or the whole new one; with `appends`, whole chunks
 * at its end. `mode` is -1 for that of the file before, or 0644. More than `bytes_max` is refused with EDQUOT.
 */
void write_path(const char *path, int mode, bool makes_parents, bool appends, uint64_t bytes_max);
void make_directory(const char *path, int mode, bool makes_parents);
void remove_path(const char *path, bool is_recursive);
void move_path(const char *from, const char *to, bool overwrites);
/*
 * Copies everything to the empty directory `target`: owners, modes, times, links, holes and user attributes. Files that
 * change meanwhile are copied as they are at that moment.
 */
void clone_volume(int target);
/* Puts everything on disk: of `directory`, or of the volume with AT_FDCWD. */
void sync_volume(int directory);
