#pragma once

#include <stdbool.h>

/*
 * Each function takes two open files and a name for error messages. Holes stay holes, and blocks are shared where the
 * file system supports it.
 */
void copy_content(int from, int to, const char *path);
/* Copies owner, mode and times. */
void copy_attributes(int from, int to, const char *path);
/*
 * Copies owner, mode, times and extended attributes. Call it after copying the content, which changes the times.
 * overlayfs' own attributes describe the position of a file in its layer, so they are copied only `with_overlay`.
 */
void copy_metadata(int from, int to, const char *path, bool with_overlay);
