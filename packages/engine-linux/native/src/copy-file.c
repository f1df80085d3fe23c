#include "copy-file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "idle.h"
#include "report.h"

#define OVERLAY_PREFIX "trusted.overlay."
#define BUFFER_BYTES (1u << 18)
#define PART_BYTES ((size_t)8 << 20)

/* copy_file_range() fails between two file systems, and an overlay is a file system of its own. */
static void copy_through_memory(int from, int to, off_t at, off_t end, const char *path)
{
    static char buffer[BUFFER_BYTES];
    while (at < end) {
        size_t wanted = end - at < (off_t)sizeof(buffer) ? (size_t)(end - at) : sizeof(buffer);
        ssize_t got = CHECK(pread(from, buffer, wanted, at), "read %s", path);
        if (got == 0)
            return;
        for (ssize_t done = 0; done < got;)
            done += CHECK(pwrite(to, buffer + done, (size_t)(got - done), at + done), "write %s", path);
        flush_if_idle(to, (size_t)got);
        at += got;
    }
}

static void copy_range(int from, int to, off_t at, off_t end, const char *path)
{
    for (off_t into = at; at < end;) {
        size_t part = end - at < (off_t)PART_BYTES ? (size_t)(end - at) : PART_BYTES;
        ssize_t copied = copy_file_range(from, &at, to, &into, part, 0);
        if (copied == 0)
            return;
        if (copied > 0) {
            flush_if_idle(to, (size_t)copied);
            continue;
        }
        if (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP)
            fail("copy %s", path);
        copy_through_memory(from, to, at, end, path);
        return;
    }
}

void copy_content(int from, int to, const char *path)
{
    if (ioctl(to, FICLONE, from) == 0)
        return;
    struct stat status;
    CHECK(fstat(from, &status), "stat %s", path);
    CHECK(ftruncate(to, status.st_size), "size of %s", path);
    for (off_t at = 0; (at = lseek(from, at, SEEK_DATA)) != -1;) {
        off_t end = CHECK(lseek(from, at, SEEK_HOLE), "hole in %s", path);
        copy_range(from, to, at, end, path);
        at = end;
    }
    if (errno != ENXIO)
        fail("data of %s", path);
}

void copy_attributes(int from, int to, const char *path)
{
    struct stat status;
    CHECK(fstat(from, &status), "stat %s", path);
    CHECK(fchown(to, status.st_uid, status.st_gid), "own %s", path);
    CHECK(fchmod(to, status.st_mode & 07777), "mode of %s", path);
    CHECK(futimens(to, (struct timespec[]){status.st_atim, status.st_mtim}), "times of %s", path);
}

static void copy_extended(int from, int to, const char *path, bool with_overlay)
{
    static char names[XATTR_LIST_MAX], value[XATTR_SIZE_MAX];
    ssize_t length = CHECK(flistxattr(from, names, sizeof(names)), "attributes of %s", path);
    for (char *name = names; name < names + length; name += strlen(name) + 1) {
        if (!with_overlay && !strncmp(name, OVERLAY_PREFIX, strlen(OVERLAY_PREFIX)))
            continue;
        ssize_t size = CHECK(fgetxattr(from, name, value, sizeof(value)), "attribute %s of %s", name, path);
        CHECK(fsetxattr(to, name, value, (size_t)size, 0), "attribute %s of %s", name, path);
    }
}

void copy_metadata(int from, int to, const char *path, bool with_overlay)
{
    struct stat status;
    CHECK(fstat(from, &status), "stat %s", path);
    /* chown clears the set-uid bit and the file capabilities, which are an extended attribute. So it comes first. */
    CHECK(fchown(to, status.st_uid, status.st_gid), "own %s", path);
    copy_extended(from, to, path, with_overlay);
    CHECK(fchmod(to, status.st_mode & 07777), "mode of %s", path);
    CHECK(futimens(to, (struct timespec[]){status.st_atim, status.st_mtim}), "times of %s", path);
}
