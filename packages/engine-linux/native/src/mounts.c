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

#include "masks.h"
#include "network.h"
#include "overlay.h"
#include "report.h"
#include "show-limits.h"
#include "volumes.h"

/* Mounts of the host that a burrow shows; -1 where it has none. */
struct shown {
    int overlay, tools, run, memory, kdat, limits;
    struct volume_trees volumes;
};

int clone_tree(const char *path, unsigned int flags)
{
    return CHECK(open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | flags), "open %s", path);
}

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

/* Returns -1 without a source. */
static int show(const char *source, uint64_t attributes)
{
    if (!source)
        return -1;
    int tree = clone_tree(source, 0);
    /* The copy of a mount that others share would pass on to them, and so to the host, what is mounted on it. */
    struct mount_attr attr = {.attr_set = attributes, .propagation = MS_PRIVATE};
    CHECK(mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)), "attributes of %s", source);
    return tree;
}

static int open_overlay(const struct config *config)
{
    int overlay = new_overlay(config->overlay);
    if (overlay != -1)
        return overlay;
    leave_mounts_of_host();
    mount_overlay(config->root, config->overlay);
    return clone_tree(config->root, 0);
}

static struct shown open_shown(const struct config *config, const struct stage *stage)
{
    const uint64_t read_only = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    const uint64_t data_only = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    return (struct shown){
        /* First: it may have to leave the mount namespace. nodev: the devices in /dev are the only ones of a burrow. */
        .overlay = open_overlay(config),
        .tools = show(config->tools, read_only),
        .run = config->link ? show(config->link, data_only) : stage->socket,
        /* Not noexec: a program that generates code in memory must be able to make it executable after a sleep too. */
        .memory = show(config->memory, read_only),
        .kdat = show(config->kdat, data_only | MOUNT_ATTR_RDONLY),
        .limits = show(config->limits, data_only | MOUNT_ATTR_RDONLY),
        .volumes = open_volumes(config),
    };
}

static void attach_below(int root, int tree, const char *target)
{
    if (tree != -1)
        attach(tree, open_below(root, target), target);
}

int mount_outer(const struct config *config, const struct stage *stage, uint32_t owner)
{
    struct shown shown = open_shown(config, stage);
    enter_stage(stage);
    /* It covers the root of the stage: who enters a copy of the stage is in the overlay, and what is below is empty. */
    CHECK(move_mount(shown.overlay, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH), "mount overlay");
    int root = shown.overlay;
    attach_below(root, stage->devices, "dev");
    attach_below(root, shown.tools, ".dormouse");
    attach_below(root, shown.run, ".dormouse/run");
    attach_below(root, shown.memory, ".dormouse/memory");
    attach_below(root, shown.kdat, ".dormouse/kdat");
    attach_below(root, shown.limits, LIMITS_DIRECTORY);
    attach_volumes(root, config, &shown.volumes, owner);
    close(root);
    return copy_stage(stage);
}

/* A copy of /proc, /sys or /dev/pts with all that is mounted on it. */
static int keep(const char *path)
{
    return clone_tree(path, AT_RECURSIVE);
}

struct inner prepare_inner(void)
{
    /* The kernel lets a user namespace mount these two only while the host's own, unmasked ones are still visible. */
    CHECK(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "mount /proc");
    CHECK(mount("sysfs", "sys", "sysfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "mount /sys");
    /* The kernel counts terminals over all instances. Without `max` one burrow could use up all of them. */
    const char *terminals = "newinstance,ptmxmode=0666,mode=0620,gid=5,max=64";
    CHECK(mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, terminals), "mount /dev/pts");
    write_sysctls();
    network_up();
    int last_pid = open_last_pid();
    mask_paths();
    return (struct inner){.proc = keep("proc"), .sys = keep("sys"), .terminals = keep("dev/pts"), .last_pid = last_pid};
}

void mount_inner(const struct config *config, const struct inner *inner)
{
    int root = CHECK(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), "open root");
    attach_below(root, inner->proc, "proc");
    attach_below(root, inner->sys, "sys");
    attach_below(root, inner->terminals, "dev/pts");
    close(root);
    set_last_pid(inner->last_pid, config->last_pid);
    if (config->limits)
        show_limits();
}
