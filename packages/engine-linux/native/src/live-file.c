#include "live-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "report.h"
#include "seal-memory.h"

/* The same rules as in src/image/memory-layout.ts, which says why. */
#define HOLE_BYTES (8ull << 30)
#define ALIGNMENT_BYTES (2ull << 20)
#define FILE_MAX_BYTES ((16ull << 40) - ALIGNMENT_BYTES)

static uint64_t round_up(uint64_t value)
{
    return (value + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

bool open_live_file(struct live_file *file, const char *directory, const char *name, uid_t owner)
{
    char path[4096];
    *file = (struct live_file){.fd = -1, .cursor = ALIGNMENT_BYTES};
    snprintf(file->name, sizeof(file->name), "%s", name);
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
    if (file->fd == -1)
        return false;
    if (fchmod(file->fd, 0400) == 0 && fchown(file->fd, owner, owner) == 0)
        return true;
    unlink(path);
    close(file->fd);
    file->fd = -1;
    return false;
}

uint64_t place_in_file(struct live_file *file, uint64_t start, uint64_t end, uint64_t area_end)
{
    uint64_t length = end - start;
    if (start != file->next_address || length > file->room_end - file->next_offset) {
        uint64_t offset = file->cursor + start % ALIGNMENT_BYTES;
        uint64_t room_end = offset + (area_end - start), cursor = round_up(room_end + HOLE_BYTES);
        if (cursor > FILE_MAX_BYTES || ftruncate(file->fd, (off_t)cursor) == -1)
            return 0;
        file->cursor = cursor;
        file->next_offset = offset;
        file->room_end = room_end;
    }
    uint64_t offset = file->next_offset;
    file->next_address = end;
    file->next_offset += length;
    return offset;
}

bool write_to_file(struct live_file *file, const char *pages, uint64_t length, uint64_t offset)
{
    for (uint64_t at = 0; at < length;) {
        while (at < length && is_zero_page(pages + at))
            at += PAGE_BYTES;
        uint64_t start = at;
        while (at < length && !is_zero_page(pages + at))
            at += PAGE_BYTES;
        while (start < at) {
            ssize_t written = pwrite(file->fd, pages + start, at - start, (off_t)(offset + start));
            if (written == -1 && errno == EINTR)
                continue;
            if (written <= 0)
                return false;
            start += (uint64_t)written;
        }
    }
    return true;
}

void discard_in_file(struct live_file *file, uint64_t length, uint64_t offset)
{
    if (fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)length) == -1)
        file->is_torn = true;
}

void seal_live_file(struct live_file *file)
{
    if (!file->is_torn)
        write_seal(file->fd, file->name, file->checksum);
}

void close_live_file(struct live_file *file, const char *directory)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", directory, file->name);
    if (!file->is_mapped)
        unlink(path);
    close(file->fd);
}
