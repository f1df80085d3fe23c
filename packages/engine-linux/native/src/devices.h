#pragma once

#include <stdint.h>

/* Makes a read-only file system with the devices of a burrow. Returns a mount that is not attached yet. */
int make_devices(uint32_t owner);

/* An always empty directory of that file system, mounted over masked directories. */
#define EMPTY_DIRECTORY "dev/.masked"
