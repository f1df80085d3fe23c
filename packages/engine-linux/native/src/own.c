/*
 * dormouse-own BASE COUNT DIRECTORY
 *
 * Adds BASE to the owner and group of everything below a directory, and of the directory. Setuid bits stay, and file
 * capabilities become those of a user namespace whose root is BASE. Does not cross into other file systems.
 */
#include <endian.h>
#include <errno.h>
#include <ftw.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "report.h"

#define CAPABILITY "security.capability"
#define DEPTH_MAX 128

static uint32_t base, count;

static uint32_t id_argument(const char *text)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || *end || value == 0 || value > UINT32_MAX / 2)
        refuse("not an id: %s", text);
    return (uint32_t)value;
}

/* Returns whether the file has capabilities, in the form that names the root of their namespace. */
static bool read_capabilities(const char *path, struct vfs_ns_cap_data *found)
{
    ssize_t size = lgetxattr(path, CAPABILITY, found, sizeof(*found));
    if (size == -1 && (errno == ENODATA || errno == EOPNOTSUPP))
        return false;
    CHECK(size, "read the capabilities of %s", path);
    uint32_t magic = le32toh(found->magic_etc);
    if (size != XATTR_CAPS_SZ_2 || (magic & VFS_CAP_REVISION_MASK) != VFS_CAP_REVISION_2)
        refuse("%s has capabilities in an unknown form", path);
    found->magic_etc = htole32((magic & VFS_CAP_FLAGS_MASK) | VFS_CAP_REVISION_3);
    found->rootid = htole32(base);
    return true;
}

static int shift(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)walk;
    if (type == FTW_DNR || type == FTW_NS)
        refuse("cannot read %s", path);
    /* Another name of a file that has its new owner already. */
    if (status->st_nlink > 1 && !S_ISDIR(status->st_mode) && status->st_uid >= base)
        return 0;
    if (status->st_uid >= count || status->st_gid >= count)
        refuse("%s belongs to %u:%u, and a sandbox has only %u ids", path, status->st_uid, status->st_gid, count);
    struct vfs_ns_cap_data capabilities;
    bool has_capabilities = S_ISREG(status->st_mode) && read_capabilities(path, &capabilities);
    CHECK(lchown(path, status->st_uid + base, status->st_gid + base), "change the owner of %s", path);
    /* chown clears these bits, and the capabilities. */
    if (!S_ISLNK(status->st_mode) && (status->st_mode & (S_ISUID | S_ISGID)))
        CHECK(chmod(path, status->st_mode & 07777), "change the mode of %s", path);
    if (has_capabilities)
        CHECK(lsetxattr(path, CAPABILITY, &capabilities, sizeof(capabilities), 0), "set the capabilities of %s", path);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        refuse("usage: dormouse-own BASE COUNT DIRECTORY");
    base = id_argument(argv[1]);
    count = id_argument(argv[2]);
    if (base < count)
        refuse("the new ids overlap with the old ones");
    CHECK(nftw(argv[3], shift, DEPTH_MAX, FTW_PHYS | FTW_MOUNT), "walk through %s", argv[3]);
    return 0;
}
