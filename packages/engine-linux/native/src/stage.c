#include "stage.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
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

static const struct { const char *name; bool is_of_host; } directories[] = {
    {"/proc", true}, {"/sys", true}, {"/dev", false},
};
#define COUNT (sizeof(directories) / sizeof(*directories))

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

struct stage make_stage(uint32_t owner)
{
    struct stage stage = {
        .proc = CHECK(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), "open /proc"),
        .directory = CHECK(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), "open the current directory"),
        .socket = make_socket_mount(owner),
    };
    stage.host = open_own_mounts(stage.proc);
    leave_mounts_of_host();
    int trees[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        trees[i] = directories[i].is_of_host ? clone_tree(directories[i].name, AT_RECURSIVE) : -1;
    const char *options = "mode=0755,size=4k,nr_inodes=8";
    CHECK(mount("tmpfs", ANY_DIRECTORY, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options), "make the stage");
    CHECK(chdir(ANY_DIRECTORY), "enter the stage");
    for (size_t i = 0; i < COUNT; i++) {
        const char *name = directories[i].name + 1;
        CHECK(mkdir(name, 0755), "make /%s of the stage", name);
        if (trees[i] != -1)
            attach(trees[i], open_below(AT_FDCWD, name), name);
    }
    attach(make_devices(owner), open_below(AT_FDCWD, "dev"), "dev");
    CHECK(syscall(SYS_pivot_root, ".", "."), "pivot_root");
    CHECK(umount2(".", MNT_DETACH), "detach the root of the host");
    CHECK(chdir("/"), "enter the stage");
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
    stage->devices = clone_tree("/dev", 0);
    for (size_t i = 0; i < COUNT; i++)
        if (directories[i].is_of_host)
            CHECK(umount2(directories[i].name, MNT_DETACH), "empty the stage");
    CHECK(umount2("/dev", MNT_DETACH), "empty the stage");
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
