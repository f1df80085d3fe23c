#ifndef DORMOUSE_MEMORY_MAP_H
#define DORMOUSE_MEMORY_MAP_H

#include <stddef.h>
#include <stdint.h>

/*
 * Which file has which part of a guest's memory. A text: `file PATH` for every file, numbered from 1, then
 * `OFFSET LENGTH FILE` in hexadecimal, ascending and without overlap; the offset is the same in the file. What no line
 * names is zero, and so is what names file 0.
 */
struct extent {
    uint64_t offset, length;
    uint32_t file;
};

#define MAP_FILES_MAX 512
#define MAP_EXTENTS_MAX 40000

struct memory_map {
    char *files[MAP_FILES_MAX];
    size_t file_count;
    struct extent *extents;
    size_t extent_count;
};

/* Returns 0, or -1 when it cannot be read or is malformed. */
int read_memory_map(const char *path, struct memory_map *map);

#endif
