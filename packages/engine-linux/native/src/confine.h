#pragma once

#include <stdbool.h>

/*
 * Of a CRIU that saves, in the burrow's namespaces but with the host's user namespace: leaves only the capabilities
 * over the host that a dump uses. false with errno set.
 */
bool confine_saver(bool has_volumes);
/*
 * Of a CRIU that restores, before it enters, because loading a filter takes a while: no_new_privs and the base filter.
 * All that it restores inherits them. false with errno set.
 */
bool filter_restorer(const char *path);
/* The same, once it is root of the burrow: leaves what a restore uses of root's capabilities. false with errno set. */
bool confine_restorer(void);
