#pragma once

#include <stdint.h>

#define GUARD_MAGIC 0x524155474d524f44ULL /* the bytes "DORMGUAR" */
#define GUARD_RANGES 1022

struct guard_range {
    uint64_t start, end;
};

/*
 * Part of the image format: the engine finds this symbol in a process image and writes the ranges that will be mapped
 * from memory files. In a process that never slept the table is empty. Ranges are sorted and do not overlap; adjacent
 * ones may be merged.
 */
struct guard_table {
    uint64_t magic;
    uint32_t version, capacity, count, reserved;
    struct guard_range ranges[GUARD_RANGES];
    /*
     * The kernel's device number of the root; 0 until the guard has asked. The engine resets it to 0 when it changes
     * the table.
     */
    uint64_t root_device;
};
