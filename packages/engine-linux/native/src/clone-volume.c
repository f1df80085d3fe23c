#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "copy-file.h"
#include "report.h"
#include "show-files.h"
#include "volume.h"

#define LINKS_MAX (1u << 20)
#define USER_PREFIX "user."

/* Where the first name of a file with several names was copied to. */
struct copied {
    ino_t inode;
    char *path;
};

static struct copied *links;
static size_t links_room, links_count;
static int root;

static struct copied *find_link(ino_t inode)
{
    for (size_t at = inode & (links_room - 1);; at = (at + 1) & (links_room - 1))
        if (!links[at].path || links[at].inode == inode)
            return &links[at];
}

static void remember_link(ino_t inode, const char *path)
{
    if (links_count * 2 >= links_room) {
        struct copied *before = links;
        size_t room = links_room;
        if (room > LINKS_MAX)
            answer_error(E2BIG);
        links_room = room ? room * 2 : 1024;
        if (!(links = calloc(links_room, sizeof(*links))))
            answer_error(ENOMEM);
        for (size_t i = 0; i < room; i++)
            if (before[i].path)
                *find_link(before[i].inode) = before[i];
        free(before);
    }
    struct copied *place = find_link(inode);
    if (!(place->path = strdup(path)))
        answer_error(ENOMEM);
    place->inode = inode;
    links_count++;
}

/* Others than those of users mean something to the system, and cannot be set here. */
static void copy_user_attributes(int from, int to)
{
    static char names[XATTR_LIST_MAX], value[XATTR_SIZE_MAX];
    ssize_t length = flistxattr(from, names, sizeof(names));
    for (char *name = names; name < names + length; name += strlen(name) + 1) {
        if (strncmp(name, USER_PREFIX, strlen(USER_PREFIX)))
            continue;
        ssize_t size = fgetxattr(from, name, value, sizeof(value));
        if (size >= 0 && fsetxattr(to, name, value, (size_t)size, 0))
            answer_error(errno);
    }
}

static void copy_regular(int from, const char *name, int to, const char *path)
{
    int source = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat stat;
    /* It was removed or replaced meanwhile. */
    if (source == -1 || fstat(source, &stat) || !S_ISREG(stat.st_mode)) {
        if (source == -1 && errno != ENOENT && errno != ELOOP && errno != ENXIO)
            answer_error(errno);
        close(source);
        return;
    }
    struct copied *known = stat.st_nlink > 1 && links_room ? find_link(stat.st_ino) : NULL;
    if (known && known->path) {
        if (linkat(root, known->path, to, name, 0))
            answer_error(errno);
        close(source);
        return;
    }
    int target = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (target == -1)
        answer_error(errno);
    copy_content(source, target, path);
    copy_user_attributes(source, target);
    copy_attributes(source, target, path);
    if (stat.st_nlink > 1)
        remember_link(stat.st_ino, path);
    close(source);
    close(target);
}

static void copy_link(int from, const char *name, int to, const struct stat *stat)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(from, name, target, sizeof(target) - 1);
    if (length == -1)
        return;
    target[length] = '\0';
    struct timespec times[] = {stat->st_atim, stat->st_mtim};
    if (symlinkat(target, to, name) || fchownat(to, name, stat->st_uid, stat->st_gid, AT_SYMLINK_NOFOLLOW) ||
        utimensat(to, name, times, AT_SYMLINK_NOFOLLOW))
        answer_error(errno);
}

static void copy_below(int from, int to, const char *path);

static void copy_directory(int from, const char *name, int to, const char *path)
{
    int source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (source == -1) {
        if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
            answer_error(errno);
        return;
    }
    if (mkdirat(to, name, 0700))
        answer_error(errno);
    int target = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (target == -1)
        answer_error(errno);
    copy_below(source, target, path);
    copy_user_attributes(source, target);
    copy_attributes(source, target, path);
    close(source);
    close(target);
}

/* `path` is relative to the root of the copy. */
static void copy_below(int from, int to, const char *path)
{
    size_t count;
    char **names = sorted_names(from, &count);
    for (size_t i = 0; i < count; i++) {
        char *below;
        struct stat stat;
        if (asprintf(&below, "%s%s%s", path, *path ? "/" : "", names[i]) == -1)
            answer_error(ENOMEM);
        if (fstatat(from, names[i], &stat, AT_SYMLINK_NOFOLLOW) == 0) {
            if (S_ISREG(stat.st_mode))
                copy_regular(from, names[i], to, below);
            else if (S_ISDIR(stat.st_mode))
                copy_directory(from, names[i], to, below);
            else if (S_ISLNK(stat.st_mode))
                copy_link(from, names[i], to, &stat);
            else if (S_ISFIFO(stat.st_mode) && mknodat(to, names[i], S_IFIFO | (stat.st_mode & 07777), 0))
                answer_error(errno);
        }
        free(below);
        free(names[i]);
    }
    free(names);
}

void clone_volume(int target)
{
    int source = CHECK(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open volume");
    root = target;
    copy_below(source, target, "");
    copy_user_attributes(source, target);
    copy_attributes(source, target, "/");
}

void sync_volume(int directory)
{
    int fd = directory == AT_FDCWD ? CHECK(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open volume") : directory;
    if (syncfs(fd))
        answer_error(errno);
}
