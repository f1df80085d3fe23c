#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define XATTRS_MAX 32

struct tar_xattr {
    char *name, *value;
    size_t length;
};

/* One entry, with everything that pax and GNU headers said about it. */
struct tar_entry {
    char *path, *link;
    char type;
    mode_t mode;
    uint64_t uid, gid, size;
    struct timespec modified;
    struct tar_xattr xattrs[XATTRS_MAX];
    size_t xattr_count;
};

/* Reads an archive from `fd` and writes every byte of it to `copy` as well. */
void tar_open(int fd, int copy);
/* Reads the next header. False at the end of the archive, when all of the stream has been read. */
bool tar_next(struct tar_entry *entry);
/* The next piece of the entry's data: a pointer into a buffer that the next call overwrites. 0 bytes at the end. */
size_t tar_data(const char **piece);
