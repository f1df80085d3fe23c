#include "ceilings.h"

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The kernel derives both defaults from the host's memory and counts all burrows together: open files of the whole
 * machine, and epoll watches of one uid, which burrows share. The kernel already charges the memory of each file and
 * watch to the burrow's memory cgroup. That limit is enough; these ceilings would only let one burrow starve the
 * others. systemd raises file-max too.
 */
static const char *const ceilings[] = {"/proc/sys/fs/file-max", "/proc/sys/fs/epoll/max_user_watches"};

static void raise_one(const char *path)
{
    char text[32] = {0}, most[32];
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd == -1)
        return; /* Not writable, for example in a container. Burrows work without it. */
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
