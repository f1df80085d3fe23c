#include "stage.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "devices.h"
#include "mounts.h"
#include "report.h"
#include "socket-mount.h"

/* Any directory that every host has: what is made there is the root afterwards. */
#define ANY_DIRECTORY "/sys"
/*
 * A file system of its own, with all that leaves the stage again. A process that detaches a mount waits for the
 * kernel once, however many mounts are below it.
 */
#define WORKSHOP "workshop"

static int open_own_mounts(int proc)
{
    return CHECK(openat(proc, "self/ns/mnt", O_RDONLY | O_CLOEXEC), "mount namespace");
}

void leave_mounts_of_host(void)
{
    CHECK(unshare(CLONE_NEWNS), "new mount namespace");
    /* Nothing that we mount may appear in the host's namespace. */
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "make mounts private");
}

static void mount_small(const char *target)
{
    const char *options = "mode=0755,size=4k,nr_inodes=8";
    CHECK(mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options), "make the stage");
    CHECK(chdir(target), "enter the stage");
}

static void attach_new(int tree, const char *name)
{
    CHECK(mkdir(name, 0755), "make /%s of the stage", name);
    attach(tree, open_below(AT_FDCWD, name), name);
}

struct stage make_stage(uint32_t owner)
{
    struct stage stage = {
        .proc = CHECK(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), "open /proc"),
        .directory = CHECK(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), "open the current directory"),
        .socket = make_socket_mount(owner),
    };
    stage.host = open_own_mounts(stage.proc);
    leave_mounts_of_host();
    int proc = clone_tree("/proc", AT_RECURSIVE), sys = clone_tree("/sys", AT_RECURSIVE);
    mount_small(ANY_DIRECTORY);
    CHECK(syscall(SYS_pivot_root, ".", "."), "pivot_root");
    CHECK(umount2(".", MNT_DETACH), "detach the root of the host");
    CHECK(chdir("/"), "enter the stage");
    CHECK(mkdir(WORKSHOP, 0755), "make the stage");
    mount_small(WORKSHOP);
    attach_new(proc, "proc");
    attach_new(sys, "sys");
    attach_new(make_devices(owner), "dev");
    return stage;
}

static int open_namespace(int proc, pid_t process, const char *kind)
{
    char path[64];
    snprintf(path, sizeof(path), "%d/ns/%s", process, kind);
    return CHECK(openat(proc, path, O_RDONLY | O_CLOEXEC), "%s namespace", kind);
}

void leave_stage(struct stage *stage, pid_t first)
{
    stage->users = open_namespace(stage->proc, first, "user");
    stage->copy = open_namespace(stage->proc, first, "mnt");
    stage->mounts = open_own_mounts(stage->proc);
    stage->devices = clone_tree("/" WORKSHOP "/dev", 0);
    CHECK(chdir("/"), "leave the stage");
    CHECK(umount2(WORKSHOP, MNT_DETACH), "empty the stage");
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    CHECK(mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)), "close the stage");
    CHECK(setns(stage->host, CLONE_NEWNS), "leave the stage");
    CHECK(fchdir(stage->directory), "leave the stage");
}

void enter_stage(const struct stage *stage)
{
    CHECK(setns(stage->mounts, CLONE_NEWNS), "enter the stage");
}

int copy_stage(const struct stage *stage)
{
    CHECK(setns(stage->users, CLONE_NEWUSER), "enter the user namespace");
    CHECK(unshare(CLONE_NEWNS), "copy the stage");
    return open_own_mounts(stage->proc);
}
