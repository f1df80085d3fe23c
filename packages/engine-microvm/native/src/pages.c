/*
 * Saves the memory of a guest: dormouse-vm-pages save PID ADDRESS BYTES PARENT_MAP|- PAGES MAP NAME TOUCHED
 * Writes pages that changed since the parent map into the sparse file PAGES, and into MAP which file has what; NAME is
 * the path of PAGES there. Writes into TOUCHED which parts of files the guest has used: lines `m FILE`, each followed by
 * lines `OFFSET LENGTH`. Prints the bytes written and a checksum.
 * dormouse-vm-pages check PAGES MAP NAME: prints the same from the files.
 * dormouse-vm-pages clock: prints the frequency of the time stamp counter in kHz.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "memory-map.h"

#define PAGE 4096u
/* Changed pages are saved with their neighbours: a process may have 65,530 mappings, and each extent is one. */
#define GRANULE (8 * PAGE)
/* With more extents than this all of the memory is written anew. */
#define EXTENTS_GOAL 16000
#define PRESENT (1ull << 63)
#define SWAPPED (1ull << 62)
#define FROM_FILE (1ull << 61)

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(errno == ENOSPC ? 28 : 1);
}

static uint64_t sum = 0x9e3779b97f4a7c15ull;

static void add_to_sum(uint64_t offset, const unsigned char *bytes, size_t count)
{
    sum = (sum ^ offset) * 0xff51afd7ed558ccdull;
    for (size_t i = 0; i < count; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        sum = (sum ^ word) * 0xff51afd7ed558ccdull;
        sum ^= sum >> 29;
    }
}

static bool is_zero(const unsigned char *bytes, size_t count)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

struct saving {
    int memory, pagemap, pages;
    uint64_t address, bytes, written;
    const struct memory_map *parent;
    /* The file of every granule in the new map. */
    uint32_t *files;
    uint32_t own;
    /* Whether a granule has pages that QEMU has mapped or written. */
    bool *touched;
};

static void read_fully(int fd, void *into, size_t count, uint64_t offset, const char *what)
{
    for (size_t done = 0; done < count;) {
        ssize_t one = pread(fd, (char *)into + done, count - done, (off_t)(offset + done));
        if (one <= 0) {
            if (one == 0)
                errno = EIO;
            fail(what);
        }
        done += (size_t)one;
    }
}

static void take_parent(struct saving *saving)
{
    for (size_t i = 0; saving->parent && i < saving->parent->extent_count; i++) {
        const struct extent *extent = &saving->parent->extents[i];
        for (uint64_t at = extent->offset; at < extent->offset + extent->length && at < saving->bytes; at += GRANULE)
            saving->files[at / GRANULE] = extent->file;
    }
}

static void save_granule(struct saving *saving, uint64_t offset)
{
    unsigned char buffer[GRANULE];
    size_t count = saving->bytes - offset < GRANULE ? saving->bytes - offset : GRANULE;
    read_fully(saving->memory, buffer, count, saving->address + offset, "memory");
    if (is_zero(buffer, count)) {
        saving->files[offset / GRANULE] = 0;
        return;
    }
    for (size_t done = 0; done < count;) {
        ssize_t one = pwrite(saving->pages, buffer + done, count - done, (off_t)(offset + done));
        if (one == -1)
            fail("pages");
        done += (size_t)one;
    }
    add_to_sum(offset, buffer, count);
    saving->written += count;
    saving->files[offset / GRANULE] = saving->own;
}

static bool is_touched(const uint64_t *entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (entries[i] & (PRESENT | SWAPPED))
            return true;
    return false;
}

static bool has_changed(const uint64_t *entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (entries[i] & (PRESENT | SWAPPED) && !(entries[i] & FROM_FILE))
            return true;
    return false;
}

static void save_changed(struct saving *saving, bool all)
{
    static uint64_t entries[8192];
    const size_t pages_per_granule = GRANULE / PAGE;
    for (uint64_t offset = 0; offset < saving->bytes; offset += sizeof(entries) / 8 * PAGE) {
        uint64_t left = (saving->bytes - offset) / PAGE;
        size_t count = left < sizeof(entries) / 8 ? left : sizeof(entries) / 8;
        read_fully(saving->pagemap, entries, count * 8, (saving->address + offset) / PAGE * 8, "pagemap");
        for (size_t page = 0; page < count; page += pages_per_granule) {
            uint64_t at = offset + page * PAGE;
            saving->touched[at / GRANULE] = is_touched(entries + page, pages_per_granule);
            bool is_parents = saving->files[at / GRANULE] != 0;
            if (has_changed(entries + page, pages_per_granule) || (all && is_parents))
                save_granule(saving, at);
        }
    }
}

static size_t count_extents(const struct saving *saving)
{
    size_t extents = 0;
    for (uint64_t i = 0; i < saving->bytes / GRANULE; i++)
        if (saving->files[i] != 0 && (i == 0 || saving->files[i] != saving->files[i - 1]))
            extents++;
    return extents;
}

