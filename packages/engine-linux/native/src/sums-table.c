#include "sums-table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "report.h"

#define MAGIC "DMSUMS01"
#define HEADER_BYTES 16u
#define ROOM_AT_FIRST 1024u

void add_sums(struct sums_table *table, struct entry_sums sums)
{
    if (table->count == table->room) {
        table->room = table->room ? table->room * 2 : ROOM_AT_FIRST;
        table->entries = reallocarray(table->entries, table->room, sizeof(*table->entries));
        if (!table->entries)
            fail("memory for %zu sums", table->room);
    }
    table->entries[table->count++] = sums;
}

static int by_path(const void *left, const void *right)
{
    const struct entry_sums *one = left, *other = right;
    if (one->path != other->path)
        return one->path < other->path ? -1 : 1;
    return one->sum < other->sum ? -1 : one->sum > other->sum;
}

static void write_all(int fd, const void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t put = write(fd, (const char *)bytes + done, length - done);
        if (put == -1 && errno == EINTR)
            continue;
        done += (size_t)CHECK(put, "write sums");
    }
}

void write_sums(struct sums_table *table, const char *path)
{
    char temporary[4096];
    if ((size_t)snprintf(temporary, sizeof(temporary), "%s.new", path) >= sizeof(temporary))
        refuse("the name of the sums is too long");
    qsort(table->entries, table->count, sizeof(*table->entries), by_path);
    char header[HEADER_BYTES];
    uint64_t count = table->count, length = table->count * sizeof(*table->entries);
    memcpy(header, MAGIC, 8);
    memcpy(header + 8, &count, 8);
    uint64_t check = bytes_checksum((char *)table->entries, length, bytes_checksum(header, sizeof(header), 0));
    int fd = CHECK(open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), "make sums");
    write_all(fd, header, sizeof(header));
    write_all(fd, table->entries, length);
    write_all(fd, &check, sizeof(check));
    /*
     * Sync before the rename: a half-written table would look damaged and be made again, from whatever the tree is by
     * then.
     */
    CHECK(fdatasync(fd), "sync sums");
    close(fd);
    CHECK(rename(temporary, path), "name sums");
}

static bool read_all(int fd, void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = read(fd, (char *)bytes + done, length - done);
        if (got == -1 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static bool read_table(struct sums_table *table, int fd)
{
    char header[HEADER_BYTES];
    struct stat status;
    uint64_t count, check;
    if (fstat(fd, &status) == -1 || !read_all(fd, header, sizeof(header)) || memcmp(header, MAGIC, 8))
        return false;
    memcpy(&count, header + 8, 8);
    if (count > (uint64_t)status.st_size / sizeof(struct entry_sums))
        return false;
    size_t length = (size_t)count * sizeof(struct entry_sums);
    *table = (struct sums_table){.entries = malloc(length ? length : 1), .count = (size_t)count, .room = (size_t)count};
    if (!table->entries)
        fail("memory for %zu sums", table->count);
    return read_all(fd, table->entries, length) && read_all(fd, &check, sizeof(check)) &&
           check == bytes_checksum((char *)table->entries, length, bytes_checksum(header, sizeof(header), 0));
}

bool read_sums(struct sums_table *table, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return false;
    bool is_whole = read_table(table, fd);
    close(fd);
    return is_whole;
}

ptrdiff_t find_sums(const struct sums_table *table, uint64_t path)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->entries[middle].path < path)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->count && table->entries[low].path == path ? (ptrdiff_t)low : -1;
}
