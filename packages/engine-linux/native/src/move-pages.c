/*
 * dormouse-pages < PLAN
 * Moves the pages of a dump: some into sparse memory files that a restore maps, the rest into a new pages image.
 * The plan is a list of NUL-terminated records, done in order:
 *   source=PATH         the pages image to read from now on
 *   kept=PATH           make the pages image that `keep` appends to
 *   keep=FROM LENGTH
 *   memory=SIZE PATH    make the sparse file that `move` writes to
 *   move=FROM TO LENGTH
 *   base=FROM TO LENGTH the source is a memory file itself: its holes stay holes
 *   over=FROM TO LENGTH as move, but zero pages count: there may be other bytes in their place
 *   gently=             nobody waits for the rest
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "idle.h"
#include "report.h"

#define PAGE_BYTES 4096u
/* Small enough that what was looked at for zeros is still in the CPU's cache when it is written. */
#define CHUNK_BYTES (1u << 18)

struct source {
    int fd;
    const char *bytes;
    uint64_t size;
};

struct target {
    int fd;
    uint64_t size;
    /* False once the file system said that it cannot share blocks between these files. */
    bool can_clone;
};

static uint64_t number(char **text)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(*text, &end, 10);
    if (errno || end == *text || (*end && *end != ' '))
        refuse("plan: not a number: %s", *text);
    *text = *end ? end + 1 : end;
    return value;
}

static void close_source(struct source *source)
{
    if (source->fd == -1)
        return;
    if (source->bytes)
        CHECK(munmap((void *)source->bytes, source->size), "unmap pages");
    close(source->fd);
    source->fd = -1;
    source->bytes = NULL;
}

static void open_source(struct source *source, const char *path)
{
    close_source(source);
    source->fd = CHECK(open(path, O_RDONLY | O_CLOEXEC), "open %s", path);
    struct stat status;
    CHECK(fstat(source->fd, &status), "stat %s", path);
    source->size = (uint64_t)status.st_size;
    if (source->size == 0)
        return;
    source->bytes = mmap(NULL, source->size, PROT_READ, MAP_SHARED, source->fd, 0);
    if (source->bytes == MAP_FAILED)
        fail("map %s", path);
    CHECK(madvise((void *)source->bytes, source->size, MADV_SEQUENTIAL), "advise %s", path);
}

/* A write that the disk refuses late is reported by close() on some file systems. */
static void close_target(struct target *target)
{
    if (target->fd != -1)
        CHECK(close(target->fd), "close");
    target->fd = -1;
}

static void open_target(struct target *target, const char *path, uint64_t size, mode_t mode)
{
    close_target(target);
    target->fd = CHECK(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode), "make %s", path);
    target->size = size;
    target->can_clone = true;
    CHECK(fchmod(target->fd, mode), "mode of %s", path);
    CHECK(ftruncate(target->fd, (off_t)size), "size of %s", path);
}

static bool clone_range(const struct source *source, struct target *target, uint64_t from, uint64_t to, uint64_t length)
{
    if (!target->can_clone)
        return false;
    struct file_clone_range range = {.src_fd = source->fd, .src_offset = from, .src_length = length, .dest_offset = to};
    if (ioctl(target->fd, FICLONERANGE, &range) == 0)
        return true;
    /* Refused by the file system, across two of them, or for its larger blocks: all of this is decided by the pair of files. */
    if (errno != EOPNOTSUPP && errno != EXDEV && errno != EINVAL && errno != ENOTTY)
        fail("clone pages");
    target->can_clone = false;
    return false;
}

static bool is_zero(const char *page)
{
    uint64_t first;
    memcpy(&first, page, sizeof(first));
    return first == 0 && !memcmp(page, page + sizeof(first), PAGE_BYTES - sizeof(first));
}

static void write_all(int fd, const char *bytes, uint64_t length, uint64_t offset)
{
    while (length > 0) {
        ssize_t written = pwrite(fd, bytes, length, (off_t)offset);
        if (written == -1 && errno == EINTR)
            continue;
        if (written <= 0)
            fail("write pages");
        wrote(fd, (size_t)written);
        bytes += written;
        length -= (uint64_t)written;
        offset += (uint64_t)written;
    }
}

/* The target is new, so a page that is not written is a hole and reads as zeros. */
static void write_non_zero(int fd, const char *bytes, uint64_t length, uint64_t offset)
{
    for (uint64_t at = 0; at < length;) {
        while (at < length && is_zero(bytes + at))
            at += PAGE_BYTES;
        uint64_t start = at;
        while (at < length && !is_zero(bytes + at))
            at += PAGE_BYTES;
        write_all(fd, bytes + start, at - start, offset + start);
    }
}

