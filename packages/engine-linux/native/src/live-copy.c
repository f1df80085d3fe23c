#include "live-copy.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checksum.h"
#include "live-calls.h"
#include "live-pieces.h"
#include "report.h"

#define LOOK_PAGES 4096u
/* What is on its way fits into the caches of two cores. */
#define SLOT_BYTES (256u << 10)
#define SLOTS 8u

static char *slot_of(struct live_copy *copy, size_t run)
{
    return copy->slots + run % SLOTS * SLOT_BYTES;
}

static void *write_runs(void *argument)
{
    struct live_copy *copy = argument;
    /* The sandbox waits while there is something to write: see watch_pause. */
    if (copy->is_urgent)
        (void)sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1});
    pthread_mutex_lock(&copy->lock);
    while (!copy->is_over || copy->written < copy->count) {
        if (copy->written == copy->count) {
            pthread_cond_wait(&copy->has_changed, &copy->lock);
            continue;
        }
        struct copied run = copy->runs[copy->written];
        bool is_well = !copy->has_failed;
        pthread_mutex_unlock(&copy->lock);
        is_well = is_well && write_to_file(copy->file, slot_of(copy, copy->written), run.length, run.offset);
        pthread_mutex_lock(&copy->lock);
        copy->has_failed = !is_well;
        copy->written++;
        pthread_cond_signal(&copy->has_changed);
    }
    pthread_mutex_unlock(&copy->lock);
    return NULL;
}

void open_live_copy(struct live_copy *copy, pid_t process, struct live_file *file, uint64_t bytes_max, bool is_urgent)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/pagemap", process);
    *copy = (struct live_copy){.process = process, .file = file, .bytes_max = bytes_max, .is_urgent = is_urgent};
    copy->pagemap = open(path, O_RDONLY | O_CLOEXEC);
    copy->slots =
        mmap(NULL, SLOTS * SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (copy->slots == MAP_FAILED || pthread_mutex_init(&copy->lock, NULL) ||
        pthread_cond_init(&copy->has_changed, NULL) || pthread_create(&copy->writer, NULL, write_runs, copy))
        fail("memory");
}

void close_live_copy(struct live_copy *copy)
{
    pthread_mutex_lock(&copy->lock);
    copy->is_over = true;
    pthread_cond_signal(&copy->has_changed);
    pthread_mutex_unlock(&copy->lock);
    pthread_join(copy->writer, NULL);
    if (copy->pagemap != -1)
        close(copy->pagemap);
    munmap(copy->slots, SLOTS * SLOT_BYTES);
    free(copy->runs);
}

/* Waits until fewer than `limit` runs are not written. */
static void wait_for_writer(struct live_copy *copy, size_t limit)
{
    pthread_mutex_lock(&copy->lock);
    while (copy->count - copy->written >= limit)
        pthread_cond_wait(&copy->has_changed, &copy->lock);
    pthread_mutex_unlock(&copy->lock);
}

static void add_run(struct live_copy *copy, struct copied run)
{
    pthread_mutex_lock(&copy->lock);
    if (copy->count == copy->capacity) {
        copy->capacity = copy->capacity ? copy->capacity * 2 : 256;
        copy->runs = realloc(copy->runs, copy->capacity * sizeof(*copy->runs));
        if (!copy->runs)
            fail("memory");
    }
    copy->runs[copy->count++] = run;
    pthread_cond_signal(&copy->has_changed);
    pthread_mutex_unlock(&copy->lock);
}

static bool copy_run(struct live_copy *copy, uint64_t start, uint64_t length, uint64_t offset)
{
    if (length > copy->bytes_max - copy->bytes)
        return false;
    for (uint64_t at = 0; at < length; at += SLOT_BYTES) {
        struct copied run = {.length = length - at < SLOT_BYTES ? length - at : SLOT_BYTES, .offset = offset + at};
        wait_for_writer(copy, SLOTS);
        char *slot = slot_of(copy, copy->count);
        if (!read_inside(copy->process, start + at, slot, run.length))
            return false;
        for (uint64_t page = 0; page < run.length; page += PAGE_BYTES)
            run.checksum += page_checksum(slot + page, PAGE_BYTES, (run.offset + page) / PAGE_BYTES);
        add_run(copy, run);
        copy->bytes += run.length;
    }
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

/* Pre: the writer waits. */
static void forget_runs(struct live_copy *copy)
{
    pthread_mutex_lock(&copy->lock);
    copy->has_failed = false;
    copy->count = copy->written = 0;
    copy->bytes = 0;
    pthread_mutex_unlock(&copy->lock);
}

bool wait_for_copy(struct live_copy *copy)
{
    wait_for_writer(copy, 1);
    if (!copy->has_failed)
        return true;
    for (size_t i = 0; i < copy->count; i++)
        discard_in_file(copy->file, copy->runs[i].length, copy->runs[i].offset);
    forget_runs(copy);
    return false;
}

uint64_t finish_copy(struct live_copy *copy)
{
    wait_for_writer(copy, 1);
    uint64_t bytes = copy->bytes;
    for (size_t i = 0; i < copy->count; i++)
        copy->file->checksum += copy->runs[i].checksum;
    copy->file->moved_bytes += bytes;
    if (copy->file->writes_ahead && copy->count > 0) {
        /* A hint: start writing. Runs are in order of their offset. */
        off_t start = (off_t)copy->runs[0].offset;
        const struct copied *last = &copy->runs[copy->count - 1];
        (void)sync_file_range(copy->file->fd, start, (off_t)(last->offset + last->length) - start,
                              SYNC_FILE_RANGE_WRITE);
    }
    forget_runs(copy);
    return bytes;
}
