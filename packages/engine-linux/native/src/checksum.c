#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "report.h"

#define READ_BYTES (1u << 18)

/* Constants of XXH64: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md */
#define PRIME_1 0x9E3779B185EBCA87u
#define PRIME_2 0xC2B2AE3D27D4EB4Fu
#define PRIME_3 0x165667B19E3779F9u
#define PRIME_4 0x85EBCA77C2B2AE63u
#define PRIME_5 0x27D4EB2F165667C5u

static uint64_t rotate(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

/*
 * Host byte order is fine: images, memory files and their checksums never move between machines of different byte
 * order.
 */
static uint64_t read_64(const char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint32_t read_32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint64_t mix(uint64_t lane, uint64_t input)
{
    return rotate(lane + input * PRIME_2, 31) * PRIME_1;
}

static uint64_t merge(uint64_t hash, uint64_t lane)
{
    return (hash ^ mix(0, lane)) * PRIME_1 + PRIME_4;
}

uint64_t bytes_checksum(const char *at, uint64_t length, uint64_t seed)
{
    const char *end = at + length;
    uint64_t hash = seed + PRIME_5;
    if (length >= 32) {
        uint64_t a = seed + PRIME_1 + PRIME_2, b = seed + PRIME_2, c = seed, d = seed - PRIME_1;
        for (; end - at >= 32; at += 32) {
            a = mix(a, read_64(at));
            b = mix(b, read_64(at + 8));
            c = mix(c, read_64(at + 16));
            d = mix(d, read_64(at + 24));
        }
        hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
        hash = merge(merge(merge(merge(hash, a), b), c), d);
    }
    hash += length;
    for (; end - at >= 8; at += 8)
        hash = rotate(hash ^ mix(0, read_64(at)), 27) * PRIME_1 + PRIME_4;
    if (end - at >= 4) {
        hash = rotate(hash ^ read_32(at) * PRIME_1, 23) * PRIME_2 + PRIME_3;
        at += 4;
    }
    for (; at < end; at++)
        hash = rotate(hash ^ (uint8_t)*at * PRIME_5, 11) * PRIME_1;
    hash = (hash ^ hash >> 33) * PRIME_2;
    hash = (hash ^ hash >> 29) * PRIME_3;
    return hash ^ hash >> 32;
}

bool is_zero_page(const char *page)
{
    return read_64(page) == 0 && !memcmp(page, page + 8, PAGE_BYTES - 8);
}

static bool is_zero(const char *bytes, uint64_t length)
{
    if (length == PAGE_BYTES)
        return is_zero_page(bytes);
    for (uint64_t at = 0; at < length; at++)
        if (bytes[at])
            return false;
    return true;
}

uint64_t page_checksum(const char *page, uint64_t length, uint64_t number)
{
    return is_zero(page, length) ? 0 : bytes_checksum(page, length, number);
}

/* Fills the buffer unless the file ends first. Returns how many bytes it read. */
static uint64_t read_fully(int fd, char *buffer, uint64_t length, uint64_t offset, const char *path)
{
    uint64_t done = 0;
    while (done < length) {
        ssize_t got = pread(fd, buffer + done, length - done, (off_t)(offset + done));
        if (got == -1 && errno == EINTR)
            continue;
        CHECK(got, "read %s", path);
        if (got == 0)
            break;
        done += (uint64_t)got;
    }
    return done;
}

uint64_t file_checksum(int fd, const char *path)
{
    static char buffer[READ_BYTES];
    struct stat status;
    CHECK(fstat(fd, &status), "stat %s", path);
    uint64_t size = (uint64_t)status.st_size, sum = 0, at = 0;
    while (at < size) {
        off_t data = lseek(fd, (off_t)at, SEEK_DATA);
        if (data == -1 && errno == ENXIO)
            break;
        CHECK(data, "find data of %s", path);
        /* Blocks of the file system may be smaller than pages. */
        at = (uint64_t)data & ~(uint64_t)(PAGE_BYTES - 1);
        uint64_t end = (uint64_t)CHECK(lseek(fd, data, SEEK_HOLE), "find a hole in %s", path);
        end = (end + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
        while (at < end && at < size) {
            uint64_t wanted = end - at < READ_BYTES ? end - at : READ_BYTES;
            uint64_t got = read_fully(fd, buffer, wanted, at, path);
            for (uint64_t done = 0; done < got; done += PAGE_BYTES) {
                uint64_t length = got - done < PAGE_BYTES ? got - done : PAGE_BYTES;
                sum += page_checksum(buffer + done, length, (at + done) / PAGE_BYTES);
            }
            if (got < wanted)
                return sum;
            at += got;
        }
    }
    return sum;
}
