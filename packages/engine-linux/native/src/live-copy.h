#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "live-file.h"

/*
 * Pages of a stopped process on their way into its memory file. This thread reads them from the process, and a second
 * one writes them to the file meanwhile: the process is stopped for half as long.
 */
struct live_copy {
    pid_t process;
    int pagemap;
    struct live_file *file;
    uint64_t bytes, bytes_max;
    bool is_urgent;
    pthread_t writer;
    /* The rest is shared by both threads. */
    pthread_mutex_t lock;
    pthread_cond_t has_changed;
    char *slots;
    struct copied {
        uint64_t length, offset, checksum;
    } *runs;
    size_t count, capacity, written;
    bool has_failed, is_over;
};

/* The second thread runs at real-time priority if `is_urgent`. */
void open_live_copy(struct live_copy *copy, pid_t process, struct live_file *file, uint64_t bytes_max, bool is_urgent);
void close_live_copy(struct live_copy *copy);
/*
 * Copies a range to `offset` of the file: pages that are there, or all of them if `is_whole`. False when it does not fit
 * or the process has ended.
 */
bool copy_range(struct live_copy *copy, uint64_t start, uint64_t end, uint64_t offset, bool is_whole);
/* Waits until all of it is written. False when the disk is full; then nothing of it is in the file. */
bool wait_for_copy(struct live_copy *copy);
/* Adds what was written to the checksum of the file, and forgets it. Returns how many bytes that is. */
uint64_t finish_copy(struct live_copy *copy);
