#include "read-ahead.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define LIST_MAX_BYTES (1u << 20)
/* The rest of memory files is read in pieces of this size, a few of them at a time, so that others can read between. */
#define PIECE_BYTES ((off_t)2 << 20)
#define PIECES_AHEAD 2
/* Of listed ranges, asked for before an earlier part must be there: a few milliseconds of the disk's time. */
#define LISTED_AHEAD_BYTES ((off_t)8 << 20)
/* The smallest read-ahead that Linux has by default. */
#define REQUEST_BYTES ((off_t)128 << 10)
/* Of all listed ranges together. A damaged list may name any number. */
#define LISTED_MAX_BYTES ((off_t)1 << 30)
/* How many snapshots are read to their end at once. Others get only the listed ranges. */
#define READERS_MAX 4
/* Until then the processes read what they need for a first result. */
#define BEFORE_REST_NS 150000000

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* As in linux/mman.h since 6.5. */
struct cache_range {
    uint64_t offset, length;
};
struct cache_counts {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

struct counts {
    uint64_t pages, cached;
};

static pthread_mutex_t readers_lock = PTHREAD_MUTEX_INITIALIZER;
static int readers;

/* The sandbox chose names in its files. Nothing leads out of the directory, and nothing is opened that could block. */
static int open_beneath(int directory, const char *path)
{
    struct open_how how = {
        .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
    struct stat status;
    if (fd == -1 || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)))
        return fd;
    close(fd);
    return -1;
}

static void count_cached(int fd, off_t offset, off_t length, struct counts *counts)
{
    struct cache_range range = {(uint64_t)offset, (uint64_t)length};
    struct cache_counts found = {0};
    counts->pages += ((uint64_t)length + PAGE - 1) / PAGE;
    /* Older kernels cannot tell: everything counts as missing. */
    if (syscall(SYS_cachestat, fd, &range, &found, 0) == 0)
        counts->cached += found.cached;
}

/* One call reads at most what the device takes in one request, and nothing of what is beyond. */
static void advise(int fd, off_t offset, off_t length)
{
    for (off_t at = offset, end = offset + length; at < end; at += REQUEST_BYTES)
        (void)posix_fadvise(fd, at, end - at < REQUEST_BYTES ? end - at : REQUEST_BYTES, POSIX_FADV_WILLNEED);
}

/* The end of a range may be far beyond the end of its file. */
static off_t cut_length(int fd, off_t offset, off_t length)
{
    struct stat status;
    if (fstat(fd, &status) == -1 || offset >= status.st_size)
        return 0;
    return length < status.st_size - offset ? length : status.st_size - offset;
}

/* Calls `visit` for each listed range of memory files, or of the others. */
static void each_range(const char *text, int directory, char kind, void (*visit)(int, off_t, off_t, void *), void *context)
{
    int fd = -1;
    bool is_wanted = false;
    char line[4200];
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (length < sizeof(line)) {
            memcpy(line, text, length);
            line[length] = '\0';
            unsigned long long offset, bytes;
            if (length > 2 && line[1] == ' ' && (line[0] == 'm' || line[0] == 'f')) {
                if (fd != -1)
                    close(fd);
                is_wanted = line[0] == kind;
                fd = is_wanted ? open_beneath(directory, line + 2) : -1;
            } else if (fd != -1 && is_wanted && sscanf(line, "%llu %llu", &offset, &bytes) == 2 && offset < INT64_MAX / 2 &&
                       bytes < INT64_MAX / 2) {
                visit(fd, (off_t)offset, cut_length(fd, (off_t)offset, (off_t)bytes), context);
            }
        }
        text += length + (text[length] == '\n');
    }
    if (fd != -1)
        close(fd);
}

static void count_range(int fd, off_t offset, off_t length, void *context)
{
    count_cached(fd, offset, length, context);
}

/* How far listed ranges may still be read, and the range whose reading is waited for before more is asked for. */
struct pace {
    off_t left, asked;
    int fd;
    off_t offset;
};

/*
 * Keeps the queue of the disk short, so that what a process waits for is not behind all that it may need. What is read
 * already costs nothing to wait for.
 */
static void keep_pace(struct pace *pace, int fd, off_t offset, off_t length)
{
    char byte;
    pace->asked += length;
    if (pace->asked < LISTED_AHEAD_BYTES)
        return;
    pace->asked = 0;
    if (pace->fd != -1) {
        (void)!pread(pace->fd, &byte, 1, pace->offset);
        close(pace->fd);
    }
    pace->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    pace->offset = offset;
}

static void advise_range(int fd, off_t offset, off_t length, void *context)
{
    struct pace *pace = context;
    off_t end = offset + (length < pace->left ? length : pace->left);
    pace->left -= end - offset;
    for (off_t at = offset; at < end; at += PIECE_BYTES) {
        off_t piece = end - at < PIECE_BYTES ? end - at : PIECE_BYTES;
        advise(fd, at, piece);
        keep_pace(pace, fd, at, piece);
    }
}

