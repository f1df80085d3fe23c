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

struct volume {
    bool is_read_only;
    char name[64];
    const char *path;
};

static struct volume parse_volume(const char *text)
{
    struct volume volume;
    char mode[3];
    int length = 0;
    if (sscanf(text, "%2[rwo] %63[a-z0-9-] %n", mode, volume.name, &length) != 2 || length == 0 || text[length] != '/')
        refuse("config: volume is not valid");
    volume.path = text + length;
    volume.is_read_only = !strcmp(mode, "ro");
    return volume;
}

static int open_volume(int volumes, const struct volume *volume)
{
    const unsigned int flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW;
    int tree = CHECK(open_tree(volumes, volume->name, flags), "open %s", volume->name);
    /* Not noexec: a volume may contain programs. */
    struct mount_attr attributes = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (volume->is_read_only ? MOUNT_ATTR_RDONLY : 0),
        .propagation = MS_PRIVATE,
    };
    CHECK(mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)), "attributes of %s", volume->name);
    return tree;
}

struct volume_trees open_volumes(const struct config *config)
{
    struct volume_trees opened = {0};
    if (config->volume_count == 0)
        return opened;
    if (!config->volumes)
        refuse("config is incomplete");
    int volumes = CHECK(open(config->volumes, O_PATH | O_DIRECTORY | O_CLOEXEC), "open volumes");
    for (size_t i = 0; i < config->volume_count; i++) {
        const struct volume volume = parse_volume(config->volume[i]);
        opened.trees[i] = open_volume(volumes, &volume);
    }
    close(volumes);
    return opened;
}

void attach_volumes(int root, const struct config *config, const struct volume_trees *volumes, uint32_t owner)
{
    for (size_t i = 0; i < config->volume_count; i++) {
        const struct volume volume = parse_volume(config->volume[i]);
        attach(volumes->trees[i], enter_path(root, volume.path, owner), volume.path);
    }
}
