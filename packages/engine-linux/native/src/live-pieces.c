#include "live-pieces.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "report.h"

/* Less is copied faster by the dump than it is moved. */
#define AREA_MIN_PAGES 64
/* A mapping with less content than one page in so many is a reservation: looking for its pages takes too long. */
#define AREA_PAGES_PER_PRESENT 64
/*
 * Pages of one look at the pagemap, and the largest piece: bounds how long a look takes while the process is stopped.
 */
#define SPAN_PAGES 16384u
/* Memory of a file is moved in whole blocks of which at least this much has changed. */
#define BLOCK_PAGES 512u
#define BLOCK_CHANGED_PAGES 64u

bool read_pagemap(int pagemap, uint64_t start, uint64_t end, uint64_t *entries)
{
    size_t bytes = (end - start) / PAGE_BYTES * sizeof(*entries);
    return pread(pagemap, entries, bytes, (off_t)(start / PAGE_BYTES * sizeof(*entries))) == (ssize_t)bytes;
}

static void add_piece(struct pieces *pieces, const struct area *area, uint64_t start, uint64_t end)
{
    if (pieces->count == pieces->capacity) {
        pieces->capacity = pieces->capacity ? pieces->capacity * 2 : 256;
        pieces->items = realloc(pieces->items, pieces->capacity * sizeof(*pieces->items));
        if (!pieces->items)
            fail("memory");
    }
    pieces->items[pieces->count++] = (struct piece){
        .start = start,
        .end = end,
        .protection = area->protection,
        .is_memory_file = area->is_memory_file,
        .has_no_reserve = area->has_no_reserve,
    };
}

static void plan_anonymous(int pagemap, const struct area *area, uint64_t piece_bytes, struct pieces *pieces)
{
    static uint64_t entries[SPAN_PAGES];
    size_t first = pieces->count;
    uint64_t start = area->start, present = 0, total = 0;
    for (uint64_t at = area->start; at < area->end;) {
        uint64_t stop = area->end - at > SPAN_PAGES * PAGE_BYTES ? at + SPAN_PAGES * PAGE_BYTES : area->end;
        if (!read_pagemap(pagemap, at, stop, entries))
            break;
        for (uint64_t page = 0; at < stop; page++, at += PAGE_BYTES) {
            present += is_present(entries[page]);
            bool is_full = present * PAGE_BYTES >= piece_bytes || at + PAGE_BYTES - start >= SPAN_PAGES * PAGE_BYTES;
            if (!is_full && at + PAGE_BYTES < area->end)
                continue;
            if (present > 0)
                add_piece(pieces, area, start, at + PAGE_BYTES);
            total += present;
            start = at + PAGE_BYTES;
            present = 0;
        }
    }
    if (total < AREA_MIN_PAGES)
        pieces->count = first;
}

static void plan_changed(int pagemap, const struct area *area, uint64_t piece_bytes, struct pieces *pieces)
{
    uint64_t entries[BLOCK_PAGES], start = area->start;
    bool is_open = false;
    for (uint64_t at = area->start; at < area->end;) {
        uint64_t next = at - at % (BLOCK_PAGES * PAGE_BYTES) + BLOCK_PAGES * PAGE_BYTES, changed = 0;
        uint64_t stop = next < area->end ? next : area->end;
        if (!read_pagemap(pagemap, at, stop, entries))
            return;
        for (uint64_t page = 0; page < (stop - at) / PAGE_BYTES; page++)
            changed += is_present(entries[page]) && !is_of_file(entries[page]);
        bool is_chosen = changed >= BLOCK_CHANGED_PAGES;
        if (is_open && (!is_chosen || stop - start > piece_bytes)) {
            add_piece(pieces, area, start, at);
            is_open = false;
        }
        if (is_chosen && !is_open) {
            start = at;
            is_open = true;
        }
        at = stop;
    }
    if (is_open)
        add_piece(pieces, area, start, area->end);
}

void plan_pieces(pid_t process, struct areas *areas, uint64_t piece_bytes, struct pieces *pieces,
                 bool (*is_over)(void))
{
    char path[64];
    pieces->count = 0;
    if (!read_areas(process, "smaps", areas))
        return;
    snprintf(path, sizeof(path), "/proc/%d/pagemap", process);
    int pagemap = open(path, O_RDONLY | O_CLOEXEC);
    if (pagemap == -1)
        return;
    for (size_t i = 0; i < areas->count && !is_over(); i++) {
        const struct area *area = &areas->items[i];
        if (!area->is_plain || !is_movable(area) || area->anonymous_bytes < AREA_MIN_PAGES * PAGE_BYTES ||
            (area->end - area->start) / AREA_PAGES_PER_PRESENT > area->anonymous_bytes)
            continue;
        if (area->is_memory_file)
            plan_changed(pagemap, area, piece_bytes, pieces);
        else
            plan_anonymous(pagemap, area, piece_bytes, pieces);
    }
    close(pagemap);
}
