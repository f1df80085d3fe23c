#include "live-status.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool read_status(pid_t process, pid_t thread, struct live_status *status)
{
    char path[64], text[8192];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/status", process, thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return false;
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    /* The first line has the name of the thread, in which the kernel escapes line ends. */
    const char *users = strstr(text, "\nUid:"), *filters = strstr(text, "\nSeccomp_filters:");
    return users && filters && sscanf(users, "\nUid: %*u %*u %*u %u", &status->user) == 1 &&
           sscanf(filters, "\nSeccomp_filters: %u", &status->filters) == 1;
}
