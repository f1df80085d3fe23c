#include "sum-file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "checksum.h"
#include "report.h"

#define READ_BYTES (1u << 20)
#define SECOND_NS 1000000000ull

static uint64_t now_ns(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now), "clock");
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* Waits until reading this many more bytes is within the rate. Idle time is not made up for. */
static void keep_rate(struct reading *reading, uint64_t bytes)
{
    static uint64_t due_ns;
    reading->read_bytes += bytes;
    if (reading->bytes_per_second == 0)
        return;
    uint64_t now = now_ns();
    if (due_ns < now)
        due_ns = now;
    due_ns += (uint64_t)((double)bytes / (double)reading->bytes_per_second * (double)SECOND_NS);
    uint64_t wait = due_ns - now;
    struct timespec pause = {.tv_sec = (time_t)(wait / SECOND_NS), .tv_nsec = (long)(wait % SECOND_NS)};
    while (nanosleep(&pause, &pause) == -1 && errno == EINTR)
        ;
}

/*
 * Kernel rule: a direct read waits until dirty pages of the range are on disk, then reads the disk and leaves the page
 * cache alone. So a file that a live sandbox maps stays cached. Where the file system has no direct reads, clean pages
 * are dropped instead; pages that a process maps stay cached and are read from memory.
 */
static int open_for_reading(int directory, const char *name, bool is_direct)
{
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOATIME;
    int fd = openat(directory, name, flags | (is_direct ? O_DIRECT : 0));
    if (fd == -1 && is_direct && errno == EINVAL)
        fd = openat(directory, name, flags);
    if (fd != -1 && is_direct)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return fd;
}

/* Fills the buffer unless the file ends first. Returns -1 with errno set. */
static ssize_t read_chunk(int fd, char *buffer, uint64_t length, uint64_t offset)
{
    uint64_t done = 0;
    while (done < length) {
        ssize_t got = pread(fd, buffer + done, length - done, (off_t)(offset + done));
        if (got == -1 && errno == EINTR)
            continue;
        /* Some file systems accept O_DIRECT in open() and refuse such reads. */
        if (got == -1 && errno == EINVAL && fcntl(fd, F_GETFL) & O_DIRECT && fcntl(fd, F_SETFL, 0) == 0)
            continue;
        if (got == -1)
            return -1;
        done += (uint64_t)got;
        /* A direct read is short only at the end of the file, and cannot continue from an unaligned offset. */
        if (got == 0 || done % PAGE_BYTES)
            break;
    }
    return (ssize_t)done;
}

/* Adds data from `at` to `end`. Returns -1 with errno set, 0 when the file ended first, 1 otherwise. */
static int sum_data(int fd, struct reading *reading, uint64_t at, uint64_t end, uint64_t *sum)
{
    static char buffer[READ_BYTES] __attribute__((aligned(PAGE_BYTES)));
    while (at < end) {
        uint64_t wanted = end - at < READ_BYTES ? end - at : READ_BYTES;
        ssize_t got = read_chunk(fd, buffer, wanted, at);
        if (got == -1)
            return -1;
        for (uint64_t done = 0; done < (uint64_t)got; done += PAGE_BYTES) {
            uint64_t left = (uint64_t)got - done;
            *sum += page_checksum(buffer + done, left < PAGE_BYTES ? left : PAGE_BYTES, (at + done) / PAGE_BYTES);
        }
        keep_rate(reading, (uint64_t)got);
        if ((uint64_t)got < wanted)
            return 0;
        at += (uint64_t)got;
    }
    return 1;
}

static bool sum_open_file(int fd, struct reading *reading, uint64_t *size, uint64_t *sum)
{
    struct stat status;
    if (fstat(fd, &status) == -1)
        return false;
    *size = (uint64_t)status.st_size;
    *sum = 0;
    for (uint64_t at = 0; at < *size;) {
        off_t data = lseek(fd, (off_t)at, SEEK_DATA);
        if (data == -1)
            return errno == ENXIO;
        off_t hole = lseek(fd, data, SEEK_HOLE);
        if (hole == -1)
            return false;
        /* Blocks of the file system may be smaller than pages. */
        at = (uint64_t)data & ~(uint64_t)(PAGE_BYTES - 1);
        uint64_t end = ((uint64_t)hole + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
        int result = sum_data(fd, reading, at, end, sum);
        if (result < 1)
            return result == 0;
        at = end;
    }
    return true;
}

bool sum_file(int directory, const char *name, struct reading *reading, uint64_t *size, uint64_t *sum)
{
    int fd = open_for_reading(directory, name, reading->is_direct);
    if (fd == -1)
        return false;
    bool is_read = sum_open_file(fd, reading, size, sum);
    int error = errno;
    close(fd);
    errno = error;
    return is_read;
}
