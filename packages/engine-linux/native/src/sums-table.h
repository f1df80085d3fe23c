#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known of one name of a tree. */
struct known {
    uint64_t path; /* hash of where it is */
    uint64_t sum;  /* hash of what it is */
};

/* One entry for every name of a tree. On disk: magic, count, entries by `path`, and a checksum of all that. */
struct sums_table {
    struct known *entries;
    size_t count;
    size_t room;
};

void add_known(struct sums_table *table, struct known known);
/* Writes it under a name of its own beside `path` and renames it. Sorts the table. */
void write_sums(struct sums_table *table, const char *path);
/* False when the file is not there, or is no whole table. */
bool read_sums(struct sums_table *table, const char *path);
/* The place of a path in a table that was read; -1 when it is not there. */
ptrdiff_t find_known(const struct sums_table *table, uint64_t path);
