/* Measures layers, and counts the files in them that a program may know by their inode number. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "layer-tree.h"
#include "report.h"

#define ORIGIN "trusted.overlay.origin"
#define STAT_BLOCK_BYTES 512u

struct inodes {
    ino_t *items;
    size_t count;
};

struct scan {
    const struct inodes *known;
    int view;
    int directory;
    /* Path of `directory`. Paths longer than PATH_MAX are refused. */
    char path[PATH_MAX];
    uint64_t bytes;
    uint64_t renames;
    uint64_t found;
};

static void add_inode(struct inodes *inodes, ino_t inode)
{
    inodes->items = reallocarray(inodes->items, inodes->count + 1, sizeof(*inodes->items));
    if (!inodes->items)
        fail("inodes");
    inodes->items[inodes->count++] = inode;
}

static int compare(const void *one, const void *other)
{
    ino_t a = *(const ino_t *)one, b = *(const ino_t *)other;
    return a < b ? -1 : a > b;
}

/* The sandbox chose these names, so no path may lead out of the view. */
static int open_beneath(int root, const char *path, int flags)
{
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    while (*path == '/')
        path++;
    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

static void know_open(struct inodes *known, int view, const char *path)
{
    int file = open_beneath(view, path, O_PATH);
    struct stat status;
    if (file == -1)
        return;
    CHECK(fstat(file, &status), "stat %s", path);
    /* A directory has an inode in each layer, and shows the number of the topmost. */
    if (!S_ISDIR(status.st_mode))
        add_inode(known, status.st_ino);
    close(file);
}

/*
 * overlayfs stores a file handle as struct ovl_fb: five bytes, of which the third is the total length and the fifth the
 * type, then a uuid, then the handle.
 */
#define ORIGIN_LENGTH 2
#define ORIGIN_TYPE 4
#define ORIGIN_HEAD 21

static void know_origin(struct inodes *known, int layer, const char *path)
{
    unsigned char origin[ORIGIN_HEAD + MAX_HANDLE_SZ];
    int file = open_beneath(layer, path, O_RDONLY | O_NONBLOCK);
    if (file == -1)
        return;
    ssize_t length = fgetxattr(file, ORIGIN, origin, sizeof(origin));
    close(file);
    if (length <= ORIGIN_HEAD || origin[ORIGIN_LENGTH] > length)
        return;
    union {
        struct file_handle head;
        char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } handle;
    handle.head.handle_bytes = origin[ORIGIN_LENGTH] - ORIGIN_HEAD;
    handle.head.handle_type = origin[ORIGIN_TYPE];
    memcpy(handle.head.f_handle, origin + ORIGIN_HEAD, handle.head.handle_bytes);
    int target = open_by_handle_at(layer, &handle.head, O_PATH | O_CLOEXEC);
    if (target == -1)
        return;
    struct stat status;
    CHECK(fstat(target, &status), "stat origin");
    add_inode(known, status.st_ino);
    close(target);
}

static void weigh(const char *name, void *context);

static void enter(struct scan *scan, const char *name)
{
    size_t length = strlen(scan->path);
    int added = snprintf(scan->path + length, sizeof(scan->path) - length, "/%s", name);
    if ((size_t)added >= sizeof(scan->path) - length)
        refuse("a path in the layers is too long");
    int outer = scan->directory;
    scan->directory = CHECK(open_entry(outer, name, O_RDONLY | O_DIRECTORY), "open %s", name);
    each_entry(scan->directory, weigh, scan);
    /* A merge copies everything that a renamed directory shows, from any layer. */
    int shown = is_redirected(scan->directory) ? open_beneath(scan->view, scan->path, O_RDONLY | O_DIRECTORY) : -1;
    scan->renames += is_redirected(scan->directory);
    close(scan->directory);
    if (shown != -1) {
        scan->directory = shown;
        each_entry(shown, weigh, scan);
        close(shown);
    }
    scan->directory = outer;
    scan->path[length] = '\0';
}

static void weigh(const char *name, void *context)
{
    struct scan *scan = context;
    struct stat status;
    CHECK(fstatat(scan->directory, name, &status, AT_SYMLINK_NOFOLLOW), "stat %s", name);
    scan->bytes += (uint64_t)status.st_blocks * STAT_BLOCK_BYTES;
    if (S_ISDIR(status.st_mode))
        enter(scan, name);
    else if (bsearch(&status.st_ino, scan->known->items, scan->known->count, sizeof(ino_t), compare))
        scan->found++;
}

void scan_layers(const struct chain *chain, const char *mount_point)
{
    struct inodes known = {0};
    int view = open_view(mount_point, &chain->layers, &chain->below);
    int top = CHECK(open(chain->layers.items[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open layer");
    for (size_t i = 0; i < chain->open.count; i++)
        know_open(&known, view, chain->open.items[i]);
    for (size_t i = 0; i < chain->carried.count; i++)
        know_origin(&known, top, chain->carried.items[i]);
    if (known.count > 0)
        qsort(known.items, known.count, sizeof(*known.items), compare);
    for (size_t i = 0; i < chain->layers.count; i++) {
        struct scan scan = {.known = &known, .view = view};
        scan.directory = CHECK(open(chain->layers.items[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open layer");
        each_entry(scan.directory, weigh, &scan);
        close(scan.directory);
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", scan.bytes, scan.renames, scan.found);
    }
    if (fflush(stdout))
        fail("output");
}
