#pragma once

#include <stdint.h>

#include "config.h"

/* The volumes of a configuration, as mounts that are not attached. */
struct volume_trees {
    int trees[MAX_LIST];
};

struct volume_trees open_volumes(const struct config *config);
/* Attaches them below `root`, the overlay that becomes the root of the burrow, whose root `owner` is. */
void attach_volumes(int root, const struct config *config, const struct volume_trees *volumes, uint32_t owner);
