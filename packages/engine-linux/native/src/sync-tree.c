#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"
#include "sync-tree.h"

/*
 * Up to this many files are synced one by one, which does not flush what others have written. With more, flushing the
 * whole file system is faster.
 */
#define FILES_MAX 400
/* Each level holds a descriptor open; deeper trees use syncfs. */
#define DEPTH_MAX 64

struct walk {
    int count;
    /*
     * The first pass only starts writing, so that blocks of all files are allocated before the first wait for the
     * journal.
     */
    bool waits;
};

static bool sync_entry(struct walk *walk, int parent, const char *name, int depth);

static bool sync_entries(struct walk *walk, int fd, const char *path, int depth)
{
    int own = CHECK(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open %s", path);
    DIR *directory = fdopendir(own);
    if (!directory)
        fail("list %s", path);
    bool fits = depth < DEPTH_MAX;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(directory);
        if (!entry || !fits)
            break;
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            fits = sync_entry(walk, fd, entry->d_name, depth + 1);
    }
    if (errno)
        fail("list %s", path);
    closedir(directory);
    return fits;
}

/* Returns false when there is too much below. */
static bool sync_entry(struct walk *walk, int parent, const char *name, int depth)
{
    struct stat status;
    CHECK(fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW), "stat %s", name);
    /* Other types are stored entirely in their directory. */
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return true;
    if (++walk->count > FILES_MAX)
        return false;
    int fd = CHECK(openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), "open %s", name);
    bool fits = S_ISREG(status.st_mode) || sync_entries(walk, fd, name, depth);
    if (walk->waits)
        CHECK(fsync(fd), "sync %s", name);
    else if (S_ISREG(status.st_mode))
        /* A hint: fsync reports errors. */
        (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    close(fd);
    return fits;
}

void sync_tree(const char *path)
{
    struct walk start = {.waits = false}, wait = {.waits = true};
    if (sync_entry(&start, AT_FDCWD, path, 0) && sync_entry(&wait, AT_FDCWD, path, 0))
        return;
    int fd = CHECK(open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), "open %s", path);
    CHECK(syncfs(fd), "sync the file system of %s", path);
    close(fd);
}
