#include "namespaces.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report.h"

pid_t fork_into(int flags)
{
    /* A null stack makes clone(2) behave like fork(2): the child goes on with a copy of ours. */
    return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

void write_file(const char *path, const char *text)
{
    int fd = CHECK(open(path, O_WRONLY | O_CLOEXEC), "open %s", path);
    CHECK(write(fd, text, strlen(text)), "write %s", path);
    close(fd);
}

void map_ids(pid_t child, uint32_t base, uint32_t count)
{
    char path[64], map[64];
    snprintf(map, sizeof(map), "0 %u %u\n", base, count);
    snprintf(path, sizeof(path), "/proc/%d/uid_map", child);
    write_file(path, map);
    snprintf(path, sizeof(path), "/proc/%d/gid_map", child);
    write_file(path, map);
}

void become_inner_root(void)
{
    CHECK(setgroups(0, NULL), "setgroups");
    CHECK(setresgid(0, 0, 0), "setresgid");
    CHECK(setresuid(0, 0, 0), "setresuid");
}
