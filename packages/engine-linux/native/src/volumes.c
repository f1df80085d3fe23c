/*
 * Volumes: directories of the host that several burrows can mount. The sandbox controls the path of the mount point. So
 * this resolves it one part at a time without following links: it ends where the path says, or fails.
 */
#include "volumes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mounts.h"
#include "report.h"

#define PART_MAX_BYTES 255

/* Opens the directory `part` in `parent`, and makes it if it is missing. Nothing runs in the burrow yet. */
static int enter_part(int parent, const char *part, const char *path, uint32_t owner)
{
    if (mkdirat(parent, part, 0755) == 0) {
        if (fchownat(parent, part, owner, owner, AT_SYMLINK_NOFOLLOW) == -1)
            fail("volume at %s", path);
    } else if (errno != EEXIST) {
        fail("volume at %s", path);
    }
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        /* NO_XDEV: a volume cannot be mounted inside another mount, such as /dev, /.dormouse or a volume. */
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    return (int)CHECK(syscall(SYS_openat2, parent, part, &how, sizeof(how)), "volume at %s", path);
}

static int enter_path(int root, const char *path, uint32_t owner)
{
    int at = CHECK(fcntl(root, F_DUPFD_CLOEXEC, 0), "volume at %s", path);
    for (const char *rest = path; *rest == '/';) {
        const char *start = rest + 1;
        size_t length = strcspn(start, "/");
        char part[PART_MAX_BYTES + 1];
        if (length == 0 || length > PART_MAX_BYTES)
            refuse("volume at %s: not a path", path);
        memcpy(part, start, length);
        part[length] = '\0';
        if (!strcmp(part, ".") || !strcmp(part, ".."))
            refuse("volume at %s: not a path", path);
        int next = enter_part(at, part, path, owner);
        close(at);
        at = next;
        rest = start + length;
    }
    return at;
}

static void mount_volume(int root, int volumes, const char *volume, uint32_t owner)
{
    char mode[3], name[64];
    int length = 0;
    if (sscanf(volume, "%2[rwo] %63[a-z0-9-] %n", mode, name, &length) != 2 || length == 0 || volume[length] != '/')
        refuse("config: volume is not valid");
    const char *path = volume + length;
    bool read_only = !strcmp(mode, "ro");
    int tree = CHECK(open_tree(volumes, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW), "open %s", name);
    /* Not noexec: a volume may contain programs. */
    struct mount_attr attributes = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (read_only ? MOUNT_ATTR_RDONLY : 0),
    };
    CHECK(mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)), "attributes of %s", name);
    attach(tree, enter_path(root, path, owner), path);
}

void mount_volumes(int root, const struct config *config)
{
    if (config->volume_count == 0)
        return;
    if (!config->volumes)
        refuse("config is incomplete");
    int volumes = CHECK(open(config->volumes, O_PATH | O_DIRECTORY | O_CLOEXEC), "open volumes");
    for (size_t i = 0; i < config->volume_count; i++)
        mount_volume(root, volumes, config->volume[i], config->uid_base);
    close(volumes);
}
