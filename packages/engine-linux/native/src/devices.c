#include "devices.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "report.h"

static const struct { const char *name; unsigned int major, minor; } devices[] = {
    {"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

static const struct { const char *name; const char *target; } links[] = {
    {"fd", "/proc/self/fd"},         {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"},   {"ptmx", "pts/ptmx"},
    /* On the overlay, not on a tmpfs of its own: snapshots save shared memory together with the other files. */
    {"shm", "/run/shm"},
};

static const struct { const char *name; mode_t mode; } directories[] = {
    {"pts", 0755}, {".masked", 0}, {".limits", 0}, {"mqueue", 0755},
};

static void own(int dir, const char *name, uint32_t owner)
{
    CHECK(fchownat(dir, name, owner, owner, AT_SYMLINK_NOFOLLOW), "own /dev/%s", name);
}

int make_devices(uint32_t owner)
{
    int context = CHECK(fsopen("tmpfs", FSOPEN_CLOEXEC), "new /dev");
    CHECK(fsconfig(context, FSCONFIG_SET_STRING, "mode", "0755", 0), "mode of /dev");
    CHECK(fsconfig(context, FSCONFIG_SET_STRING, "size", "64k", 0), "size of /dev");
    CHECK(fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0), "create /dev");
    int dev = CHECK(fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), "new /dev");
    close(context);

    mode_t before = umask(0);
    for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++) {
        dev_t number = makedev(devices[i].major, devices[i].minor);
        CHECK(mknodat(dev, devices[i].name, S_IFCHR | 0666, number), "/dev/%s", devices[i].name);
        own(dev, devices[i].name, owner);
    }
    for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
        CHECK(symlinkat(links[i].target, dev, links[i].name), "/dev/%s", links[i].name);
        own(dev, links[i].name, owner);
    }
    for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++) {
        CHECK(mkdirat(dev, directories[i].name, directories[i].mode), "/dev/%s", directories[i].name);
        own(dev, directories[i].name, owner);
    }
    umask(before);
    own(dev, ".", owner);
    /* On a read-only mount device files stay writable; only the directory cannot be changed. */
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    CHECK(mount_setattr(dev, "", AT_EMPTY_PATH, &attr, sizeof(attr)), "close /dev");
    return dev;
}
