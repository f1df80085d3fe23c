#pragma once

#include <stdbool.h>

/* Each takes two open files and a name for messages. Holes stay holes; blocks are shared where the file system can. */
void copy_content(int from, int to, const char *path);
/* Owner, mode and times. */
void copy_attributes(int from, int to, const char *path);
/*
 * The same with extended attributes. After the content, which would change the times again. Those of overlayfs belong
 * to the place of a file in its layer rather than to the file.
 */
void copy_metadata(int from, int to, const char *path, bool with_overlay);