/* False when there is nothing left to do. */
static bool begin(const struct source *source, struct target *target, uint64_t from, uint64_t to, uint64_t length)
{
    if (source->fd == -1 || target->fd == -1)
        refuse("plan: pages before their files");
    if (from % PAGE_BYTES || to % PAGE_BYTES || length % PAGE_BYTES)
        refuse("plan: not whole pages");
    /* Reading a mapping behind the end of its file would end this process with SIGBUS. */
    if (from > source->size || length > source->size - from)
        refuse("plan: the pages image is too short");
    if (to > target->size || length > target->size - to)
        refuse("plan: pages behind the end of the memory file");
    return length > 0 && !clone_range(source, target, from, to, length);
}

static void write_chunks(const struct source *source, struct target *target, uint64_t from, uint64_t to, uint64_t length)
{
    for (uint64_t done = 0; done < length; done += CHUNK_BYTES) {
        uint64_t part = length - done < CHUNK_BYTES ? length - done : CHUNK_BYTES;
        write_non_zero(target->fd, source->bytes + from + done, part, to + done);
    }
}

static void transfer(const struct source *source, struct target *target, uint64_t from, uint64_t to, uint64_t length)
{
    if (begin(source, target, from, to, length))
        write_chunks(source, target, from, to, length);
}

static void copy_base(const struct source *source, struct target *target, uint64_t from, uint64_t to, uint64_t length)
{
    if (!begin(source, target, from, to, length))
        return;
    for (off_t at = (off_t)from, stop = (off_t)(from + length); at < stop;) {
        off_t data = lseek(source->fd, at, SEEK_DATA);
        if (data == -1 && errno == ENXIO)
            return;
        if (data == -1)
            fail("data of memory file");
        if (data >= stop)
            return;
        off_t hole = CHECK(lseek(source->fd, data, SEEK_HOLE), "hole in memory file");
        /* Blocks of a file system may be smaller than pages. */
        data -= data % PAGE_BYTES;
        hole += (PAGE_BYTES - hole % PAGE_BYTES) % PAGE_BYTES;
        at = hole < stop ? hole : stop;
        write_chunks(source, target, (uint64_t)data, to + ((uint64_t)data - from), (uint64_t)(at - data));
    }
}

/* The target holds the base already; what is all zeros has to become so. */
static void overwrite(const struct source *source, struct target *target, uint64_t from, uint64_t to, uint64_t length)
{
    if (!begin(source, target, from, to, length))
        return;
    const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    for (uint64_t at = 0; at < length;) {
        const char *bytes = source->bytes + from;
        uint64_t start = at;
        bool is_hole = is_zero(bytes + at);
        while (at < length && is_zero(bytes + at) == is_hole)
            at += PAGE_BYTES;
        if (!is_hole || fallocate(target->fd, punch, (off_t)(to + start), (off_t)(at - start)) == -1)
            write_all(target->fd, bytes + start, at - start, to + start);
    }
}

static void keep(const struct source *source, struct target *kept, uint64_t from, uint64_t length)
{
    uint64_t to = kept->size;
    if (length > UINT64_MAX / 2 - to)
        refuse("plan: not a number");
    kept->size += length;
    /* Zero pages at the end are holes too, and count for the size. */
    if (kept->fd != -1)
        CHECK(ftruncate(kept->fd, (off_t)kept->size), "size of pages image");
    transfer(source, kept, from, to, length);
}

int main(void)
{
    /* Half a plan is of no use to anyone once whoever wanted it is gone. */
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
    struct source source = {.fd = -1};
    struct target kept = {.fd = -1}, memory = {.fd = -1};
    char *record = NULL;
    size_t capacity = 0;
    while (getdelim(&record, &capacity, '\0', stdin) != -1) {
        char *value = strchr(record, '=');
        if (!value)
            refuse("plan: not a record: %s", record);
        *value++ = '\0';
        if (!strcmp(record, "source")) {
            open_source(&source, value);
        } else if (!strcmp(record, "kept")) {
            open_target(&kept, value, 0, 0600);
        } else if (!strcmp(record, "memory")) {
            uint64_t size = number(&value);
            open_target(&memory, value, size, 0400);
        } else if (!strcmp(record, "keep")) {
            uint64_t from = number(&value), length = number(&value);
            keep(&source, &kept, from, length);
        } else if (!strcmp(record, "move")) {
            uint64_t from = number(&value), to = number(&value), length = number(&value);
            transfer(&source, &memory, from, to, length);
        } else if (!strcmp(record, "base")) {
            uint64_t from = number(&value), to = number(&value), length = number(&value);
            copy_base(&source, &memory, from, to, length);
        } else if (!strcmp(record, "over")) {
            uint64_t from = number(&value), to = number(&value), length = number(&value);
            overwrite(&source, &memory, from, to, length);
        } else if (!strcmp(record, "gently")) {
            be_idle();
        } else {
            refuse("plan: unknown record %s", record);
        }
    }
    if (ferror(stdin))
        fail("plan");
    free(record);
    close_source(&source);
    close_target(&kept);
    close_target(&memory);
    return 0;
}
