/*
 * dormouse-pages
 * Does the heavy work of taking and verifying snapshots. It moves the pages of a dump: some into sparse memory files
 * that a restore maps, the rest into a new pages image. It also computes checksums and syncs files.
 * Standard input is a list of NUL-terminated records, executed in order. Some print lines to standard output.
 *   source=PATH         the pages image that the following records read
 *   library=PATH        like source, a file below `root`; zeros follow its last byte up to the end of the page
 *   kept=PATH           make the pages image that `keep` appends to
 *   keep=FROM LENGTH    append pages to it
 *   memory=SIZE PATH    make the sparse file that `move` writes to
 *   move=FROM TO LENGTH
 *   base=FROM TO LENGTH like move, from another memory file: its holes stay holes
 *   against=PATH        the memory file that `same` compares with
 *   same=FROM AT LENGTH prints which pages of the source are equal to those of that file
 *   folded=PATH         make the folded pages image that `fold` and `plain` append to: see fold-pages.h
 *   fold=FROM AT LENGTH append pages that are mapped from the file of `against`, at AT
 *   plain=FROM LENGTH   append pages that are mapped from no memory file
 *   unfold=PATH         append the pages of the source, a folded image, to `kept`; PATH is the directory of memory files
 *   data=FROM LENGTH    adds the bytes of the source's range that are not holes to a sum
 *   weight=             prints the sum and sets it to 0
 *   close=              close these files; prints a line for each memory file
 *   known=PATH          an existing memory file; prints the same line without reading the file
 *   file=PATH           prints the checksum of one file
 *   files=PATH          prints those of all files in a directory, and lets burrows read them
 *   sync=PATH           waits until a file or directory, and everything below it, is on disk
 *   root=PATH           the directory for `unlink` and `library`
 *   unlink=PATH         removes a name in it, if it exists, without following links
 *   gently=             the following records run at idle priority
 *   end=                prints `end`
 * Lines: `same FROM LENGTH`, `file SIZE CHECKSUM NAME` and `memory SIZE CHECKSUM MTIME NAME`. MTIME is the time of our
 * last write.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "checksum.h"
#include "compare-pages.h"
#include "fold-pages.h"
#include "idle.h"
#include "move-pages.h"
#include "report.h"
#include "seal-memory.h"
#include "sync-tree.h"

static uint64_t number(char **text)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(*text, &end, 10);
    if (errno || end == *text || (*end && *end != ' '))
        refuse("plan: not a number: %s", *text);
    *text = *end ? end + 1 : end;
    return value;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void seal_memory(int fd, const char *path, uint64_t checksum)
{
    struct stat status;
    CHECK(fstat(fd, &status), "stat %s", path);
    struct seal seal = write_seal(fd, path, checksum);
    /* A hint: start writing while there is more to do. */
    (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    printf("memory %" PRIu64 " %016" PRIx64 " %" PRIu64 " %s\n", (uint64_t)status.st_size, seal.checksum, seal.mtime_ns, name_of(path));
}

static void tell_known(const char *path)
{
    int fd = CHECK(open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), "open %s", path);
    struct seal seal;
    struct stat status;
    CHECK(fstat(fd, &status), "stat %s", path);
    if (fgetxattr(fd, SEAL, &seal, sizeof(seal)) == (ssize_t)sizeof(seal))
        printf("memory %" PRIu64 " %016" PRIx64 " %" PRIu64 " %s\n", (uint64_t)status.st_size, seal.checksum, seal.mtime_ns, name_of(path));
    else /* The file was copied by a program that drops attributes. */
        seal_memory(fd, path, file_checksum(fd, path));
    close(fd);
}

static void tell_file(int directory, const char *path, bool is_for_burrows)
{
    int fd = CHECK(openat(directory, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), "open %s", path);
    struct stat status;
    CHECK(fstat(fd, &status), "stat %s", path);
    /* A restore has no privileges over the host. The directory above keeps other users out. */
    if (is_for_burrows)
        CHECK(fchmod(fd, 0644), "mode of %s", path);
    printf("file %" PRIu64 " %016" PRIx64 " %s\n", (uint64_t)status.st_size, file_checksum(fd, path), name_of(path));
    close(fd);
}

static void tell_files(const char *path)
{
    DIR *directory = opendir(path);
    if (!directory)
        fail("list %s", path);
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(directory);
        if (!entry)
            break;
        if (entry->d_name[0] != '.')
            tell_file(dirfd(directory), entry->d_name, true);
    }
    if (errno)
        fail("list %s", path);
    closedir(directory);
}

/* The sandbox chose these names, so no path may lead out of its root. */
static void unlink_beneath(int root, char *path)
{
    char *slash = strrchr(path, '/');
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    if (slash)
        *slash = '\0';
    int parent = (int)syscall(SYS_openat2, root, slash ? path : ".", &how, sizeof(how));
    if (parent == -1)
        return;
    if (unlinkat(parent, slash ? slash + 1 : path, 0) == -1 && errno != ENOENT)
        fail("remove %s", path);
    close(parent);
}

