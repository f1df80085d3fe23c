#pragma once

#include <stdint.h>

#include "guard-table.h"

/*
 * After a wake, parts of a program's private anonymous memory are private mappings of the files in this directory: the
 * same bytes, copied on write. The guard hides the few differences in how the kernel treats the two.
 */
#define MEMORY_DIRECTORY "/.dormouse/memory/"

#define PAGE_BYTES 4096UL
extern struct guard_table dormouse_guard_table __attribute__((visibility("protected")));

/* One mapping, usually of a memory file, cut to the range that was searched. */
struct memory_mapping {
    uintptr_t start, end;
    uint64_t file_offset; /* of start */
    int protection, shared;
    char path[256]; /* does not start with a slash if no file is mapped */
};

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

/* Converts the kernel's result to libc's convention. */
long to_libc(long result);

enum search { FOUND, NONE, BLIND };

/* These ask the kernel: the table does not know what was unmapped, moved or mapped since the wake. */
int open_maps(void);
enum search find_memory_mapping(int maps, uintptr_t start, uintptr_t end, struct memory_mapping *found);
enum search find_any_mapping(int maps, uintptr_t start, uintptr_t end, struct memory_mapping *found);
int is_memory_file(const char *path);

/* madvise and mremap for a process that has slept. Like the kernel, they return negative errors. */
long advise_restored(uintptr_t start, uintptr_t length, int advice);
extern int restored_memory_moved;
struct remap {
    uintptr_t old, old_length, new_length, fixed;
    int flags;
};
long remap_restored(struct remap wanted);
long remap_pieces(struct remap wanted);

/* The system calls that return a device. The root of the sandbox gets its fixed number. */
int is_stat(long number);
long stat_by_number(long number, long a, long b, long c, long d, long e);

/* The system calls that describe the machine. They show the limits of the sandbox. */
int is_limits(long number);
long limits_by_number(long number, long a, long b, long c);

int is_locked(uintptr_t page);
/* Two ways to zero a mapping: replace its pages (returns 0 or an error), or write zeros. */
long map_anonymous(const struct memory_mapping *piece, int locked);
void zero_by_hand(uintptr_t start, uintptr_t end);

static inline uintptr_t page_up(uintptr_t length)
{
    return (length + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}
