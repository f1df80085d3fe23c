#include "ceilings.h"

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The kernel's defaults for these are a share of the host's memory, counted over all burrows: open files of the
 * machine, and epoll watches of one uid, which burrows have in common. What each of them costs is charged to the memory
 * cgroup of whoever takes it, so the burrow's own limit is the bound, and a second one only lets neighbours starve.
 * systemd lifts the first too.
 */
static const char *const ceilings[] = {"/proc/sys/fs/file-max", "/proc/sys/fs/epoll/max_user_watches"};

static void raise_one(const char *path)
{
    char text[32] = {0}, most[32];
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd == -1)
        return; /* Not ours to set, as in a container: burrows work all the same. */
    int length = snprintf(most, sizeof(most), "%ld\n", LONG_MAX);
    if (pread(fd, text, sizeof(text) - 1, 0) > 0 && strtol(text, NULL, 10) < LONG_MAX) {
        ssize_t ignored = pwrite(fd, most, (size_t)length, 0);
        (void)ignored;
    }
    close(fd);
}

void raise_ceilings(void)
{
    for (size_t i = 0; i < sizeof(ceilings) / sizeof(*ceilings); i++)
        raise_one(ceilings[i]);
}