static void write_map(const struct saving *saving, const char *path, const char *name)
{
    FILE *map = fopen(path, "wxe");
    if (!map)
        fail(path);
    for (size_t i = 0; saving->parent && i < saving->parent->file_count; i++)
        fprintf(map, "file %s\n", saving->parent->files[i]);
    fprintf(map, "file %s\n", name);
    uint64_t granules = saving->bytes / GRANULE;
    for (uint64_t start = 0, end; start < granules; start = end) {
        for (end = start + 1; end < granules && saving->files[end] == saving->files[start];)
            end++;
        if (saving->files[start] != 0)
            fprintf(map, "%" PRIx64 " %" PRIx64 " %x\n", start * GRANULE, (end - start) * GRANULE, saving->files[start]);
    }
    if (fflush(map) == EOF || fsync(fileno(map)) == -1 || fclose(map) == EOF)
        fail(path);
}

/* Only a hint: a later wake on another host fetches these parts first. */
static void write_touched(const struct saving *saving, const char *path, const char *name)
{
    FILE *list = fopen(path, "wxe");
    if (!list)
        fail(path);
    uint64_t granules = saving->bytes / GRANULE;
    uint32_t last = 0;
    for (uint64_t start = 0, end; start < granules; start = end) {
        uint32_t file = saving->files[start];
        for (end = start + 1; end < granules && saving->files[end] == file && saving->touched[end] == saving->touched[start];)
            end++;
        if (file == 0 || !saving->touched[start])
            continue;
        const char *at = saving->parent && file != saving->own ? saving->parent->files[file - 1] : name;
        const char *slash = strrchr(at, '/');
        if (file != last)
            fprintf(list, "m %s\n", slash ? slash + 1 : at);
        last = file;
        fprintf(list, "%" PRIu64 " %" PRIu64 "\n", start * GRANULE, (end - start) * GRANULE);
    }
    if (fclose(list) == EOF)
        fail(path);
}

static int save(char **argv)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", atoi(argv[2]));
    struct saving saving = {.memory = open(path, O_RDONLY | O_CLOEXEC), .address = strtoull(argv[3], NULL, 16), .bytes = strtoull(argv[4], NULL, 10)};
    snprintf(path, sizeof(path), "/proc/%d/pagemap", atoi(argv[2]));
    saving.pagemap = open(path, O_RDONLY | O_CLOEXEC);
    saving.pages = open(argv[6], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (saving.memory == -1 || saving.pagemap == -1 || saving.pages == -1 || ftruncate(saving.pages, (off_t)saving.bytes) == -1)
        fail("opening");
    struct memory_map parent;
    if (strcmp(argv[5], "-") != 0) {
        if (read_memory_map(argv[5], &parent) == -1)
            fail(argv[5]);
        saving.parent = &parent;
    }
    saving.own = saving.parent ? (uint32_t)parent.file_count + 1 : 1;
    saving.files = calloc(saving.bytes / GRANULE + 1, sizeof(*saving.files));
    saving.touched = calloc(saving.bytes / GRANULE + 1, sizeof(*saving.touched));
    if (!saving.files || !saving.touched || saving.bytes % GRANULE != 0)
        fail("size");
    take_parent(&saving);
    save_changed(&saving, false);
    if (count_extents(&saving) > EXTENTS_GOAL || saving.own >= MAP_FILES_MAX) {
        sum = 0x9e3779b97f4a7c15ull;
        saving.written = 0;
        save_changed(&saving, true);
        saving.parent = NULL;
        for (uint64_t i = 0; i < saving.bytes / GRANULE; i++)
            saving.files[i] = saving.files[i] == 0 ? 0 : 1;
    }
    if (fsync(saving.pages) == -1)
        fail("pages");
    write_map(&saving, argv[7], argv[8]);
    write_touched(&saving, argv[9], argv[8]);
    printf("%" PRIu64 " %016" PRIx64 "\n", saving.written, sum);
    return 0;
}

/* Extents of the file in its own map cover everything that was written, in the same order. */
static int check(char **argv)
{
    struct memory_map map;
    if (read_memory_map(argv[3], &map) == -1)
        fail(argv[3]);
    int pages = open(argv[2], O_RDONLY | O_CLOEXEC);
    if (pages == -1)
        fail(argv[2]);
    uint64_t bytes = 0;
    static unsigned char buffer[GRANULE];
    for (size_t i = 0; i < map.extent_count; i++) {
        struct extent *extent = &map.extents[i];
        if (extent->file == 0 || strcmp(map.files[extent->file - 1], argv[4]) != 0)
            continue;
        for (uint64_t at = extent->offset; at < extent->offset + extent->length; at += GRANULE, bytes += GRANULE) {
            read_fully(pages, buffer, GRANULE, at, argv[2]);
            add_to_sum(at, buffer, GRANULE);
        }
    }
    printf("%" PRIu64 " %016" PRIx64 "\n", bytes, sum);
    return 0;
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int measure_clock(void)
{
    double began = now_ns();
    uint64_t first = __rdtsc();
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    uint64_t ticks = __rdtsc() - first;
    printf("%.0f\n", (double)ticks / (now_ns() - began) * 1e6);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 10 && strcmp(argv[1], "save") == 0)
        return save(argv);
    if (argc == 5 && strcmp(argv[1], "check") == 0)
        return check(argv);
    if (argc == 2 && strcmp(argv[1], "clock") == 0)
        return measure_clock();
    fprintf(stderr, "usage: dormouse-vm-pages save|check|clock …\n");
    return 2;
}
