#include "volume-state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"
#include "volume-handles.h"
#include "volume-records.h"

static uint64_t nameless_bytes, program_bytes;

static void put(FILE *out, char kind, const void *record, size_t size)
{
    fputc(kind, out);
    fwrite(record, size, 1, out);
}

static void save_node(struct node *node, void *out)
{
    if (node->id == FUSE_ROOT_ID)
        return;
    struct node_record record = {
        .id = node->id,
        .parent = node->parent ? node->parent->id : 0,
        .inode = node->inode,
        .lookups = node->lookups,
        .born = node->born,
        .is_gone = node->is_gone,
        .name_bytes = (uint32_t)strlen(node->name),
    };
    put(out, 'N', &record, sizeof(record));
    fwrite(node->name, record.name_bytes, 1, out);
}

/* Whether it is an open file that no path leads to. */
static bool is_nameless(const struct node *node)
{
    if (!node->handles || node->handles->is_directory)
        return false;
    int fd = node_open(node, O_PATH);
    if (fd != -1)
        close(fd);
    return fd == -1;
}

static void copy_out(int fd, uint64_t size, FILE *out)
{
    static char data[IO_MAX_BYTES];
    uint64_t at = 0;
    while (at < size) {
        size_t most = size - at < sizeof(data) ? (size_t)(size - at) : sizeof(data);
        ssize_t count = pread(fd, data, most, (off_t)at);
        /* Shorter than it was: zeros keep the records readable. */
        if (count <= 0) {
            memset(data, 0, most);
            count = (ssize_t)most;
        }
        fwrite(data, (size_t)count, 1, out);
        at += (uint64_t)count;
    }
}

/*
 * Whether its pages may be in use as code: a program or library without writers inside. With another file in its
 * place the processes that run it would crash.
 */
static bool is_program(const struct node *node)
{
    char magic[4];
    for (const struct handle *handle = node->handles; handle; handle = handle->next_of_node)
        if (handle->is_directory || (handle->flags & O_ACCMODE) != O_RDONLY)
            return false;
    return node->handles && pread(node->handles->fd, magic, 4, 0) == 4 && memcmp(magic, "\177ELF", 4) == 0;
}

static void save_content(struct node *node, void *out)
{
    struct stat stat;
    if (!node->handles || fstat(node->handles->fd, &stat) == -1)
        return;
    bool has_no_name = is_nameless(node);
    if (!has_no_name && (!is_program(node) || program_bytes + (uint64_t)stat.st_size > PROGRAMS_MAX_BYTES))
        return;
    if (!has_no_name)
        program_bytes += (uint64_t)stat.st_size;
    struct ghost_record record = {
        .node = node->id,
        .size = (uint64_t)stat.st_size,
        .modified = stat.st_mtim.tv_sec * INT64_C(1000000000) + stat.st_mtim.tv_nsec,
        .mode = stat.st_mode & 07777,
        .uid = stat.st_uid,
        .gid = stat.st_gid,
    };
    put(out, has_no_name ? 'G' : 'P', &record, sizeof(record));
    copy_out(node->handles->fd, record.size, out);
}

static void save_handle(struct handle *handle, void *out)
{
    struct stat stat = {0};
    fstat(handle->fd, &stat);
    struct handle_record record = {
        .id = handle->id,
        .node = handle->node->id,
        .flags = handle->flags,
        .mode = stat.st_mode,
        .flock = handle->flock,
        .is_directory = handle->is_directory,
    };
    put(out, 'H', &record, sizeof(record));
}

static void save_locks(struct lock_file *file, void *out)
{
    for (size_t i = 0; i < file->range_count; i++) {
        struct lock_record record = {file->node->id, file->owner, file->ranges[i]};
        put(out, 'L', &record, sizeof(record));
    }
}

/* `lock KIND TYPE START END INODE BYTES MODIFIED_NS PATH_IN_HEX`, for the engine. */
static void describe_lock(FILE *out, const struct node *node, int fd, const char *kind, bool is_write, const struct range *range)
{
    struct statx stat;
    char path[PATH_MAX], end[32] = "EOF";
    if (!file_describe(fd, &stat) || !node_path(node, path))
        path[0] = 0;
    if (range->end < INT64_MAX)
        snprintf(end, sizeof(end), "%llu", (unsigned long long)range->end);
    fprintf(out, "lock %s %s %llu %s %llu %llu %lld ", kind, is_write ? "WRITE" : "READ", (unsigned long long)range->start, end,
            (unsigned long long)stat.stx_ino, (unsigned long long)stat.stx_size,
            (long long)stat.stx_mtime.tv_sec * 1000000000 + stat.stx_mtime.tv_nsec);
    for (const char *at = path; *at; at++)
        fprintf(out, "%02x", (unsigned char)*at);
    fputc('\n', out);
}

static void describe_flock(struct handle *handle, void *out)
{
    struct range whole = {0, INT64_MAX, 0};
    if (handle->flock)
        describe_lock(out, handle->node, handle->fd, "FLOCK", handle->flock == LOCK_EX, &whole);
}

static void describe_ranges(struct lock_file *file, void *out)
{
    for (size_t i = 0; i < file->range_count; i++)
        describe_lock(out, file->node, file->fd, "OFDLCK", file->ranges[i].type == F_WRLCK, &file->ranges[i]);
}

static void count_nameless(struct node *node, void *context)
{
    struct stat stat;
    (void)context;
    if (is_nameless(node) && fstat(node->handles->fd, &stat) == 0)
        nameless_bytes += (uint64_t)stat.st_size;
}

bool state_save(int fd, const struct slot *slots)
{
    FILE *out = fdopen(fd, "w");
    if (!out)
        return false;
    nameless_bytes = program_bytes = 0;
    nodes_each(count_nameless, NULL);
    if (nameless_bytes > NAMELESS_MAX_BYTES) {
        fprintf(out, "error open files that were deleted have more than %d bytes\n", NAMELESS_MAX_BYTES);
        return fclose(out) == 0;
    }
    fputs(FIRST_LINE, out);
    handles_each(describe_flock, out);
    lock_files_each(describe_ranges, out);
    fputc('\n', out);
    nodes_each(save_node, out);
    nodes_each(save_content, out);
    handles_each(save_handle, out);
    lock_files_each(save_locks, out);
    for (size_t i = 0; i < SLOTS; i++)
        put(out, 'S', &slots[i], sizeof(slots[i]));
    struct end_record end = {nodes_next_id(), handles_next_id()};
    put(out, 'E', &end, sizeof(end));
    bool is_written = !ferror(out);
    return fclose(out) == 0 && is_written;
}
