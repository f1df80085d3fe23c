#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define PAGE_BYTES 4096u

/*
 * Memory files whose content is still on its way to this host. The engine writes pages into the file, then changes their
 * bytes in the map, a sparse file: holes of the memory file are holes there. Files without a map are complete.
 */
enum page_state { PAGE_THERE = 0, PAGE_MISSING = 1, PAGE_LOST = 2 };

struct arriving_file {
    char *name;
    int fd;
    struct stat stat;
    uint64_t pages;
    /* One byte for each page, shared with the engine. NULL: the file is complete. */
    const volatile uint8_t *map;
};

struct arriving_files {
    struct arriving_file *list;
    uint32_t count;
};

/* Opens every file in `directory`, and its map in `maps` if there is one. */
struct arriving_files open_arriving(const char *directory, const char *maps);
/* The worst state of the pages that hold these bytes. */
enum page_state state_of(const struct arriving_files *files, uint32_t index, uint64_t offset, uint64_t length);
