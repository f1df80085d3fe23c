#pragma once

#include <stdint.h>

/* A read-only file system with the few devices of a burrow, as a mount not yet attached anywhere. */
int make_devices(uint32_t owner);

/* Directory of that file system which is always empty: what masked directories show. */
#define EMPTY_DIRECTORY "dev/.masked"
