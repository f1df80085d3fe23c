#include "mounts.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "devices.h"
#include "socket-mount.h"
#include "masks.h"
#include "network.h"
#include "overlay.h"
#include "report.h"
#include "show-limits.h"
#include "volumes.h"

int open_below(int root, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)CHECK(syscall(SYS_openat2, root, path, &how, sizeof(how)), "open /%s", path);
}

void attach(int mount_fd, int target_fd, const char *what)
{
    CHECK(move_mount(mount_fd, "", target_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH), "mount %s", what);
    close(mount_fd);
    close(target_fd);
}

static void bind_below(int root, const char *source, const char *target, uint64_t attributes)
{
    int tree = CHECK(open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC), "open %s", target);
    struct mount_attr attr = {.attr_set = attributes};
    CHECK(mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)), "attributes of /%s", target);
    attach(tree, open_below(root, target), target);
}

void mount_outer(const struct config *config)
{
    CHECK(unshare(CLONE_NEWNS), "new mount namespace");
    /* Nothing that we mount may appear in the host's namespace. */
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "make mounts private");
    /* nodev: the devices in /dev are the only ones of a burrow. */
    mount_overlay(config->root, config->overlay);
    int root = CHECK(open(config->root, O_PATH | O_DIRECTORY | O_CLOEXEC), "open root");
    attach(make_devices(config->uid_base), open_below(root, "dev"), "/dev");
    bind_below(root, config->tools, ".dormouse", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    const uint64_t data_only = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    if (config->link)
        bind_below(root, config->link, ".dormouse/run", data_only);
    else
        attach(make_socket_mount(config->uid_base), open_below(root, ".dormouse/run"), "/.dormouse/run");
    /* Not noexec: a program that generates code in memory must be able to make it executable after a sleep too. */
    if (config->memory)
        bind_below(root, config->memory, ".dormouse/memory", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (config->kdat)
        bind_below(root, config->kdat, ".dormouse/kdat", data_only | MOUNT_ATTR_RDONLY);
    if (config->limits)
        bind_below(root, config->limits, LIMITS_DIRECTORY, data_only | MOUNT_ATTR_RDONLY);
    mount_volumes(root, config);
    close(root);
    /*
     * The child's copy of the mount namespace keeps this current directory, even if the child cannot access the path to
     * it.
     */
    CHECK(chdir(config->root), "enter root");
}

void mount_inner(const struct config *config)
{
    /* The kernel lets a user namespace mount these two only while the host's own, unmasked ones are still visible. */
    CHECK(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "mount /proc");
    CHECK(mount("sysfs", "sys", "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "mount /sys");
    /* The kernel counts terminals over all instances. Without `max` one burrow could use up all of them. */
    const char *terminals = "newinstance,ptmxmode=0666,mode=0620,gid=5,max=64";
    CHECK(mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, terminals), "mount /dev/pts");
    write_sysctls();
    network_up();
    set_last_pid(config->last_pid);
    mask_paths();
    if (config->limits)
        show_limits();

    /*
     * Mounts inherited from a more privileged user namespace are locked in place, and pivot_root refuses a locked one.
     */
    int root = CHECK(open_tree(AT_FDCWD, ".", OPEN_TREE_CLONE | AT_RECURSIVE | OPEN_TREE_CLOEXEC), "clone root");
    CHECK(move_mount(root, "", AT_FDCWD, ".", MOVE_MOUNT_F_EMPTY_PATH), "mount root");
    CHECK(fchdir(root), "enter root");
    close(root);
    CHECK(syscall(SYS_pivot_root, ".", "."), "pivot_root");
    CHECK(umount2(".", MNT_DETACH), "detach host root");
    CHECK(chdir("/"), "enter new root");
}
