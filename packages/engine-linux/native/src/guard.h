#pragma once

#include <stdint.h>

/*
 * After a wake, parts of what a program knows as private anonymous memory are private mappings of the files in this
 * directory: the same bytes, copied on write. The guard hides the few places where the kernel treats the two
 * differently.
 */
#define MEMORY_DIRECTORY "/.dormouse/memory/"

#define PAGE_BYTES 4096UL
#define GUARD_MAGIC 0x524155474d524f44ULL /* the bytes "DORMGUAR" */
#define GUARD_RANGES 1022

struct guard_range {
    uint64_t start, end;
};

/*
 * Part of the image format: the engine finds this symbol in a process image and writes the ranges that will be mapped
 * from memory files. A process that never slept has none. Ranges are sorted and do not overlap; adjacent ones may be
 * merged.
 */
struct guard_table {
    uint64_t magic;
    uint32_t version, capacity, count, reserved;
    struct guard_range ranges[GUARD_RANGES];
    /* The kernel's device number; 0 until the guard has asked. The engine sets it to 0 whenever it changes the table. */
    uint64_t root_device;
};

extern struct guard_table dormouse_guard_table __attribute__((visibility("protected")));

/* One mapping, most often of a memory file, cut to the range it was searched in. */
struct memory_mapping {
    uintptr_t start, end;
    uint64_t file_offset; /* of start */
    int protection, shared;
    char path[256]; /* without a slash in front: no file's */
};

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

/* The kernel's result as libc returns it. */
long to_libc(long result);

enum search { FOUND, NONE, BLIND };

/* Ask the kernel: the table cannot know what was unmapped, moved or mapped since. */
int open_maps(void);
enum search find_memory_mapping(int maps, uintptr_t start, uintptr_t end, struct memory_mapping *found);
enum search find_any_mapping(int maps, uintptr_t start, uintptr_t end, struct memory_mapping *found);
int is_memory_file(const char *path);

/* What madvise and mremap do in a process that has slept. Results are the kernel's: negative errors. */
long advise_restored(uintptr_t start, uintptr_t length, int advice);
extern int restored_memory_moved;
struct remap {
    uintptr_t old, old_length, new_length, fixed;
    int flags;
};
long remap_restored(struct remap wanted);
long remap_pieces(struct remap wanted);

/* The system calls that tell of a device, with the sandbox's number for its root. */
int is_stat(long number);
long stat_by_number(long number, long a, long b, long c, long d, long e);

int is_locked(uintptr_t page);
/* Two ways to make zeros of a mapping: other pages in its place (0 or an error), or the bytes written. */
long map_anonymous(const struct memory_mapping *piece, int locked);
void zero_by_hand(uintptr_t start, uintptr_t end);

static inline uintptr_t page_up(uintptr_t length)
{
    return (length + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}
