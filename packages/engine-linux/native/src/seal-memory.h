#pragma once

#include <stdint.h>

/* An extended attribute of a memory file, which several snapshots share. Only the host's root can read or write it. */
#define SEAL "trusted.dormouse.seal"

struct seal {
    uint64_t checksum;
    uint64_t mtime_ns; /* of our last write */
};

/* Records the checksum of a memory file that is complete. */
struct seal write_seal(int fd, const char *path, uint64_t checksum);
