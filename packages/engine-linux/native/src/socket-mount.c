#include "socket-mount.h"

#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "report.h"

/* Until the engine removes the directory, root inside can write here: no more room than the socket needs. */
#define MOUNT_SIZE "4k"
/* The root directory and the socket. A hard link counts as an inode too: see shmem_link() in the kernel. */
#define MOUNT_INODES "2"

int make_socket_mount(uint32_t owner)
{
    char id[16];
    snprintf(id, sizeof(id), "%u", owner);
    const struct { const char *key, *value; } options[] = {
        {"mode", "0755"}, {"uid", id}, {"gid", id}, {"size", MOUNT_SIZE}, {"nr_inodes", MOUNT_INODES},
    };
    int context = CHECK(fsopen("tmpfs", FSOPEN_CLOEXEC), "new socket mount");
    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
        CHECK(fsconfig(context, FSCONFIG_SET_STRING, options[i].key, options[i].value, 0), "%s of the socket mount",
              options[i].key);
    CHECK(fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0), "create socket mount");
    const unsigned int attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    int made = CHECK(fsmount(context, FSMOUNT_CLOEXEC, attributes), "new socket mount");
    close(context);
    return made;
}
