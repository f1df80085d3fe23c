#include "show-files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "report.h"

/* A directory is sorted in memory; larger ones are refused, as in the agent. */
#define DIRECTORY_MAX 200000
#define MEMORY_BYTES (256ul << 20)
#define CHUNK_BYTES (128 * 1024)

static long entries_left;

noreturn void answer_error(int error)
{
    printf("error %d%c", error, 0);
    exit(fflush(stdout) ? 1 : 0);
}

uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || *end)
        refuse("not a number: %s", text);
    return value;
}

static const char *type_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG: return "file";
    case S_IFDIR: return "directory";
    case S_IFLNK: return "symlink";
    case S_IFIFO: return "fifo";
    case S_IFSOCK: return "socket";
    default: return "device";
    }
}

void print_entry(int directory, const char *name, const char *path, const struct stat *stat)
{
    char target[PATH_MAX] = "";
    if (S_ISLNK(stat->st_mode)) {
        ssize_t length = readlinkat(directory, name, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = '\0';
    }
    long long modified = (long long)stat->st_mtim.tv_sec * 1000 + stat->st_mtim.tv_nsec / 1000000;
    printf("%s %u %u %u %lld %lld%c%s%c%s%c", type_of(stat->st_mode), stat->st_mode & 07777, stat->st_uid, stat->st_gid,
           (long long)stat->st_size, modified, 0, path, 0, target, 0);
}

void show_stat(const char *path, bool follows)
{
    struct stat stat;
    if (fstatat(AT_FDCWD, path, &stat, follows ? 0 : AT_SYMLINK_NOFOLLOW))
        answer_error(errno);
    print_entry(AT_FDCWD, path, path, &stat);
}

static int by_name(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

char **sorted_names(int fd, size_t *count)
{
    DIR *directory = fdopendir(CHECK(dup(fd), "dup"));
    char **names = NULL;
    size_t room = 0;
    *count = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        if (*count == DIRECTORY_MAX)
            answer_error(E2BIG);
        if (*count == room) {
            room = room ? room * 2 : 64;
            names = reallocarray(names, room, sizeof(*names));
        }
        if (!names || !(names[*count] = strdup(entry->d_name)))
            answer_error(ENOMEM);
        (*count)++;
    }
    if (directory)
        closedir(directory);
    if (*count)
        qsort(names, *count, sizeof(*names), by_name);
    return names;
}

/* In name order, directories before their contents. Closes `fd`. */
static void list(int fd, const char *path, long depth)
{
    size_t count;
    char **names = sorted_names(fd, &count);
    for (size_t i = 0; i < count; i++) {
        char *below;
        struct stat stat;
        if (entries_left == 0 || fstatat(fd, names[i], &stat, AT_SYMLINK_NOFOLLOW))
            continue;
        entries_left--;
        if (asprintf(&below, "%s/%s", strcmp(path, "/") ? path : "", names[i]) == -1)
            fail("memory");
        print_entry(fd, names[i], below, &stat);
        if (S_ISDIR(stat.st_mode) && depth > 1) {
            int next = openat(fd, names[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (next != -1)
                list(next, below, depth - 1);
        }
        free(below);
        free(names[i]);
    }
    free(names);
    close(fd);
}

void print_file(const char *path, uint64_t offset, uint64_t length)
{
    struct stat stat;
    /* Looked at before it is opened: opening a pipe of the sandbox would wait for a writer, or end one that waits. */
    if (fstatat(AT_FDCWD, path, &stat, 0))
        answer_error(errno);
    if (!S_ISREG(stat.st_mode))
        answer_error(EISDIR);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd == -1)
        answer_error(errno);
    printf("ok%c%c%c", 0, 0, 0);
    print_entry(AT_FDCWD, path, path, &stat);
    static char chunk[CHUNK_BYTES];
    while (length > 0) {
        size_t wanted = length < sizeof(chunk) ? (size_t)length : sizeof(chunk);
        ssize_t count = CHECK(pread(fd, chunk, wanted, (off_t)offset), "read");
        if (count == 0)
            break;
        if (fwrite(chunk, 1, (size_t)count, stdout) != (size_t)count)
            fail("write");
        offset += (uint64_t)count;
        length -= (uint64_t)count;
    }
}

void list_entries(int fd, const char *path, long depth, long entries_max)
{
    entries_left = entries_max;
    list(fd, path, depth);
}

void show_path(const char *action, char *path, char **numbers, const char *const accounts[2])
{
    int fd = -1;
    bool lists = !strcmp(action, "list"), follows = strcmp(action, "link");
    struct stat stat;
    if (fstatat(AT_FDCWD, path, &stat, follows ? 0 : AT_SYMLINK_NOFOLLOW))
        answer_error(errno);
    if (lists && (fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
        answer_error(errno);
    printf("ok%c%s%c%s%c", 0, accounts[0], 0, accounts[1], 0);
    if (!lists) {
        show_stat(path, follows);
        return;
    }
    /* Without a slash at the end, so that paths below are joined with one. */
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--)
        path[end - 1] = '\0';
    list_entries(fd, path, (long)number(numbers[0]), (long)number(numbers[1]));
}

void bound_self(unsigned cpu_seconds)
{
    const struct rlimit memory = {MEMORY_BYTES, MEMORY_BYTES}, cpu = {cpu_seconds, cpu_seconds}, none = {0, 0};
    CHECK(setrlimit(RLIMIT_AS, &memory), "limit memory");
    CHECK(setrlimit(RLIMIT_CPU, &cpu), "limit cpu");
    CHECK(setrlimit(RLIMIT_CORE, &none), "limit core");
    CHECK(setrlimit(RLIMIT_NPROC, &none), "limit processes");
}
