#include "live-table.h"

#include <string.h>

#include "guard-table.h"
#include "live-calls.h"

/* The sandbox may have written anything there. */
static bool is_sound(const struct guard_table *table)
{
    if (table->magic != GUARD_MAGIC || table->version != 1 || table->count > GUARD_RANGES)
        return false;
    for (uint32_t i = 0; i < table->count; i++)
        if (table->ranges[i].start >= table->ranges[i].end ||
            (i > 0 && table->ranges[i].start < table->ranges[i - 1].end))
            return false;
    return true;
}

/* Merges the range with those that touch it. */
static bool insert(struct guard_table *table, uint64_t start, uint64_t end)
{
    uint32_t from = 0;
    while (from < table->count && table->ranges[from].end < start)
        from++;
    uint32_t to = from;
    for (; to < table->count && table->ranges[to].start <= end; to++) {
        if (table->ranges[to].start < start)
            start = table->ranges[to].start;
        if (table->ranges[to].end > end)
            end = table->ranges[to].end;
    }
    if (from == to && table->count == GUARD_RANGES)
        return false;
    memmove(&table->ranges[from + 1], &table->ranges[to], (table->count - to) * sizeof(*table->ranges));
    table->ranges[from] = (struct guard_range){.start = start, .end = end};
    table->count = table->count - (to - from) + 1;
    return true;
}

bool guard_range(pid_t process, uint64_t address, uint64_t start, uint64_t end)
{
    struct guard_table table;
    if (!read_inside(process, address, &table, sizeof(table)) || !is_sound(&table) || !insert(&table, start, end))
        return false;
    return write_inside(process, address, &table, sizeof(table));
}
