#include "live-areas.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "report.h"

#define MEMORY_DIRECTORY "/.dormouse/memory/"
/*
 * Flags of a mapping that a move may drop or keeps: protection, accounting, soft-dirty, huge pages, core dumps. All
 * others (locked, growing, shared, huge page file, not or differently inherited, watched by userfaultfd, sealed,
 * device) mark memory that is left alone.
 */
static const char *const PLAIN[] = {"rd", "wr", "mr", "mw", "me", "ac", "nr", "sd", "hg", "nh", "dd"};

#define AREAS_MAX 8192

static struct area *add_area(struct areas *areas)
{
    if (areas->count == areas->capacity) {
        areas->capacity = areas->capacity ? areas->capacity * 2 : 1024;
        areas->items = realloc(areas->items, areas->capacity * sizeof(*areas->items));
        if (!areas->items)
            fail("memory");
    }
    return &areas->items[areas->count++];
}

static void parse_flags(struct area *area, char *text)
{
    area->is_plain = !area->has_key;
    for (char *saved, *flag = strtok_r(text, " \n", &saved); flag; flag = strtok_r(NULL, " \n", &saved)) {
        bool is_known = false;
        for (size_t i = 0; i < sizeof(PLAIN) / sizeof(*PLAIN); i++)
            is_known |= !strcmp(flag, PLAIN[i]);
        area->is_plain &= is_known;
        area->has_no_reserve |= !strcmp(flag, "nr");
    }
}

/* A line of smaps below that of the mapping. The flags come last. */
static void parse_detail(struct area *area, char *line)
{
    uint64_t value;
    if (sscanf(line, "Anonymous: %" SCNu64, &value) == 1 || sscanf(line, "Swap: %" SCNu64, &value) == 1)
        area->anonymous_bytes += value * 1024;
    else if (sscanf(line, "ProtectionKey: %" SCNu64, &value) == 1)
        area->has_key = value != 0;
    else if (!strncmp(line, "VmFlags:", 8))
        parse_flags(area, line + 8);
}

/* `7f00-7f01 rw-p 0000 fe:01 12   /path` */
static bool parse_line(struct area *area, const char *line)
{
    char protection[5];
    int path_at = 0;
    *area = (struct area){0};
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %n", &area->start, &area->end, protection,
               &area->file_offset, &area->inode, &path_at) < 5)
        return false;
    area->protection = (protection[0] == 'r' ? PROT_READ : 0) | (protection[1] == 'w' ? PROT_WRITE : 0) |
                       (protection[2] == 'x' ? PROT_EXEC : 0);
    area->is_shared = protection[3] != 'p';
    const char *path = line + path_at;
    area->is_memory_file = !strncmp(path, MEMORY_DIRECTORY, strlen(MEMORY_DIRECTORY));
    area->is_heap = !strncmp(path, "[heap]", 6);
    area->is_named = *path && *path != '\n' && !area->is_heap;
    return true;
}

bool read_areas(pid_t process, const char *file, struct areas *areas)
{
    char path[64], *line = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof(path), "/proc/%d/%s", process, file);
    FILE *text = fopen(path, "re");
    areas->count = 0;
    if (!text)
        return false;
    while (getline(&line, &capacity, text) > 0) {
        struct area area;
        if (line[0] >= 'A' && line[0] <= 'Z') {
            if (areas->count > 0)
                parse_detail(&areas->items[areas->count - 1], line);
        } else if (areas->count > AREAS_MAX) {
            break;
        } else if (parse_line(&area, line)) {
            *add_area(areas) = area;
        }
    }
    free(line);
    fclose(text);
    return areas->count > 0 && areas->count <= AREAS_MAX;
}

const struct area *area_at(const struct areas *areas, uint64_t address)
{
    for (size_t i = 0; i < areas->count; i++)
        if (areas->items[i].start <= address && address < areas->items[i].end)
            return &areas->items[i];
    return NULL;
}

uint64_t mapped_at(const struct areas *areas, uint64_t inode)
{
    for (size_t i = 0; i < areas->count; i++)
        if (areas->items[i].inode == inode && areas->items[i].file_offset == 0 && !areas->items[i].is_shared)
            return areas->items[i].start;
    return 0;
}

bool is_code_of(const struct areas *areas, uint64_t inode, uint64_t address)
{
    const struct area *area = area_at(areas, address);
    return area && area->inode == inode && area->protection & PROT_EXEC;
}

bool is_movable(const struct area *area)
{
    if (area->is_shared || area->protection & PROT_EXEC || !(area->protection & PROT_READ))
        return false;
    return area->is_memory_file || (area->inode == 0 && !area->is_named);
}
