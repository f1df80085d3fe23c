#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "read-ahead.h"

/* As in linux/fs.h since 6.7. */
struct page_region {
    uint64_t start, end, categories;
};
struct scan_argument {
    uint64_t size, flags, start, end, walk_end, regions, regions_max, pages_max;
    uint64_t inverted, mask, any_of, returned;
};
#define SCAN_PAGES _IOWR('f', 16, struct scan_argument)
#define IS_FILE (1u << 2)
#define IS_PRESENT (1u << 3)

#define ADDRESS_MAX 0x7ffffffff000u
#define REGIONS 512
/* Reading so many bytes more is faster than another request to the disk. */
#define GAP_BYTES (64u << 10)
#define LINE_MAX_BYTES 64

/* The last of the pids that the process has in nested namespaces; 0 if it has ended. */
static int inner_pid(pid_t pid)
{
    char path[64], line[256];
    int found = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof(line), status)) {
        if (strncmp(line, "NSpid:", 6))
            continue;
        const char *last = strrchr(line, '\t');
        if (last)
            sscanf(last, "%d", &found);
        break;
    }
    if (status)
        fclose(status);
    return found;
}

/* A text that grows, with the lines of one process. */
struct lines {
    int pid;
    const char *ending;
    char *text;
    size_t length, capacity;
};

static void add_line(struct lines *lines, struct page_region region)
{
    if (region.start == region.end || lines->capacity - lines->length < LINE_MAX_BYTES)
        return;
    char *at = lines->text + lines->length;
    lines->length += (size_t)snprintf(at, LINE_MAX_BYTES, "%d %lu %lu%s\n", lines->pid, region.start, region.end, lines->ending);
}

/* Adds the ranges whose pages have all of `mask`, except that those in `inverted` are not set. */
static void add_ranges(int fd, uint64_t mask, uint64_t inverted, struct lines *lines)
{
    struct page_region regions[REGIONS], open_region = {0};
    struct scan_argument scan = {
        .size = sizeof(scan), .end = ADDRESS_MAX, .regions = (uintptr_t)regions, .regions_max = REGIONS,
        .mask = mask, .inverted = inverted, .returned = IS_PRESENT,
    };
    while (scan.start < scan.end) {
        int count = ioctl(fd, SCAN_PAGES, &scan);
        if (count < 0)
            break;
        for (int i = 0; i < count; i++) {
            if (regions[i].start - open_region.end <= GAP_BYTES) {
                open_region.end = regions[i].end;
            } else {
                add_line(lines, open_region);
                open_region = regions[i];
            }
        }
        if (scan.walk_end <= scan.start)
            break;
        scan.start = scan.walk_end;
    }
    add_line(lines, open_region);
}

size_t list_touched(pid_t pid, char *text, size_t length, size_t capacity)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct lines lines = {.pid = inner_pid(pid), .ending = " w", .text = text, .length = length, .capacity = capacity};
    if (fd != -1 && lines.pid > 0) {
        add_ranges(fd, IS_PRESENT | IS_FILE, IS_FILE, &lines);
        lines.ending = "";
        add_ranges(fd, IS_PRESENT, 0, &lines);
    }
    if (fd != -1)
        close(fd);
    return lines.length;
}
