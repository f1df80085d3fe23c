#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* overlayfs allows this many layers in one mount. */
#define LAYERS_MAX 500

/* A list of strings, as read from standard input. */
struct names {
    char **items;
    size_t count;
};

struct chain {
    struct names layers;  /* top first */
    struct names below;   /* the layers under the last of them, top first */
    struct names open;    /* paths that the sandbox has open, for `scan` */
    struct names carried; /* paths in the first layer whose origin must be kept, for `scan` */
};

/* Returns a directory that shows `upper` stacked on `lower`, as overlayfs shows them. */
int open_view(const char *mount_point, const struct names *upper, const struct names *lower);

/* Opens or stats one name of a directory without following links. Returns -1 or false when it does not exist. */
int open_entry(int directory, const char *name, int flags);
bool find_entry(int directory, const char *name, struct stat *status);
bool is_whiteout(const struct stat *status);
/* Whether a directory hides everything of its name in lower layers. */
bool is_opaque(int directory);
/* Whether a directory was renamed: its lower layers are under another path. */
bool is_redirected(int directory);

/* Calls `visit` for every name except `.` and `..`. */
void each_entry(int directory, void (*visit)(const char *name, void *context), void *context);

/* Prints one line for each layer: `BYTES RENAMES KNOWN`. */
void scan_layers(const struct chain *chain, const char *mount_point);
/*
 * Writes to the empty directory `into` one layer that shows, on top of `below`, what `layers` show there. Files in
 * renamed directories may have hard links elsewhere. The merge would break those links, so it is refused unless
 * `breaks_links`.
 */
void merge_layers(const struct chain *chain, const char *mount_point, const char *into, bool breaks_links);
