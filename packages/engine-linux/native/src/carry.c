/*
 * dormouse-carry find LAYER LIST: reads NUL-terminated paths from standard input and writes to LIST those whose file in
 * LAYER has an origin.
 * dormouse-carry copy LAYER UPPER: copies the files named on standard input from LAYER to UPPER, with their attributes
 * and parent directories.
 *
 * LAYER is a former upper directory. The sandbox sees a file that overlayfs copied up under the inode number of its
 * origin, a file in a lower layer. overlayfs stores that origin in an extended attribute, but reads the attribute only
 * in the upper directory. Once LAYER is a lower directory, the file would show another inode number, and programs that
 * have it open and remember the number would notice: SQLite then refuses to write. Copied into the new upper directory
 * together with the attribute, the file keeps its number.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "copy-file.h"
#include "report.h"

#define ORIGIN "trusted.overlay.origin"

/* Returns -1 when nothing has that name. The sandbox chose these names, so no path may lead out of the layer. */
static int open_beneath(int root, const char *path, int flags)
{
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

static bool has_origin(int layer, const char *path)
{
    int file = open_beneath(layer, path, O_RDONLY);
    if (file == -1)
        return false;
    struct stat status;
    CHECK(fstat(file, &status), "stat %s", path);
    bool has = S_ISREG(status.st_mode) && fgetxattr(file, ORIGIN, NULL, 0) > 0;
    close(file);
    return has;
}

/* Makes every missing parent directory of `path`. */
static void make_parents(int layer, int into, char *path)
{
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdirat(into, path, 0700) == 0) {
            int from = CHECK(open_beneath(layer, path, O_RDONLY | O_DIRECTORY), "open %s", path);
            int to = CHECK(open_beneath(into, path, O_RDONLY | O_DIRECTORY), "open %s", path);
            copy_attributes(from, to, path);
            close(from);
            close(to);
        } else if (errno != EEXIST) {
            fail("make %s", path);
        }
        *slash = '/';
    }
}

static void copy_file(int layer, int upper, char *path)
{
    make_parents(layer, upper, path);
    int from = CHECK(open_beneath(layer, path, O_RDONLY), "open %s", path);
    int to = CHECK(openat(upper, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), "make %s", path);
    copy_content(from, to, path);
    copy_metadata(from, to, path, true);
    close(from);
    close(to);
}

int main(int argc, char **argv)
{
    bool finds = argc == 4 && !strcmp(argv[1], "find");
    if (!finds && (argc != 4 || strcmp(argv[1], "copy")))
        refuse("usage: dormouse-carry find LAYER LIST | dormouse-carry copy LAYER UPPER");
    int layer = CHECK(open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open layer");
    int flags = finds ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY | O_DIRECTORY;
    int into = CHECK(open(argv[3], flags | O_CLOEXEC, 0600), "open target");
    if (!finds)
        copy_attributes(layer, into, ".");
    char *path = NULL;
    size_t capacity = 0;
    while (getdelim(&path, &capacity, '\0', stdin) != -1) {
        if (!finds)
            copy_file(layer, into, path);
        else if (has_origin(layer, path))
            CHECK(write(into, path, strlen(path) + 1), "write list");
    }
    if (ferror(stdin))
        fail("read paths");
    free(path);
    return 0;
}
