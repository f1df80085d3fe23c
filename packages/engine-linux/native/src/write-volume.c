#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"
#include "show-files.h"
#include "volume.h"

#define CHUNK_BYTES (128 * 1024)
#define NAME_TRIES 100
#define FILE_MODE 0644
#define DIRECTORY_MODE 0755

/* The path without its last name: `/` for `/name`. */
static void parent_of(const char *path, char parent[PATH_MAX])
{
    snprintf(parent, PATH_MAX, "%s", path);
    char *end = parent + strlen(parent);
    while (end > parent + 1 && end[-1] == '/')
        *--end = '\0';
    while (end > parent + 1 && end[-1] != '/')
        *--end = '\0';
    while (end > parent + 1 && end[-1] == '/')
        *--end = '\0';
}

static void sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd == -1 || fsync(fd))
        answer_error(errno);
    close(fd);
}

static void make_parents(const char *path)
{
    char part[PATH_MAX], parent[PATH_MAX];
    parent_of(path, parent);
    for (char *slash = parent; slash; slash = strchr(slash + 1, '/')) {
        char *end = strchr(slash + 1, '/');
        snprintf(part, sizeof(part), "%.*s", (int)(end ? end - parent : (long)strlen(parent)), parent);
        if (strcmp(part, "/") && mkdir(part, DIRECTORY_MODE) && errno != EEXIST)
            answer_error(errno);
    }
}

/* Fails when it is something else than a directory. */
static bool is_directory(const char *path)
{
    struct stat stat;
    if (fstatat(AT_FDCWD, path, &stat, 0))
        answer_error(errno);
    return S_ISDIR(stat.st_mode);
}

void make_directory(const char *path, int mode, bool makes_parents)
{
    char parent[PATH_MAX];
    if (makes_parents)
        make_parents(path);
    if (mkdir(path, mode == -1 ? DIRECTORY_MODE : (mode_t)mode)) {
        if (errno != EEXIST || !makes_parents || !is_directory(path))
            answer_error(errno == 0 ? EEXIST : errno);
        return;
    }
    parent_of(path, parent);
    sync_directory(parent);
}

/* Copies standard input. Returns 0 or the error. */
static int take_input(int fd, uint64_t bytes_max)
{
    static char chunk[CHUNK_BYTES];
    for (;;) {
        /* Whole chunks, so that those of several writers that append are not mixed. */
        size_t have = 0;
        for (ssize_t count = 1; have < sizeof(chunk) && count > 0; have += (size_t)(count > 0 ? count : 0))
            if ((count = read(STDIN_FILENO, chunk + have, sizeof(chunk) - have)) == -1)
                return errno;
        if (have > bytes_max)
            return EDQUOT;
        bytes_max -= have;
        for (size_t written = 0; written < have;) {
            ssize_t count = write(fd, chunk + written, have - written);
            if (count == -1)
                return errno;
            written += (size_t)count;
        }
        if (have < sizeof(chunk))
            return fsync(fd) ? errno : 0;
    }
}

static void append_to(const char *path, int mode, uint64_t bytes_max)
{
    struct stat stat;
    /* Looked at before it is opened: opening a pipe of a sandbox would end a reader that waits. */
    if (fstatat(AT_FDCWD, path, &stat, 0) == 0 && !S_ISREG(stat.st_mode))
        answer_error(EISDIR);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, mode == -1 ? FILE_MODE : mode);
    if (fd == -1)
        answer_error(errno);
    if (fstat(fd, &stat) || !S_ISREG(stat.st_mode))
        answer_error(EISDIR);
    int error = take_input(fd, bytes_max);
    if (error)
        answer_error(error);
}

/* The new file, until it has its name. */
static char unfinished[PATH_MAX + 64];

static void remove_unfinished(int signal)
{
    unlink(unfinished);
    _exit(128 + signal);
}

static int open_new(const char *parent, char *name)
{
    for (int attempt = 0; attempt < NAME_TRIES; attempt++) {
        uint64_t random;
        if (getentropy(&random, sizeof(random)))
            fail("random");
        snprintf(name, PATH_MAX + 64, "%s/.dormouse-upload-%016llx", parent, (unsigned long long)random);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd != -1 || errno != EEXIST)
            return fd;
    }
    errno = EEXIST;
    return -1;
}

void write_path(const char *path, int mode, bool makes_parents, bool appends, uint64_t bytes_max)
{
    char parent[PATH_MAX], *name = unfinished;
    struct stat before;
    if (makes_parents)
        make_parents(path);
    if (appends) {
        append_to(path, mode, bytes_max);
        return;
    }
    bool exists = fstatat(AT_FDCWD, path, &before, AT_SYMLINK_NOFOLLOW) == 0;
    if (exists && S_ISDIR(before.st_mode))
        answer_error(EISDIR);
    parent_of(path, parent);
    int fd = open_new(parent, name);
    if (fd == -1)
        answer_error(errno);
    signal(SIGTERM, remove_unfinished);
    int error = take_input(fd, bytes_max);
    bool keeps = exists && S_ISREG(before.st_mode);
    mode_t wanted = mode != -1 ? (mode_t)mode : keeps ? before.st_mode & 07777 : FILE_MODE;
    if (!error && keeps && fchown(fd, before.st_uid, before.st_gid))
        error = errno;
    if (!error && (fchmod(fd, wanted) || rename(name, path)))
        error = errno;
    if (error) {
        unlink(name);
        answer_error(error);
    }
    close(fd);
    sync_directory(parent);
}

static void remove_below(int directory)
{
    size_t count;
    char **names = sorted_names(directory, &count);
    for (size_t i = 0; i < count; i++) {
        struct stat stat;
        bool is_gone = fstatat(directory, names[i], &stat, AT_SYMLINK_NOFOLLOW) && errno == ENOENT;
        if (!is_gone && S_ISDIR(stat.st_mode)) {
            int next = openat(directory, names[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (next == -1)
                answer_error(errno);
            remove_below(next);
            close(next);
        }
        if (!is_gone && unlinkat(directory, names[i], S_ISDIR(stat.st_mode) ? AT_REMOVEDIR : 0) && errno != ENOENT)
            answer_error(errno);
        free(names[i]);
    }
    free(names);
}

void remove_path(const char *path, bool is_recursive)
{
    char parent[PATH_MAX];
    struct stat stat;
    if (fstatat(AT_FDCWD, path, &stat, AT_SYMLINK_NOFOLLOW))
        answer_error(errno);
    bool is_root = strspn(path, "/") == strlen(path);
    if (S_ISDIR(stat.st_mode) && is_recursive) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd == -1)
            answer_error(errno);
        remove_below(fd);
        close(fd);
    }
    if (is_root) {
        if (!is_recursive)
            answer_error(ENOTEMPTY);
        return;
    }
    if (unlinkat(AT_FDCWD, path, S_ISDIR(stat.st_mode) ? AT_REMOVEDIR : 0))
        answer_error(errno);
    parent_of(path, parent);
    sync_directory(parent);
}

void move_path(const char *from, const char *to, bool overwrites)
{
    char parent[PATH_MAX];
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, overwrites ? 0 : RENAME_NOREPLACE))
        answer_error(errno);
    parent_of(from, parent);
    sync_directory(parent);
    parent_of(to, parent);
    sync_directory(parent);
}
