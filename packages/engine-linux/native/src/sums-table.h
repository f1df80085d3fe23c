#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The recorded hashes of one name of a tree. */
struct entry_sums {
    uint64_t path; /* hash of its path */
    uint64_t sum;  /* hash of everything about it */
};

/* One entry for every name of a tree. On disk: magic, count, entries sorted by `path`, and a checksum of all that. */
struct sums_table {
    struct entry_sums *entries;
    size_t count;
    size_t room;
};

void add_sums(struct sums_table *table, struct entry_sums sums);
/* Sorts the table, writes it to a temporary file beside `path` and renames that. */
void write_sums(struct sums_table *table, const char *path);
/* Returns false when the file does not exist or is damaged. */
bool read_sums(struct sums_table *table, const char *path);
/* Returns the index of a path in a table that was read, or -1. */
ptrdiff_t find_sums(const struct sums_table *table, uint64_t path);
