#pragma once
/*
 * Memory as a wake leaves it, without CRIU: a private mapping of a sparse file below /.dormouse/memory, and the guard
 * told of it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL
#define FILE_BYTE 0xee /* what the memory file holds: no read may ever show it once it was discarded */
#define TAIL_PAGES 1024UL

/*
 * The engine's view of the table; the library's own header is not used, so that a change of the format is noticed
 * here.
 */
struct table {
    char magic[8];
    uint32_t version, capacity, count, reserved;
    struct { uint64_t start, end; } ranges[1022];
};

#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);        \
            _exit(1);                                                              \
        }                                                                          \
    } while (0)

/* A failure of the set-up is no verdict on the guard: its exit code is another. */
#define MUST(condition)                                                            \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "set-up: %s:%d: %s: %m\n", __FILE__, __LINE__, #condition); \
            _exit(2);                                                              \
        }                                                                          \
    } while (0)

/* Without the guard there is no table to write, and the program continues: the checks are to fail, not the set-up. */
static inline void tell_guard(const void *start, size_t bytes)
{
    struct table *table = dlsym(RTLD_DEFAULT, "dormouse_guard_table");
    if (table == NULL)
        return;
    MUST(memcmp(table->magic, "DORMGUAR", 8) == 0 && table->version == 1 && table->capacity == 1022);
    uint32_t at = table->count;
    while (at > 0 && table->ranges[at - 1].start > (uint64_t)start) {
        table->ranges[at] = table->ranges[at - 1];
        at--;
    }
    table->ranges[at].start = (uint64_t)start;
    table->ranges[at].end = (uint64_t)start + bytes;
    table->count++;
}

/* A file with some bytes of its own in front and a hole behind. */
static inline int memory_file(const char *path, size_t data_pages)
{
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0444);
    MUST(fd >= 0);
    char page[PAGE];
    memset(page, FILE_BYTE, PAGE);
    for (size_t i = 0; i < data_pages; i++)
        MUST(pwrite(fd, page, PAGE, (off_t)(i * PAGE)) == (ssize_t)PAGE);
    MUST(ftruncate(fd, (off_t)((data_pages + TAIL_PAGES) * PAGE)) == 0);
    close(fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    MUST(fd >= 0);
    return fd;
}

static inline unsigned char *map_at(void *address, size_t pages, int protection, int fd)
{
    int fixed = address ? MAP_FIXED : 0;
    unsigned char *memory = mmap(address, pages * PAGE, protection, MAP_PRIVATE | fixed, fd, 0);
    MUST(memory != MAP_FAILED);
    return memory;
}

static inline unsigned char *restored(size_t pages)
{
    static int files;
    char path[64];
    snprintf(path, sizeof path, "/.dormouse/memory/%d-%d", getpid(), files++);
    int fd = memory_file(path, pages);
    unsigned char *memory = map_at(NULL, pages, PROT_READ | PROT_WRITE, fd);
    close(fd);
    tell_guard(memory, pages * PAGE);
    return memory;
}

static inline int all(const unsigned char *memory, size_t bytes, unsigned char value)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != value)
            return 0;
    return 1;
}
