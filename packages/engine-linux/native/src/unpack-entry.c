/*
 * Writes the entries of an image layer to the root of this process, which is the layer's directory: whatever a path or
 * link says, it cannot lead out of it. Deletions (`.wh.` names) become what overlayfs understands.
 */
#include "unpack-entry.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "report.h"

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

struct kept_path {
    char *path;
    struct timespec modified;
};

struct paths {
    struct kept_path *items;
    size_t count, room;
};

/* Handled at the end: deletions apply to lower layers only, and unpacking into a directory changes its times. */
static struct paths deletions, directories;
static int mark_fd;

static void keep_path(struct paths *list, const char *path, struct timespec modified)
{
    if (list->count == list->room) {
        list->room = list->room ? list->room * 2 : 64;
        list->items = reallocarray(list->items, list->room, sizeof(*list->items));
        if (!list->items)
            refuse("out of memory");
    }
    char *copy = strdup(path);
    if (!copy)
        refuse("out of memory");
    list->items[list->count++] = (struct kept_path){copy, modified};
}

/* Makes `a/b` of `./a//b/`. Refuses `..`, and returns NULL for the root itself. */
static char *clean_path(char *path)
{
    char *to = path;
    for (char *from = path; *from;) {
        size_t length = strcspn(from, "/");
        if (length == 2 && !strncmp(from, "..", 2))
            refuse("the archive has an entry outside of its root: %.200s", path);
        if (length > 255)
            refuse("the archive has a name of %zu bytes", length);
        if (length > 0 && !(length == 1 && *from == '.')) {
            if (to != path)
                *to++ = '/';
            memmove(to, from, length);
            to += length;
        }
        from += length + (from[length] == '/');
    }
    *to = '\0';
    return to == path ? NULL : path;
}

/* These are mount points of every burrow. */
static bool is_ours(const char *path, bool is_directory)
{
    static const char *const mounts[] = {"proc", "sys", "dev"};
    size_t length = strcspn(path, "/");
    if (length == 9 && !strncmp(path, ".dormouse", length))
        return true;
    for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++)
        if (length == strlen(mounts[i]) && !strncmp(path, mounts[i], length))
            return path[length] == '/' || !is_directory;
    return false;
}

static void make_parents(char *path)
{
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) == -1 && errno != EEXIST)
            fail("make the directory %.200s", path);
        *slash = '/';
    }
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static void remove_existing(const char *path)
{
    struct stat status;
    if (lstat(path, &status) == -1) {
        if (errno != ENOENT)
            fail("look at %.200s", path);
    } else if (S_ISDIR(status.st_mode)) {
        CHECK(nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS), "replace %.200s", path);
    } else {
        CHECK(unlink(path), "replace %.200s", path);
    }
}

static void write_data(const char *path)
{
    int fd = CHECK(open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), "create %.200s", path);
    const char *piece;
    for (size_t count; (count = tar_data(&piece)) > 0;) {
        while (count > 0) {
            ssize_t written = CHECK(write(fd, piece, count), "write %.200s", path);
            piece += written;
            count -= (size_t)written;
        }
    }
    CHECK(close(fd), "close %.200s", path);
}

static void set_attributes(const char *path, const struct tar_entry *entry)
{
    if (entry->uid > UINT32_MAX || entry->gid > UINT32_MAX ||
        lchown(path, (uid_t)entry->uid, (gid_t)entry->gid) == -1) {
        if (errno != EINVAL && entry->uid <= UINT32_MAX && entry->gid <= UINT32_MAX)
            fail("change the owner of %.200s", path);
        refuse("%.200s belongs to %llu:%llu, and a sandbox has only ids up to 65535", path,
               (unsigned long long)entry->uid, (unsigned long long)entry->gid);
    }
    /* After chown, which clears setuid bits. */
    if (entry->type != '2')
        CHECK(chmod(path, entry->mode), "change the mode of %.200s", path);
    for (size_t i = 0; i < entry->xattr_count; i++) {
        const struct tar_xattr *xattr = &entry->xattrs[i];
        bool is_user = !strncmp(xattr->name, "user.", 5) && strncmp(xattr->name, "user.overlay.", 13) != 0;
        if (!is_user && strcmp(xattr->name, "security.capability") != 0)
            continue;
        /* File systems without user attributes exist; capabilities in a form that this kernel does not know, too. */
        if (lsetxattr(path, xattr->name, xattr->value, xattr->length, 0) == -1 && errno != EOPNOTSUPP &&
            errno != EINVAL && errno != EPERM)
            fail("set an attribute of %.200s", path);
    }
    struct timespec times[2] = {entry->modified, entry->modified};
    CHECK(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), "set the time of %.200s", path);
}

