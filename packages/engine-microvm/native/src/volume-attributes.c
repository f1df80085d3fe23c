/* Requests about attributes of files. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "volume-handles.h"
#include "volume-requests.h"

struct fuse_attr attributes_of(const struct statx *stat)
{
    return (struct fuse_attr){
        .ino = stat->stx_ino,
        .size = stat->stx_size,
        .blocks = stat->stx_blocks,
        .atime = (uint64_t)stat->stx_atime.tv_sec,
        .mtime = (uint64_t)stat->stx_mtime.tv_sec,
        .ctime = (uint64_t)stat->stx_ctime.tv_sec,
        .atimensec = stat->stx_atime.tv_nsec,
        .mtimensec = stat->stx_mtime.tv_nsec,
        .ctimensec = stat->stx_ctime.tv_nsec,
        .mode = stat->stx_mode,
        .nlink = stat->stx_nlink,
        .uid = stat->stx_uid,
        .gid = stat->stx_gid,
        .blksize = stat->stx_blksize,
    };
}

/* The file of a node: an open one if the guest has one, and otherwise what its path leads to. */
static int file_of(const struct node *node, int flags, bool *is_borrowed)
{
    *is_borrowed = node->handles || node->is_gone;
    if (node->handles)
        return node->handles->fd;
    if (node->is_gone)
        return node->ghost == -1 ? (errno = ESTALE, -1) : node->ghost;
    return node_open(node, flags);
}

static void answer_attributes(const struct request *request, const struct node *node)
{
    bool is_borrowed;
    struct statx stat;
    int fd = file_of(node, O_PATH, &is_borrowed);
    if (fd == -1 || !file_describe(fd, &stat)) {
        answer_error(request, errno);
    } else {
        struct fuse_attr_out out = {.attr = attributes_of(&stat)};
        answer(request, &out, sizeof(out));
    }
    if (fd != -1 && !is_borrowed)
        close(fd);
}

void serve_getattr(const struct request *request)
{
    struct node *node = node_of(request);
    if (node)
        answer_attributes(request, node);
}

static int set_mode(const struct node *node, mode_t mode)
{
    if (node->handles)
        return fchmod(node->handles->fd, mode);
    int fd = node_open(node, O_PATH);
    struct stat stat;
    int outcome = fd == -1 ? -1 : fstat(fd, &stat);
    if (fd != -1)
        close(fd);
    if (outcome == -1)
        return -1;
    if (S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode)) {
        fd = node_open(node, O_RDONLY | O_NONBLOCK);
        outcome = fd == -1 ? -1 : fchmod(fd, mode);
    } else {
        /* Pipes and sockets cannot be opened for this. A link that has taken their place leads into the volume. */
        fd = node_open_parent(node);
        outcome = fd == -1 ? -1 : fchmodat(fd, node->name, mode, 0);
    }
    if (fd != -1)
        close(fd);
    return outcome;
}

static int set_owner(const struct node *node, const struct fuse_setattr_in *in)
{
    bool is_borrowed;
    int fd = file_of(node, O_PATH, &is_borrowed);
    uid_t uid = in->valid & FATTR_UID ? in->uid : (uid_t)-1;
    gid_t gid = in->valid & FATTR_GID ? in->gid : (gid_t)-1;
    int outcome = fd == -1 ? -1 : fchownat(fd, "", uid, gid, AT_EMPTY_PATH);
    if (fd != -1 && !is_borrowed)
        close(fd);
    return outcome;
}

static int set_size(const struct node *node, const struct fuse_setattr_in *in)
{
    for (const struct handle *handle = node->handles; handle; handle = handle->next_of_node)
        if ((handle->flags & O_ACCMODE) != O_RDONLY && !handle->is_directory)
            return ftruncate(handle->fd, (off_t)in->size);
    int fd = node_open(node, O_WRONLY | O_NONBLOCK);
    int outcome = fd == -1 ? -1 : ftruncate(fd, (off_t)in->size);
    if (fd != -1)
        close(fd);
    return outcome;
}

static struct timespec time_to_set(uint32_t valid, uint32_t set, uint32_t now, uint64_t seconds, uint32_t nanoseconds)
{
    if (!(valid & set))
        return (struct timespec){.tv_nsec = UTIME_OMIT};
    if (valid & now)
        return (struct timespec){.tv_nsec = UTIME_NOW};
    return (struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = nanoseconds < 1000000000 ? nanoseconds : 0};
}

static int set_times(const struct node *node, const struct fuse_setattr_in *in)
{
    struct timespec times[2] = {
        time_to_set(in->valid, FATTR_ATIME, FATTR_ATIME_NOW, in->atime, in->atimensec),
        time_to_set(in->valid, FATTR_MTIME, FATTR_MTIME_NOW, in->mtime, in->mtimensec),
    };
    if (node->handles)
        return futimens(node->handles->fd, times);
    if (!node->parent)
        return utimensat(nodes_root_fd(), ".", times, 0);
    int directory = node_open_parent(node);
    int outcome = directory == -1 ? -1 : utimensat(directory, node->name, times, AT_SYMLINK_NOFOLLOW);
    if (directory != -1)
        close(directory);
    return outcome;
}

void serve_setattr(const struct request *request)
{
    const struct fuse_setattr_in *in = request->body;
    struct node *node = has_body(request, sizeof(*in)) ? node_of(request) : NULL;
    if (!node)
        return;
    int outcome = 0;
    /* The owner first: a change of it may take bits of the mode away. */
    if (in->valid & (FATTR_UID | FATTR_GID))
        outcome = set_owner(node, in);
    if (outcome == 0 && in->valid & FATTR_MODE)
        outcome = set_mode(node, in->mode & 07777);
    if (outcome == 0 && in->valid & FATTR_SIZE)
        outcome = set_size(node, in);
    if (outcome == 0 && in->valid & (FATTR_ATIME | FATTR_MTIME))
        outcome = set_times(node, in);
    if (outcome == -1)
        answer_error(request, errno);
    else
        answer_attributes(request, node);
}

void serve_statfs(const struct request *request)
{
    struct statvfs found;
    if (fstatvfs(nodes_root_fd(), &found) == -1) {
        answer_error(request, errno);
        return;
    }
    struct fuse_statfs_out out = {
        .st = {
            .blocks = found.f_blocks,
            .bfree = found.f_bfree,
            .bavail = found.f_bavail,
            .files = found.f_files,
            .ffree = found.f_ffree,
            .bsize = (uint32_t)found.f_bsize,
            .namelen = (uint32_t)found.f_namemax,
            .frsize = (uint32_t)found.f_frsize,
        },
    };
    answer(request, &out, sizeof(out));
}
