/* Requests about open files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "volume-handles.h"
#include "volume-locks.h"
#include "volume-requests.h"

int server_flags(uint32_t flags)
{
    bool is_written = (flags & O_ACCMODE) != O_RDONLY;
    return (is_written ? O_RDWR : O_RDONLY) | (int)(flags & (O_APPEND | O_TRUNC | O_SYNC | O_DSYNC)) | O_NONBLOCK | O_CLOEXEC;
}

void serve_open(const struct request *request, bool is_directory)
{
    const struct fuse_open_in *in = request->body;
    struct node *node = has_body(request, sizeof(*in)) ? node_of(request) : NULL;
    if (!node)
        return;
    int flags = is_directory ? O_RDONLY | O_DIRECTORY : server_flags(in->flags);
    int fd = node_open(node, flags);
    struct stat stat;
    if (fd != -1 && !is_directory && (fstat(fd, &stat) == -1 || !S_ISREG(stat.st_mode))) {
        close(fd);
        errno = ENXIO;
        fd = -1;
    }
    struct handle *handle = fd == -1 ? NULL : handle_open(node, fd, in->flags, is_directory);
    if (!handle) {
        answer_error(request, errno);
        return;
    }
    /* Without FOPEN_KEEP_CACHE: who opens a file sees what others have written to it. */
    struct fuse_open_out out = {.fh = handle->id};
    answer(request, &out, sizeof(out));
}

/* Answers EBADF when there is none, or one of another file. */
static struct handle *handle_of(const struct request *request, uint64_t id, bool is_directory)
{
    struct handle *handle = handle_find(id);
    if (handle && handle->node->id == request->header->nodeid && handle->is_directory == is_directory)
        return handle;
    answer_error(request, EBADF);
    return NULL;
}

void serve_release(const struct request *request)
{
    const struct fuse_release_in *in = request->body;
    bool is_directory = request->header->opcode == FUSE_RELEASEDIR;
    struct handle *handle = has_body(request, sizeof(*in)) ? handle_of(request, in->fh, is_directory) : NULL;
    if (!handle)
        return;
    locks_end(handle);
    handle_close(handle);
    answer(request, NULL, 0);
}

void serve_read(const struct request *request)
{
    static char data[IO_MAX_BYTES];
    const struct fuse_read_in *in = request->body;
    struct handle *handle = has_body(request, sizeof(*in)) ? handle_of(request, in->fh, false) : NULL;
    if (!handle)
        return;
    ssize_t length = pread(handle->fd, data, in->size < sizeof(data) ? in->size : sizeof(data), (off_t)in->offset);
    if (length == -1)
        answer_error(request, errno);
    else
        answer(request, data, (size_t)length);
}

/* Pages of a mapping have their place, also when the file that they came by was opened to append. */
static ssize_t write_page(struct handle *handle, const void *data, size_t length, off_t offset)
{
    int flags = fcntl(handle->fd, F_GETFL);
    if (flags == -1 || fcntl(handle->fd, F_SETFL, flags & ~O_APPEND) == -1)
        return -1;
    ssize_t written = pwrite(handle->fd, data, length, offset);
    int error = errno;
    if (fcntl(handle->fd, F_SETFL, flags) == -1)
        return -1;
    errno = error;
    return written;
}

void serve_write(const struct request *request)
{
    const struct fuse_write_in *in = request->body;
    struct handle *handle = has_body(request, sizeof(*in)) ? handle_of(request, in->fh, false) : NULL;
    if (!handle)
        return;
    const void *data = in + 1;
    if (in->size > request->length - sizeof(*in)) {
        answer_error(request, EINVAL);
        return;
    }
    bool is_page = in->write_flags & FUSE_WRITE_CACHE, appends = handle->flags & O_APPEND;
    struct stat stat = {.st_size = (off_t)in->offset};
    /* Handles of a file in memory share one descriptor, so that one does not know that this handle appends. */
    if (handle->node->is_gone && appends && !is_page)
        fstat(handle->fd, &stat);
    ssize_t written = is_page && appends ? write_page(handle, data, in->size, (off_t)in->offset)
                                         : pwrite(handle->fd, data, in->size, stat.st_size);
    struct fuse_write_out out = {.size = (uint32_t)written};
    if (written == -1)
        answer_error(request, errno);
    else
        answer(request, &out, sizeof(out));
}

/* Appends an entry. False when it does not fit. */
static bool add_entry(char *out, size_t *used, size_t most, const struct dirent64 *entry)
{
    size_t length = strlen(entry->d_name);
    size_t size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + length);
    if (*used + size > most)
        return false;
    struct fuse_dirent *to = (void *)(out + *used);
    memset(to, 0, size);
    *to = (struct fuse_dirent){
        .ino = entry->d_ino, .off = (uint64_t)entry->d_off, .namelen = (uint32_t)length, .type = entry->d_type};
    memcpy((char *)to + FUSE_NAME_OFFSET, entry->d_name, length);
    *used += size;
    return true;
}

void serve_readdir(const struct request *request)
{
    static _Alignas(8) char raw[32768], out[65536];
    const struct fuse_read_in *in = request->body;
    struct handle *handle = has_body(request, sizeof(*in)) ? handle_of(request, in->fh, true) : NULL;
    if (!handle)
        return;
    size_t most = in->size < sizeof(out) ? in->size : sizeof(out), used = 0;
    /* Numbers of places in a directory stay valid: file systems use the hash of the name, or the like. */
    if (lseek(handle->fd, (off_t)in->offset, SEEK_SET) == -1) {
        answer_error(request, errno);
        return;
    }
    for (bool fits = true; fits;) {
        long count = syscall(SYS_getdents64, handle->fd, raw, sizeof(raw));
        if (count == -1 && used == 0) {
            answer_error(request, errno);
            return;
        }
        if (count <= 0)
            break;
        for (long at = 0; at < count && fits;) {
            const struct dirent64 *entry = (const void *)(raw + at);
            fits = add_entry(out, &used, most, entry);
            at += entry->d_reclen;
        }
    }
    answer(request, out, used);
}

void serve_fsync(const struct request *request)
{
    const struct fuse_fsync_in *in = request->body;
    bool is_directory = request->header->opcode == FUSE_FSYNCDIR;
    struct handle *handle = has_body(request, sizeof(*in)) ? handle_of(request, in->fh, is_directory) : NULL;
    if (handle)
        answer_outcome(request, in->fsync_flags & FUSE_FSYNC_FDATASYNC ? fdatasync(handle->fd) : fsync(handle->fd));
}

void serve_fallocate(const struct request *request)
{
    const struct fuse_fallocate_in *in = request->body;
    struct handle *handle = has_body(request, sizeof(*in)) ? handle_of(request, in->fh, false) : NULL;
    if (handle)
        answer_outcome(request, fallocate(handle->fd, (int)in->mode, (off_t)in->offset, (off_t)in->length));
}

void serve_seek(const struct request *request)
{
    const struct fuse_lseek_in *in = request->body;
    struct handle *handle = has_body(request, sizeof(*in)) ? handle_of(request, in->fh, false) : NULL;
    if (!handle)
        return;
    off_t found = in->whence == SEEK_DATA || in->whence == SEEK_HOLE ? lseek(handle->fd, (off_t)in->offset, (int)in->whence)
                                                                     : (errno = EINVAL, -1);
    struct fuse_lseek_out out = {.offset = (uint64_t)found};
    if (found == -1)
        answer_error(request, errno);
    else
        answer(request, &out, sizeof(out));
}