struct files {
    int root;
    struct source source, base;
    struct target kept, memory;
    char *memory_path;
    FILE *folded;
    uint64_t data_bytes;
};

static void close_memory(struct files *files)
{
    struct target *memory = &files->memory;
    if (memory->fd != -1)
        seal_memory(memory->fd, files->memory_path, memory->checksum);
    close_target(memory);
}

static void close_the_folded(struct files *files)
{
    if (files->folded)
        close_folded(files->folded, "folded pages");
    files->folded = NULL;
}

static void close_files(struct files *files)
{
    close_the_folded(files);
    close_source(&files->source);
    close_source(&files->base);
    close_target(&files->kept);
    close_memory(files);
}

static void make_memory(struct files *files, uint64_t size, const char *path)
{
    close_memory(files);
    free(files->memory_path);
    files->memory_path = strdup(path);
    if (!files->memory_path)
        fail("memory");
    open_memory(&files->memory, path, size);
}

/* Returns false for another record. */
static bool do_fold_record(struct files *files, const char *what, char *value)
{
    if (!strcmp(what, "folded")) {
        close_the_folded(files);
        files->folded = make_folded(value);
    } else if (!strcmp(what, "fold")) {
        uint64_t from = number(&value), at = number(&value), length = number(&value);
        fold_pages(files->folded, &files->source, &files->base, from, at, length);
    } else if (!strcmp(what, "plain")) {
        uint64_t from = number(&value), length = number(&value);
        fold_pages(files->folded, &files->source, NULL, from, 0, length);
    } else if (!strcmp(what, "unfold")) {
        unfold_pages(&files->source, &files->kept, value);
    } else {
        return false;
    }
    return true;
}

/* Returns false for an unknown record. */
static bool do_record(struct files *files, const char *what, char *value)
{
    if (!strcmp(what, "source")) {
        open_source(&files->source, value);
    } else if (!strcmp(what, "library")) {
        open_library(&files->source, files->root, value);
    } else if (!strcmp(what, "kept")) {
        open_pages(&files->kept, value);
    } else if (!strcmp(what, "keep")) {
        uint64_t from = number(&value), length = number(&value);
        keep_pages(&files->source, &files->kept, from, length);
    } else if (!strcmp(what, "memory")) {
        uint64_t size = number(&value);
        make_memory(files, size, value);
    } else if (!strcmp(what, "move")) {
        uint64_t from = number(&value), to = number(&value), length = number(&value);
        move_pages(&files->source, &files->memory, from, to, length);
    } else if (!strcmp(what, "base")) {
        uint64_t from = number(&value), to = number(&value), length = number(&value);
        copy_base(&files->source, &files->memory, from, to, length);
    } else if (!strcmp(what, "against")) {
        open_source(&files->base, value);
        if (files->folded)
            fold_base(files->folded, name_of(value));
    } else if (!strcmp(what, "same")) {
        uint64_t from = number(&value), at = number(&value), length = number(&value);
        tell_same(&files->source, &files->base, from, at, length);
    } else if (!strcmp(what, "data")) {
        uint64_t from = number(&value), length = number(&value);
        files->data_bytes += count_data(&files->source, from, length);
    } else if (!strcmp(what, "weight")) {
        printf("weight %" PRIu64 "\n", files->data_bytes);
        files->data_bytes = 0;
    } else if (!strcmp(what, "gently")) {
        be_idle();
    } else if (!strcmp(what, "close")) {
        close_files(files);
    } else if (!strcmp(what, "known")) {
        tell_known(value);
    } else if (!strcmp(what, "file")) {
        tell_file(AT_FDCWD, value, false);
    } else if (!strcmp(what, "files")) {
        tell_files(value);
    } else if (!strcmp(what, "sync")) {
        sync_tree(value);
    } else if (!strcmp(what, "root")) {
        if (files->root != -1)
            close(files->root);
        files->root = CHECK(open(value, O_PATH | O_DIRECTORY | O_CLOEXEC), "open %s", value);
    } else if (!strcmp(what, "unlink")) {
        unlink_beneath(files->root, value);
    } else if (!strcmp(what, "end")) {
        puts("end");
        if (fflush(stdout))
            fail("answer");
    } else {
        return do_fold_record(files, what, value);
    }
    return true;
}

int main(void)
{
    /* When the engine ends, the rest of its records is useless. */
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
    struct files files = {.root = -1, .source.fd = -1, .base.fd = -1, .kept.fd = -1, .memory.fd = -1};
    char *record = NULL;
    size_t capacity = 0;
    while (getdelim(&record, &capacity, '\0', stdin) != -1) {
        char *value = strchr(record, '=');
        if (!value)
            refuse("plan: not a record: %s", record);
        *value++ = '\0';
        if (!do_record(&files, record, value))
            refuse("plan: unknown record %s", record);
    }
    if (ferror(stdin))
        fail("plan");
    close_files(&files);
    free(files.memory_path);
    free(record);
    return 0;
}
