#pragma once

/* Post: the file or directory, and everything below it, is on disk. Follows no links. */
void sync_tree(const char *path);