/* Calls `visit` for each file of a directory whose name begins with `prefix`. */
static void each_file(int directory, const char *prefix, void (*visit)(int, off_t, off_t, void *), void *context)
{
    int copy = fcntl(directory, F_DUPFD_CLOEXEC, 0);
    DIR *entries = copy == -1 ? NULL : fdopendir(copy);
    if (!entries) {
        if (copy != -1)
            close(copy);
        return;
    }
    rewinddir(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        struct stat status;
        bool is_wanted = entry->d_name[0] != '.' && !strncmp(entry->d_name, prefix, strlen(prefix));
        int fd = is_wanted ? open_beneath(directory, entry->d_name) : -1;
        if (fd == -1)
            continue;
        if (fstat(fd, &status) == 0 && status.st_size > 0)
            visit(fd, 0, status.st_size, context);
        close(fd);
    }
    closedir(entries);
}

/* Half of the memory that the kernel could give away is the most that is worth filling. */
static uint64_t allowed_bytes(void)
{
    char line[128];
    unsigned long long kilobytes = 0;
    FILE *info = fopen("/proc/meminfo", "re");
    while (info && fgets(line, sizeof(line), info))
        if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1)
            break;
    if (info)
        fclose(info);
    return kilobytes * 1024 / 2;
}

static void count_data(int fd, off_t offset, off_t size, void *context)
{
    (void)offset, (void)size;
    struct stat status;
    if (fstat(fd, &status) == 0)
        *(uint64_t *)context += (uint64_t)status.st_blocks * 512;
}

/* Reads the data of a sparse file. Waiting for one page of an earlier piece keeps the queue of the disk short. */
static void read_data(int fd, off_t offset, off_t size, void *context)
{
    (void)context;
    char byte;
    for (off_t at = offset; at < size;) {
        off_t data = lseek(fd, at, SEEK_DATA);
        off_t hole = data == -1 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (hole == -1)
            return;
        for (off_t piece = data; piece < hole; piece += PIECE_BYTES) {
            off_t length = hole - piece < PIECE_BYTES ? hole - piece : PIECE_BYTES;
            advise(fd, piece, length);
            off_t earlier = piece - PIECES_AHEAD * PIECE_BYTES;
            if (earlier >= data && pread(fd, &byte, 1, earlier) == -1 && errno != EINTR)
                return;
        }
        at = hole;
    }
}

static bool begin_rest(void)
{
    pthread_mutex_lock(&readers_lock);
    bool may = readers < READERS_MAX;
    readers += may;
    pthread_mutex_unlock(&readers_lock);
    return may;
}

static void read_rest(int memory)
{
    uint64_t bytes = 0;
    each_file(memory, "", count_data, &bytes);
    if (bytes > allowed_bytes() || !begin_rest())
        return;
    nanosleep(&(struct timespec){.tv_nsec = BEFORE_REST_NS}, NULL);
    each_file(memory, "", read_data, NULL);
    pthread_mutex_lock(&readers_lock);
    readers--;
    pthread_mutex_unlock(&readers_lock);
}

static char *read_list(const char *path)
{
    char *text = calloc(1, LIST_MAX_BYTES + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t length = 0;
    ssize_t got = 0;
    while (text && fd != -1 && length < LIST_MAX_BYTES && (got = read(fd, text + length, LIST_MAX_BYTES - length)) > 0)
        length += (size_t)got;
    if (fd != -1)
        close(fd);
    return text;
}

static int open_directory(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void read_ahead(struct read_ahead *work)
{
    char *list = read_list(work->list);
    int memory = open_directory(work->memory), images = open_directory(work->images), root = open_directory(work->root);
    struct counts counts = {0};
    if (list && memory != -1 && images != -1) {
        /* Of the images, those with pages are large enough to tell. */
        each_file(images, "pages-", count_range, &counts);
        each_range(list, memory, 'm', count_range, &counts);
        /* A tenth may be missing: what is shared with running sandboxes and what is not differ in age. */
        if (counts.cached * 10 < counts.pages * 9) {
            struct pace pace = {.left = LISTED_MAX_BYTES, .fd = -1};
            each_file(images, "", advise_range, &pace);
            each_range(list, memory, 'm', advise_range, &pace);
            if (root != -1)
                each_range(list, root, 'f', advise_range, &pace);
            if (pace.fd != -1)
                close(pace.fd);
            read_rest(memory);
        }
    }
    for (int *fd = (int[]){memory, images, root, -2}; *fd != -2; fd++)
        if (*fd != -1)
            close(*fd);
    free(list);
    free(work->list);
    free(work->memory);
    free(work->images);
    free(work->root);
    free(work);
}
