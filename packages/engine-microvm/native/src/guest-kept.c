#include "guest-kept.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOCKETS "/.dormouse/run"

/* Kernel rule: a file that is a mount point among the mounts of a process cannot be removed by it. */
static const char *const devices[][2] = {
    {"/dev/null", "/dev/null"},     {"/dev/zero", "/dev/zero"},       {"/dev/full", "/dev/full"},
    {"/dev/random", "/dev/random"}, {"/dev/urandom", "/dev/urandom"}, {"/dev/tty", "/dev/tty"},
    {"/dev/fuse", "/dev/fuse"},
    /* Kernel rule: bound to another place, ptmx finds its terminals only if it is the one of their file system. */
    {"/dev/pts/ptmx", "/dev/ptmx"},
};

static int enter_mounts(pid_t agent)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/mnt", agent);
    int mounts = open(path, O_RDONLY | O_CLOEXEC);
    return mounts == -1 ? -1 : setns(mounts, CLONE_NEWNS);
}

static int keep_all(pid_t agent)
{
    if (enter_mounts(agent) == -1)
        return -1;
    for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++)
        if (mount(devices[i][0], devices[i][1], NULL, MS_BIND, NULL) == -1)
            return -1;
    /* PID 1 has a mount of its own, which stays writable: sockets of volumes come and go. */
    return mount(NULL, SOCKETS, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

int keep_files(pid_t agent)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(keep_all(agent) == 0 ? 0 : errno);
    int status;
    if (pid == -1 || waitpid(pid, &status, 0) == -1)
        return -1;
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    return errno == 0 ? 0 : -1;
}
