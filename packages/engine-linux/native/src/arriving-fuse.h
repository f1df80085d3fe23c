#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "arriving-files.h"

/* Asks the engine for pages. */
typedef void (*want_pages)(const char *name, uint64_t first, uint64_t count);

/* Mounts the files, read-only, at `mount_point`. Returns the descriptor that requests of the kernel come from. */
int mount_arriving(const char *mount_point);
/* Answers one request of the kernel, or keeps it until its pages are there. False when nothing mounts the files. */
bool answer_request(int fuse, const struct arriving_files *files, want_pages want);
/* Answers the reads that were kept and can be answered now. */
void answer_waiting(int fuse, const struct arriving_files *files);
/* Asks again for everything that reads wait for. */
void want_all(const struct arriving_files *files, want_pages want);
