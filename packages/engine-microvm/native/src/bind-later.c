#include "bind-later.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report.h"

#define ENTRIES_MAX 700
/* Numbers of the kernel's interface; old headers lack them. */
#define TREE_CLONE 1
#define MOVE_FROM_EMPTY_PATH 4

struct entry {
    int tree;
    char *target;
};

static struct entry entries[ENTRIES_MAX];
static size_t entry_count;

static void read_entry(char *line)
{
    char *target = strchr(line, '\t');
    if (!target || target[1] != '/' || entry_count == ENTRIES_MAX)
        refuse("a bad entry, or too many");
    *target++ = 0;
    int tree = (int)CHECK(syscall(SYS_open_tree, AT_FDCWD, line, TREE_CLONE | O_CLOEXEC), "%s", line);
    if (!(target = strdup(target)))
        fail("memory");
    entries[entry_count++] = (struct entry){tree, target};
}

/* False at the end of the input: the caller no longer needs the program. */
static bool read_entries(void)
{
    char line[8192];
    while (fgets(line, sizeof(line), stdin)) {
        size_t length = strcspn(line, "\n");
        if (line[length] != '\n')
            refuse("a line is too long");
        line[length] = 0;
        if (length == 0)
            return true;
        read_entry(line);
    }
    return false;
}

void bind_later(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/mnt", pid);
    /* Opened now: later this pid may belong to another process. */
    int mounts = CHECK(open(path, O_RDONLY | O_CLOEXEC), "%s", path);
    if (!read_entries())
        return;
    /* Kernel rule: this also makes the root of that namespace our root. Its mounts are ours; the program changes none. */
    CHECK(setns(mounts, CLONE_NEWNS), "mount namespace");
    for (size_t i = 0; i < entry_count; i++) {
        const char *target = entries[i].target;
        close(CHECK(open(target, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644), "%s", target));
        CHECK(syscall(SYS_move_mount, entries[i].tree, "", AT_FDCWD, target, MOVE_FROM_EMPTY_PATH), "binding %s", target);
        CHECK(mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_RDONLY, NULL), "%s", target);
    }
    report("bound");
}
