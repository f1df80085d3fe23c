#pragma once

/* Post: the file or directory, and all that is below it, is on disk. Nothing is followed out of it. */
void sync_tree(const char *path);
