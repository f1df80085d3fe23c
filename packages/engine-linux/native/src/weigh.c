/*
 * dormouse-weigh BYTES_MAX FILES_MAX DIRECTORY
 *
 * Measures the disk usage of a directory and counts the names below it. Prints `whole BYTES FILES`, or `over BYTES
 * FILES` as soon as it passes one of the maxima (0: none), so that they also bound its run time. The sandbox may change
 * the tree meanwhile: it follows no links out of the tree, and its memory is bounded. The host pauses and continues
 * this process by signals.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report.h"

#define BLOCK_BYTES 512
/*
 * Lower priority than anything that a caller waits for, but high enough that busy sandboxes do not starve it: a sandbox
 * that writes a lot often uses a lot of CPU too.
 */
#define NICENESS 5
/* Bytes of directory entries read at once. Of these, only the names of subdirectories are kept. */
#define CHUNK_BYTES 65536
/* This many levels keep their descriptor. Higher ones are closed and reopened by handle. */
#define OPEN_LEVELS 512
/* Only a tree built as an attack, thousands of levels deep, has this many names pending. */
#define NAMES_MAX_BYTES (64u << 20)

/* A directory on the current path, and the subdirectories of its last chunk that are still to visit. */
struct level {
    int fd;
    off_t position;
    struct file_handle *handle;
    char *names;
    size_t length;
    size_t at;
};

static struct level *levels;
static size_t depth;
static size_t capacity;
static size_t names_bytes;
static int root = -1;
static dev_t device;
static uint64_t bytes, files, bytes_max, files_max;

struct entry {
    ino64_t inode;
    off64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

static noreturn void finish(const char *how)
{
    printf("%s %llu %llu\n", how, (unsigned long long)bytes, (unsigned long long)files);
    exit(0);
}

static bool is_over(void)
{
    return (bytes_max && bytes > bytes_max) || (files_max && files > files_max) || names_bytes > NAMES_MAX_BYTES;
}

static void *need(void *memory)
{
    if (!memory)
        fail("memory");
    return memory;
}

/* Closes the descriptor of a level far above. */
static void put_aside(struct level *level)
{
    int mount;
    level->position = CHECK(lseek(level->fd, 0, SEEK_CUR), "position");
    level->handle = need(malloc(sizeof(*level->handle) + MAX_HANDLE_SZ));
    level->handle->handle_bytes = MAX_HANDLE_SZ;
    CHECK(name_to_handle_at(level->fd, "", level->handle, &mount, AT_EMPTY_PATH), "handle");
    close(level->fd);
    level->fd = -1;
}

/* Returns false when the directory was deleted. */
static bool take_up(struct level *level)
{
    if (level->fd >= 0)
        return true;
    level->fd = open_by_handle_at(root, level->handle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (level->fd == -1) {
        if (errno == ESTALE)
            return false;
        fail("open by handle");
    }
    free(level->handle);
    level->handle = NULL;
    CHECK(lseek(level->fd, level->position, SEEK_SET), "position");
    return true;
}

static void go_down(int fd)
{
    if (depth == capacity) {
        capacity = capacity ? capacity * 2 : 64;
        levels = need(reallocarray(levels, capacity, sizeof(*levels)));
    }
    levels[depth++] = (struct level){.fd = fd};
    if (depth > OPEN_LEVELS && levels[depth - OPEN_LEVELS - 1].fd >= 0)
        put_aside(&levels[depth - OPEN_LEVELS - 1]);
}

static void go_up(void)
{
    struct level *level = &levels[--depth];
    if (level->fd >= 0)
        close(level->fd);
    names_bytes -= level->length;
    free(level->names);
    free(level->handle);
}

/* Entries that are deleted or replaced meanwhile are not counted. */
static void open_next(struct level *level)
{
    const char *name = level->names + level->at;
    level->at += strlen(name) + 1;
    int fd = openat(level->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd == -1) {
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
            return;
        fail("open directory");
    }
    struct stat stat;
    CHECK(fstat(fd, &stat), "stat directory");
    if (stat.st_dev == device)
        go_down(fd);
    else
        close(fd);
}

static void count(const struct stat *stat)
{
    files++;
    /* Each hard link counts its share of the file. */
    nlink_t links = S_ISDIR(stat->st_mode) || stat->st_nlink == 0 ? 1 : stat->st_nlink;
    bytes += (uint64_t)stat->st_blocks * BLOCK_BYTES / links;
}

static void keep_name(struct level *level, const char *name)
{
    size_t size = strlen(name) + 1;
    level->names = need(realloc(level->names, level->length + size));
    memcpy(level->names + level->length, name, size);
    level->length += size;
    names_bytes += size;
}

/* Returns false at the end of the directory. */
static bool read_chunk(struct level *level)
{
    static char chunk[CHUNK_BYTES] __attribute__((aligned(8)));
    names_bytes -= level->length;
    level->length = level->at = 0;
    long length = syscall(SYS_getdents64, level->fd, chunk, sizeof(chunk));
    if (length == -1 && errno == ENOENT)
        return false;
    CHECK(length, "read directory");
    for (long at = 0; at < length; at += ((struct entry *)(chunk + at))->length) {
        const struct entry *entry = (struct entry *)(chunk + at);
        if (!strcmp(entry->name, ".") || !strcmp(entry->name, ".."))
            continue;
        struct stat stat;
        if (fstatat(level->fd, entry->name, &stat, AT_SYMLINK_NOFOLLOW) == -1) {
            if (errno == ENOENT)
                continue;
            fail("stat");
        }
        count(&stat);
        if (S_ISDIR(stat.st_mode))
            keep_name(level, entry->name);
        if (is_over())
            finish("over");
    }
    return length > 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        refuse("usage: dormouse-weigh BYTES_MAX FILES_MAX DIRECTORY");
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
    CHECK(setpriority(PRIO_PROCESS, 0, NICENESS), "priority");
    bytes_max = strtoull(argv[1], NULL, 10);
    files_max = strtoull(argv[2], NULL, 10);
    root = CHECK(open(argv[3], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), "open %s", argv[3]);
    struct stat stat;
    CHECK(fstat(root, &stat), "stat %s", argv[3]);
    device = stat.st_dev;
    bytes = (uint64_t)stat.st_blocks * BLOCK_BYTES;
    go_down(CHECK(openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open %s", argv[3]));
    while (depth > 0) {
        struct level *level = &levels[depth - 1];
        if (!take_up(level))
            go_up();
        else if (level->at < level->length)
            open_next(level);
        else if (!read_chunk(level))
            go_up();
    }
    finish("whole");
}
