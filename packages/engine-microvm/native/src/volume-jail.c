#include "volume-jail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capabilities.h"
#include "filters.h"
#include "namespaces.h"
#include "report.h"
#include "volume-handles.h"


/* As real root, in a mount namespace of its own that the user namespace does not own. */
static void enter_root(const struct volume_jail *jail)
{
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
    int tree = (int)CHECK(syscall(SYS_open_tree, AT_FDCWD, jail->directory, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW), "volume");
    struct mount_attr attributes = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | (jail->is_read_only ? MOUNT_ATTR_RDONLY : 0),
    };
    CHECK(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)), "volume");
    CHECK(syscall(SYS_move_mount, tree, "", AT_FDCWD, jail->directory, MOVE_MOUNT_F_EMPTY_PATH), "volume");
    CHECK(chdir(jail->directory), "volume");
    CHECK(syscall(SYS_pivot_root, ".", "."), "pivot_root");
    CHECK(umount2(".", MNT_DETACH), "old root");
    CHECK(chdir("/"), "/");
    close(tree);
}

static void limit_self(void)
{
    /* Open files and locks, and some that a request needs for a moment. */
    struct rlimit files = {3 * HANDLES_MAX, 3 * HANDLES_MAX}, processes = {0, 0}, core = {0, 0};
    CHECK(setrlimit(RLIMIT_NOFILE, &files), "limit of files");
    CHECK(setrlimit(RLIMIT_CORE, &core), "limit of dumps");
    CHECK(setrlimit(RLIMIT_NPROC, &processes), "limit of processes");
}

/* Reads one line of the child and passes it on. */
static void speak_for(pid_t child, int from)
{
    char line[512];
    ssize_t count = read(from, line, sizeof(line) - 1);
    if (count > 0 && strncmp(line, "ready", 5) == 0) {
        report("ready %d", child);
        exit(0);
    }
    line[count > 0 ? count : 0] = 0;
    report("%.*s", (int)strcspn(line, "\n"), count > 0 ? line : "error it ended");
    exit(1);
}

void enter_volume(struct volume_jail *jail)
{
    int said[2], made[2], mapped[2];
    CHECK(pipe2(said, O_CLOEXEC), "pipe");
    CHECK(pipe2(made, O_CLOEXEC), "pipe");
    CHECK(pipe2(mapped, O_CLOEXEC), "pipe");
    pid_t child = fork_into(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS, 0);
    char byte = 0;
    if (child > 0) {
        close(said[1]);
        close(made[1]);
        if (read(made[0], &byte, 1) == 1) {
            map_ids(child, jail->base, jail->count);
            CHECK(write(mapped[1], &byte, 1), "start");
        }
        speak_for(child, said[0]);
    }
    report_to(said[1]);
    jail->pid_pipe = said[1];
    CHECK(setsid(), "session");
    enter_root(jail);
    /* Kernel rule: the mount namespace stays one of the host, in which this process has no capability any more. */
    CHECK(unshare(CLONE_NEWUSER), "user namespace");
    CHECK(write(made[1], &byte, 1), "mapping");
    close(mapped[1]);
    if (read(mapped[0], &byte, 1) != 1)
        refuse("mapping");
    become_inner_root();
    limit_self();
    static const int KEPT[] = {CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE, CAP_CHOWN, CAP_FOWNER, CAP_FSETID};
    if (!keep_capabilities(capability_mask(KEPT, sizeof(KEPT) / sizeof(*KEPT))))
        fail("drop capabilities");
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
    filters_load();
    close(made[0]);
    close(made[1]);
    close(mapped[0]);
    close(said[0]);
}

void volume_ready(const struct volume_jail *jail)
{
    report("ready");
    close(jail->pid_pipe);
    /* The engine may end. Errors from now on have no reader. */
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
}