static void make_directory(const char *path, const struct tar_entry *entry)
{
    struct stat status;
    if (lstat(path, &status) == 0 && !S_ISDIR(status.st_mode))
        remove_existing(path);
    if (mkdir(path, 0700) == -1 && errno != EEXIST)
        fail("make the directory %.200s", path);
    set_attributes(path, entry);
    keep_path(&directories, path, entry->modified);
}

/* Returns whether the name stands for a deletion. */
static bool take_deletion(char *path, const struct tar_entry *entry)
{
    char *slash = strrchr(path, '/');
    char *name = slash ? slash + 1 : path;
    if (strncmp(name, WHITEOUT, strlen(WHITEOUT)) != 0)
        return false;
    make_parents(path);
    if (!strcmp(name, OPAQUE)) {
        if (!slash)
            refuse("a layer that hides everything below it is not supported");
        *slash = '\0';
        CHECK(dprintf(mark_fd, "%s%c", path, '\0'), "mark %.200s", path);
    } else if (strncmp(name, ".wh..wh.", 8) != 0) {
        char *hidden = name + strlen(WHITEOUT);
        memmove(name, hidden, strlen(hidden) + 1);
        if (*name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !is_ours(path, false))
            keep_path(&deletions, path, entry->modified);
    }
    return true;
}

static void unpack_entry(struct tar_entry *entry)
{
    char *path = clean_path(entry->path);
    bool is_directory = entry->type == '5';
    if (!path) {
        if (is_directory)
            set_attributes(".", entry);
        return;
    }
    if (is_ours(path, is_directory) || take_deletion(path, entry))
        return;
    make_parents(path);
    if (is_directory) {
        make_directory(path, entry);
        return;
    }
    switch (entry->type) {
    case '0': case '\0': case '7':
        remove_existing(path);
        write_data(path);
        break;
    case '1': {
        char *target = clean_path(entry->link);
        if (!target)
            refuse("the archive links %.200s to its root", path);
        if (strcmp(target, path) != 0) {
            remove_existing(path);
            CHECK(link(target, path), "link %.200s to %.200s", path, target);
        }
        return;
    }
    case '2':
        remove_existing(path);
        CHECK(symlink(entry->link, path), "link %.200s", path);
        break;
    case '6':
        remove_existing(path);
        CHECK(mkfifo(path, 0600), "make the pipe %.200s", path);
        break;
    default:
        /* Devices: a burrow has its own, and a layer must not bring others. */
        return;
    }
    set_attributes(path, entry);
}

/* A file that this layer has again is not deleted; a directory that it has again hides the one below. */
static void make_whiteouts(void)
{
    for (size_t i = 0; i < deletions.count; i++) {
        const char *path = deletions.items[i].path;
        struct stat status;
        if (lstat(path, &status) == -1)
            CHECK(mknod(path, S_IFCHR, makedev(0, 0)), "delete %.200s", path);
        else if (S_ISDIR(status.st_mode))
            CHECK(dprintf(mark_fd, "%s%c", path, '\0'), "mark %.200s", path);
    }
}

static void set_directory_times(void)
{
    for (size_t i = directories.count; i-- > 0;) {
        struct timespec times[2] = {directories.items[i].modified, directories.items[i].modified};
        /* A later entry may have replaced the directory. */
        if (utimensat(AT_FDCWD, directories.items[i].path, times, AT_SYMLINK_NOFOLLOW) == -1 && errno != ENOENT &&
            errno != ENOTDIR)
            fail("set the time of %.200s", directories.items[i].path);
    }
}

void unpack_all(struct unpack_limits limits, int marks)
{
    struct tar_entry entry = {0};
    uint64_t bytes = 0;
    mark_fd = marks;
    umask(0);
    for (uint64_t count = 0; tar_next(&entry); count++) {
        if (count >= limits.entries)
            refuse("the archive has more than %llu files", (unsigned long long)limits.entries);
        if (entry.size > limits.bytes || bytes > limits.bytes - entry.size)
            refuse("the archive is larger than %llu bytes", (unsigned long long)limits.bytes);
        bytes += entry.size;
        unpack_entry(&entry);
    }
    make_whiteouts();
    set_directory_times();
}
