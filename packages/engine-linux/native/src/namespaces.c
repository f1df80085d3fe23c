#include "namespaces.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report.h"

pid_t fork_into(int flags, uid_t owner)
{
    /*
     * The kernel charges per-user limits (inotify, namespaces) also to the user who created the user namespace: the
     * effective uid at this moment. NO_SETUID_FIXUP keeps our capabilities when that uid changes.
     */
    CHECK(prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP), "keep capabilities");
    CHECK(setresuid((uid_t)-1, owner, (uid_t)-1), "become owner");
    /* A null stack makes clone(2) behave like fork(2): the child continues on a copy of our stack. */
    pid_t child = (pid_t)CHECK(syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL), "new namespaces");
    if (child == 0)
        return 0; /* In a new user namespace a process starts with all capabilities and default securebits. */
    CHECK(setresuid((uid_t)-1, 0, (uid_t)-1), "become root again");
    CHECK(prctl(PR_SET_SECUREBITS, 0), "reset securebits");
    return child;
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
