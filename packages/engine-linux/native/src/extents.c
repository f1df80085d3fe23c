/*
 * dormouse-extents FILE
 *
 * Writes what a sparse file holds to standard output: how many extents have data, the offset and the length of each,
 * all as numbers of 8 bytes, and then the bytes of all extents. Offsets and lengths are whole pages, except at the end
 * of the file. The file must not change.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

#define BUFFER_BYTES (1u << 20)

struct extent {
    uint64_t offset;
    uint64_t length;
};

static void write_all(const void *bytes, size_t length)
{
    for (const char *at = bytes; length > 0;) {
        ssize_t written = CHECK(write(STDOUT_FILENO, at, length), "write");
        at += written;
        length -= (size_t)written;
    }
}

static struct extent *find_extents(int fd, uint64_t *count)
{
    struct extent *extents = NULL;
    *count = 0;
    off_t data = 0, hole = 0;
    for (; (data = lseek(fd, hole, SEEK_DATA)) != -1; (*count)++) {
        hole = CHECK(lseek(fd, data, SEEK_HOLE), "seek");
        if ((*count & (*count - 1)) == 0)
            extents = reallocarray(extents, *count ? 2 * *count : 1, sizeof(*extents));
        if (!extents)
            fail("memory");
        extents[*count] = (struct extent){.offset = (uint64_t)data, .length = (uint64_t)(hole - data)};
    }
    /* ENXIO: no data follows. */
    if (errno != ENXIO)
        fail("seek");
    return extents;
}

static void write_extent(int fd, struct extent extent, char *buffer)
{
    for (uint64_t at = 0; at < extent.length;) {
        uint64_t rest = extent.length - at;
        size_t length = rest < BUFFER_BYTES ? (size_t)rest : BUFFER_BYTES;
        ssize_t found = CHECK(pread(fd, buffer, length, (off_t)(extent.offset + at)), "read");
        if (found == 0)
            refuse("the file became shorter");
        write_all(buffer, (size_t)found);
        at += (uint64_t)found;
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        refuse("one argument is needed");
    int fd = CHECK(open(argv[1], O_RDONLY | O_CLOEXEC), "open");
    uint64_t count;
    struct extent *extents = find_extents(fd, &count);
    write_all(&count, sizeof(count));
    write_all(extents, count * sizeof(*extents));
    char *buffer = malloc(BUFFER_BYTES);
    if (!buffer)
        fail("memory");
    for (uint64_t index = 0; index < count; index++)
        write_extent(fd, extents[index], buffer);
    return 0;
}
