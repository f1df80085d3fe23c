#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "idle.h"
#include "move-pages.h"
#include "report.h"

/* Small enough that the bytes checked for zeros are still in the CPU's cache when they are written. */
#define CHUNK_BYTES (1u << 18)
/* Sharing the blocks of a shorter range takes longer than copying it, and scatters the file on disk. */
#define CLONE_MIN_BYTES (1u << 16)

void close_source(struct source *source)
{
    if (source->fd == -1)
        return;
    if (source->bytes)
        CHECK(munmap((void *)source->bytes, source->size), "unmap pages");
    close(source->fd);
    source->fd = -1;
    source->bytes = NULL;
}

void open_source(struct source *source, const char *path)
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

void close_target(struct target *target)
{
    if (target->fd == -1)
        return;
    /* Zero pages at the end are a hole too, and count towards the size. */
    if (!target->is_memory)
        CHECK(ftruncate(target->fd, (off_t)target->size), "size of pages");
    /* On some file systems close() reports a failed write. */
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

void open_pages(struct target *kept, const char *path)
{
    open_target(kept, path, 0, 0600);
    kept->is_memory = false;
}

void open_memory(struct target *memory, const char *path, uint64_t size)
{
    open_target(memory, path, size, 0400);
    memory->is_memory = true;
    memory->checksum = 0;
}

static bool clone_range(const struct source *source, struct target *target, uint64_t from, uint64_t to, uint64_t length)
{
    if (!target->can_clone || length < CLONE_MIN_BYTES)
        return false;
    struct file_clone_range range = {.src_fd = source->fd, .src_offset = from, .src_length = length, .dest_offset = to};
    if (ioctl(target->fd, FICLONERANGE, &range) == 0)
        return true;
    /*
     * The file system cannot clone, the two files are on different file systems, or blocks are larger than pages. The
     * rest of this target is copied.
     */
    if (errno != EOPNOTSUPP && errno != EXDEV && errno != EINVAL && errno != ENOTTY)
        fail("clone pages");
    target->can_clone = false;
    return false;
}

static void write_all(int fd, const char *bytes, uint64_t length, uint64_t offset)
{
    while (length > 0) {
        ssize_t written = pwrite(fd, bytes, length, (off_t)offset);
        if (written == -1 && errno == EINTR)
            continue;
        if (written <= 0)
            fail("write pages");
        flush_if_idle(fd, (size_t)written);
        bytes += written;
        length -= (uint64_t)written;
        offset += (uint64_t)written;
    }
}

/* The target is new, so a page that is not written is a hole and reads as zeros. */
static void write_non_zero(int fd, const char *bytes, uint64_t length, uint64_t offset)
{
    for (uint64_t at = 0; at < length;) {
        while (at < length && is_zero_page(bytes + at))
            at += PAGE_BYTES;
        uint64_t start = at;
        while (at < length && !is_zero_page(bytes + at))
            at += PAGE_BYTES;
        write_all(fd, bytes + start, at - start, offset + start);
    }
}

static void require_ranges(const struct source *source, struct target *target, uint64_t from, uint64_t to, uint64_t length)
{
    if (source->fd == -1 || target->fd == -1)
        refuse("plan: pages before their files");
    if (from % PAGE_BYTES || to % PAGE_BYTES || length % PAGE_BYTES)
        refuse("plan: not whole pages");
    /* Reading a mapping past the end of its file would end this process with SIGBUS. */
    if (from > source->size || length > source->size - from)
        refuse("plan: the pages image is too short");
    if (to > target->size || length > target->size - to)
        refuse("plan: pages behind the end of the memory file");
}

static void add_checksums(const struct source *source, struct target *memory, uint64_t from, uint64_t to, uint64_t length)
{
    for (uint64_t at = 0; at < length; at += PAGE_BYTES)
        memory->checksum += page_checksum(source->bytes + from + at, PAGE_BYTES, (to + at) / PAGE_BYTES);
}

void move_pages(const struct source *source, struct target *target, uint64_t from, uint64_t to, uint64_t length)
{
    require_ranges(source, target, from, to, length);
    bool is_cloned = clone_range(source, target, from, to, length);
    for (uint64_t done = 0; done < length; done += CHUNK_BYTES) {
        uint64_t part = length - done < CHUNK_BYTES ? length - done : CHUNK_BYTES;
        if (target->is_memory)
            add_checksums(source, target, from + done, to + done, part);
        if (!is_cloned)
            write_non_zero(target->fd, source->bytes + from + done, part, to + done);
    }
}

void copy_base(const struct source *source, struct target *target, uint64_t from, uint64_t to, uint64_t length)
{
    /* A mapping may reach past the end of its file. There is nothing to copy. */
    if (from >= source->size)
        return;
    if (length > source->size - from)
        length = source->size - from;
    require_ranges(source, target, from, to, length);
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
        move_pages(source, target, (uint64_t)data, to + ((uint64_t)data - from), (uint64_t)(at - data));
    }
}

uint64_t count_data(const struct source *source, uint64_t from, uint64_t length)
{
    uint64_t bytes = 0;
    for (off_t at = (off_t)from, stop = (off_t)(from + length); at < stop;) {
        off_t data = lseek(source->fd, at, SEEK_DATA);
        if (data == -1 && errno == ENXIO)
            break;
        if (data == -1)
            fail("data of memory file");
        if (data >= stop)
            break;
        off_t hole = CHECK(lseek(source->fd, data, SEEK_HOLE), "hole in memory file");
        at = hole < stop ? hole : stop;
        bytes += (uint64_t)(at - data);
    }
    return bytes;
}

void keep_pages(const struct source *source, struct target *kept, uint64_t from, uint64_t length)
{
    uint64_t to = kept->size;
    if (length > UINT64_MAX / 2 - to)
        refuse("plan: not a number");
    kept->size += length;
    move_pages(source, kept, from, to, length);
}
