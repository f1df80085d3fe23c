#include "join-cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static bool write_zero(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd == -1)
        return false;
    bool is_written = write(fd, "0", 1) == 1;
    int error = errno;
    close(fd);
    errno = error;
    return is_written;
}

bool join_cgroup(const char *directory)
{
    /*
     * Kernel rule: a thread that moves only itself needs no global lock over the machine's processes. Taking that lock
     * costs milliseconds, tens of them on a busy machine. Only v1 can move a single thread, and only v1 has this file.
     */
    return write_zero(directory, "tasks") || (errno == ENOENT && write_zero(directory, "cgroup.procs"));
}
