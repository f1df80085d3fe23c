#include "memory-map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int malformed(FILE *file)
{
    fclose(file);
    errno = EINVAL;
    return -1;
}

int read_memory_map(const char *path, struct memory_map *map)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    *map = (struct memory_map){.extents = calloc(MAP_EXTENTS_MAX, sizeof(struct extent))};
    if (!map->extents)
        return malformed(file);
    char line[4096];
    uint64_t end = 0;
    while (fgets(line, sizeof(line), file)) {
        size_t length = strcspn(line, "\n");
        if (line[length] != '\n')
            return malformed(file);
        line[length] = 0;
        if (strncmp(line, "file ", 5) == 0) {
            if (map->file_count == MAP_FILES_MAX || !(map->files[map->file_count++] = strdup(line + 5)))
                return malformed(file);
            continue;
        }
        char *rest;
        struct extent extent = {.offset = strtoull(line, &rest, 16)};
        extent.length = strtoull(rest, &rest, 16);
        extent.file = (uint32_t)strtoul(rest, &rest, 16);
        if (*rest || extent.offset < end || extent.length == 0 || extent.file > map->file_count || map->extent_count == MAP_EXTENTS_MAX)
            return malformed(file);
        end = extent.offset + extent.length;
        map->extents[map->extent_count++] = extent;
    }
    fclose(file);
    return 0;
}
