#pragma once

#include "config.h"

/*
 * Mounts every volume of the configuration below `root`, the overlay that is going to be the burrow's root directory.
 */
void mount_volumes(int root, const struct config *config);
