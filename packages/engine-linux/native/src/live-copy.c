#include "live-copy.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "live-calls.h"
#include "live-pieces.h"
#include "report.h"

#define LOOK_PAGES 4096u

void open_live_copy(struct live_copy *copy, pid_t process, uint64_t buffer_bytes)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/pagemap", process);
    *copy = (struct live_copy){.process = process, .buffer_bytes = buffer_bytes};
    copy->pagemap = open(path, O_RDONLY | O_CLOEXEC);
    copy->buffer = mmap(NULL, buffer_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (copy->buffer == MAP_FAILED)
        fail("memory");
}

void close_live_copy(struct live_copy *copy)
{
    if (copy->pagemap != -1)
        close(copy->pagemap);
    munmap(copy->buffer, copy->buffer_bytes);
    free(copy->runs);
}

static bool copy_run(struct live_copy *copy, uint64_t start, uint64_t length, uint64_t offset)
{
    if (length > copy->buffer_bytes - copy->used_bytes)
        return false;
    if (!read_inside(copy->process, start, copy->buffer + copy->used_bytes, length))
        return false;
    if (copy->count == copy->capacity) {
        copy->capacity = copy->capacity ? copy->capacity * 2 : 256;
        copy->runs = realloc(copy->runs, copy->capacity * sizeof(*copy->runs));
        if (!copy->runs)
            fail("memory");
    }
    copy->runs[copy->count++] = (struct copied){.at = copy->used_bytes, .length = length, .offset = offset};
    copy->used_bytes += length;
    return true;
}

bool copy_range(struct live_copy *copy, uint64_t start, uint64_t end, uint64_t offset, bool is_whole)
{
    uint64_t entries[LOOK_PAGES];
    if (is_whole)
        return copy_run(copy, start, end - start, offset);
    for (uint64_t at = start; at < end;) {
        uint64_t stop = end - at > LOOK_PAGES * PAGE_BYTES ? at + LOOK_PAGES * PAGE_BYTES : end;
        uint64_t pages = (stop - at) / PAGE_BYTES;
        if (!read_pagemap(copy->pagemap, at, stop, entries))
            return false;
        for (uint64_t page = 0; page < pages;) {
            uint64_t first = page;
            while (page < pages && is_present(entries[page]))
                page++;
            uint64_t run = at + first * PAGE_BYTES, length = (page - first) * PAGE_BYTES;
            if (length > 0 && !copy_run(copy, run, length, offset + (run - start)))
                return false;
            if (length == 0)
                page++;
        }
        at = stop;
    }
    return true;
}

bool write_copy(struct live_copy *copy, struct live_file *file)
{
    for (size_t i = 0; i < copy->count; i++)
        if (!write_to_file(file, copy->buffer + copy->runs[i].at, copy->runs[i].length, copy->runs[i].offset)) {
            for (size_t written = 0; written <= i; written++)
                discard_in_file(file, copy->runs[written].length, copy->runs[written].offset);
            copy->count = 0;
            copy->used_bytes = 0;
            return false;
        }
    return true;
}

void finish_copy(struct live_copy *copy, struct live_file *file)
{
    for (size_t i = 0; i < copy->count; i++)
        count_pages(file, copy->buffer + copy->runs[i].at, copy->runs[i].length, copy->runs[i].offset);
    copy->count = 0;
    copy->used_bytes = 0;
}
