#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* The limit of overlayfs for one mount. */
#define LAYERS_MAX 500

/* A list of strings, as read from standard input. */
struct names {
    char **items;
    size_t count;
};

struct chain {
    struct names layers;  /* top first */
    struct names below;   /* what lies under the last of them, top first */
    struct names open;    /* paths that the sandbox has open, for `scan` */
    struct names carried; /* paths in the first layer whose origin must stay, for `scan` */
};

/* What the kernel shows of these directories, one on top of the other: a directory for reading. */
int open_view(const char *mount_point, const struct names *upper, const struct names *lower);

/* One name of a directory, never followed. -1 when there is nothing. */
int open_entry(int directory, const char *name, int flags);
bool find_entry(int directory, const char *name, struct stat *status);
bool is_whiteout(const struct stat *status);
/* Whether a directory hides everything of its name below. */
bool is_opaque(int directory);
/* Whether a directory came here by a rename: what lies below it has another path. */
bool is_redirected(int directory);

/* Calls `visit` for every name but `.` and `..`. */
void each_entry(int directory, void (*visit)(const char *name, void *context), void *context);

/* Prints one line per layer: `BYTES RENAMES KNOWN`. */
void scan_layers(const struct chain *chain, const char *mount_point);
/*
 * Makes in the empty directory `into` one layer that shows, on top of `below`, what `layers` show there. Files in
 * renamed directories may have other names that stay outside: unless `breaks_links`, such a merge is refused.
 */
void merge_layers(const struct chain *chain, const char *mount_point, const char *into, bool breaks_links);
