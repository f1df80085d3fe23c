#pragma once

#include <stdbool.h>

/*
 * For a CRIU that saves. It is in the burrow's namespaces but keeps the host's user namespace. Leaves only the
 * capabilities over the host that a dump uses. Returns false with errno set.
 */
bool confine_saver(bool has_volumes);
/*
 * For a CRIU that restores, before it enters the burrow, because loading a filter takes time: sets no_new_privs and
 * loads the base filter. Every process that it restores inherits both. Returns false with errno set.
 */
bool filter_restorer(const char *path);
/*
 * For a CRIU that restores, once it is root of the burrow: leaves the capabilities that a restore uses. Returns false
 * with errno set.
 */
bool confine_restorer(void);
