#include "link.h"

#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "report.h"

/* Until the engine removes the directory, root inside can write here: no more room than the socket needs. */
#define LINK_SIZE "4k"
/* The root directory and the socket. A hard link counts as an inode too: see shmem_link() in the kernel. */
#define LINK_INODES "2"

int make_link(uint32_t owner)
{
    char id[16];
    snprintf(id, sizeof(id), "%u", owner);
    const struct { const char *key, *value; } options[] = {
        {"mode", "0755"}, {"uid", id}, {"gid", id}, {"size", LINK_SIZE}, {"nr_inodes", LINK_INODES},
    };
    int context = CHECK(fsopen("tmpfs", FSOPEN_CLOEXEC), "new link");
    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
        CHECK(fsconfig(context, FSCONFIG_SET_STRING, options[i].key, options[i].value, 0), "%s of the link", options[i].key);
    CHECK(fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0), "create link");
    int link = CHECK(fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC), "new link");
    close(context);
    return link;
}
