#pragma once

#include "config.h"

/* Mounts every volume of the configuration below `root`, the overlay that becomes the root of the burrow. */
void mount_volumes(int root, const struct config *config);
