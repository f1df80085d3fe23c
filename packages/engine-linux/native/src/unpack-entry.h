#pragma once

#include <stdint.h>

#include "tar-stream.h"

struct unpack_limits {
    uint64_t bytes, entries;
};

/* Unpacks all entries below the root directory of this process, and writes to `marks` what only real root can do. */
void unpack_all(struct unpack_limits limits, int marks);
