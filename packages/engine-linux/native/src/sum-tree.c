#include "sum-tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "checksum.h"
#include "report.h"

/* The kernel's limit for one file: see listxattr(2), getxattr(2). */
#define XATTR_BYTES 65536u

/*
 * A directory on the path to the current one: the subdirectories still to visit, and its identity, to check that `..`
 * leads back to it.
 */
struct level {
    struct level *above;
    char **names;
    size_t count, next;
    dev_t device;
    ino_t inode;
    uint64_t path;
    size_t shown;
};

struct walk {
    struct reading *reading;
    const struct visitor *visitor;
    struct level *level;
    dev_t device;
    /* Path from the root to here, as far as it fits. */
    char shown[SHOWN_MAX + 1];
    bool is_over;
};

/* Everything that the hash of one entry covers. `content` and `attributes` are hashes themselves. */
struct facts {
    uint64_t mode, uid, gid, size, seconds, nanoseconds, device, content, attributes;
};

static size_t show(struct walk *walk, size_t at, const char *name)
{
    if (at > 0 && at < SHOWN_MAX)
        walk->shown[at++] = '/';
    for (; *name && at < SHOWN_MAX; name++)
        walk->shown[at++] = *name >= ' ' && *name <= '~' ? *name : '?';
    walk->shown[at] = '\0';
    return at;
}

static const char *shown(const struct walk *walk)
{
    return walk->shown[0] ? walk->shown : ".";
}

/* A sum, because the kernel lists attributes in any order. */
static uint64_t sum_attributes(int fd)
{
    static char list[XATTR_BYTES], value[XATTR_BYTES];
    ssize_t length = flistxattr(fd, list, sizeof(list));
    uint64_t sum = 0;
    for (char *name = list; length > 0 && name < list + length; name += strlen(name) + 1) {
        ssize_t size = fgetxattr(fd, name, value, sizeof(value));
        if (size >= 0)
            sum += bytes_checksum(value, (uint64_t)size, bytes_checksum(name, strlen(name), 1));
    }
    return sum;
}

static uint64_t sum_link(int directory, const char *name)
{
    static char target[PATH_MAX];
    ssize_t length = readlinkat(directory, name, target, sizeof(target));
    return length < 0 ? 0 : bytes_checksum(target, (uint64_t)length, 2);
}

static uint64_t sum_facts(const struct stat *status, uint64_t content, uint64_t attributes, uint64_t path)
{
    /* The size of a directory depends on its past. */
    bool has_size = S_ISREG(status->st_mode) || S_ISLNK(status->st_mode);
    bool is_device = S_ISCHR(status->st_mode) || S_ISBLK(status->st_mode);
    struct facts facts = {
        .mode = status->st_mode,
        .uid = status->st_uid,
        .gid = status->st_gid,
        .size = has_size ? (uint64_t)status->st_size : 0,
        .seconds = (uint64_t)status->st_mtim.tv_sec,
        .nanoseconds = (uint64_t)status->st_mtim.tv_nsec,
        .device = is_device ? status->st_rdev : 0,
        .content = content,
        .attributes = attributes,
    };
    return bytes_checksum((const char *)&facts, sizeof(facts), path);
}

static void tell(struct walk *walk, struct entry_sums sums)
{
    if (!walk->visitor->visit(sums, shown(walk), walk->visitor->context))
        walk->is_over = true;
}

static void tell_unreadable(struct walk *walk)
{
    walk->visitor->unreadable(shown(walk), walk->visitor->context);
    walk->is_over = true;
}

/* Visits anything except a directory. */
static void visit_leaf(struct walk *walk, int directory, const char *name, const struct stat *status, uint64_t path)
{
    uint64_t content = 0, attributes = 0, size = 0;
    if (S_ISLNK(status->st_mode))
        content = sum_link(directory, name);
    if (S_ISREG(status->st_mode)) {
        if (!sum_file(directory, name, walk->reading, &size, &content))
            return tell_unreadable(walk);
        int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd == -1)
            return tell_unreadable(walk);
        attributes = sum_attributes(fd);
        close(fd);
    }
    tell(walk, (struct entry_sums){.path = path, .sum = sum_facts(status, content, attributes, path)});
}

static void remember_name(struct level *level, const char *name)
{
    if (level->count % 64 == 0) {
        level->names = reallocarray(level->names, level->count + 64, sizeof(*level->names));
        if (!level->names)
            fail("memory for names");
    }
    level->names[level->count] = strdup(name);
    if (!level->names[level->count++])
        fail("memory for names");
}

static void visit_entry(struct walk *walk, int directory, const char *name)
{
    struct level *level = walk->level;
    struct stat status;
    show(walk, level->shown, name);
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == -1)
        return tell_unreadable(walk);
    if (!S_ISDIR(status.st_mode))
        visit_leaf(walk, directory, name, &status, bytes_checksum(name, strlen(name), level->path));
    else if (status.st_dev == walk->device)
        remember_name(level, name);
}

/* Visits the directory itself and every entry that is not a directory. Its subdirectories come later. */
static void enter(struct walk *walk, int fd, uint64_t path, size_t shown_length)
{
    struct stat status;
    struct level *level = calloc(1, sizeof(*level));
    if (!level)
        fail("memory for a directory");
    CHECK(fstat(fd, &status), "stat directory");
    *level = (struct level){
        .above = walk->level,
        .device = status.st_dev,
        .inode = status.st_ino,
        .path = path,
        .shown = shown_length,
    };
    walk->level = level;
    tell(walk, (struct entry_sums){.path = path, .sum = sum_facts(&status, 0, sum_attributes(fd), path)});
    DIR *stream = fdopendir(CHECK(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open directory"));
    if (!stream)
        fail("read directory");
    errno = 0;
    for (struct dirent *entry; !walk->is_over && (entry = readdir(stream)); errno = 0)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            visit_entry(walk, fd, entry->d_name);
    if (!walk->is_over && errno) {
        walk->shown[shown_length] = '\0';
        tell_unreadable(walk);
    }
    closedir(stream);
}

static void leave(struct walk *walk)
{
    struct level *level = walk->level;
    walk->level = level->above;
    free(level->names);
    free(level);
}

/*
 * Opens `..`, so one open directory is enough for any depth. Directories do not move, because the tree does not change.
 */
static int go_up(struct walk *walk, int fd)
{
    struct stat status;
    int above = CHECK(openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "go up");
    close(fd);
    CHECK(fstat(above, &status), "stat directory");
    if (status.st_ino != walk->level->inode || status.st_dev != walk->level->device)
        refuse("the tree was changed while it was read");
    return above;
}

static int go_down(struct walk *walk, int fd, char *name)
{
    size_t length = show(walk, walk->level->shown, name);
    uint64_t path = bytes_checksum(name, strlen(name), walk->level->path);
    int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME);
    free(name);
    if (below == -1) {
        tell_unreadable(walk);
        return fd;
    }
    close(fd);
    enter(walk, below, path, length);
    return below;
}

void sum_tree(const char *root, struct reading *reading, const struct visitor *visitor)
{
    struct stat status;
    struct walk walk = {.reading = reading, .visitor = visitor};
    int fd = CHECK(open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), "open tree");
    CHECK(fstat(fd, &status), "stat tree");
    walk.device = status.st_dev;
    enter(&walk, fd, 0, 0);
    while (!walk.is_over && walk.level) {
        if (walk.level->next < walk.level->count) {
            fd = go_down(&walk, fd, walk.level->names[walk.level->next++]);
        } else {
            leave(&walk);
            if (walk.level)
                fd = go_up(&walk, fd);
        }
    }
    close(fd);
}
