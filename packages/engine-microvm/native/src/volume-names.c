/* Requests about names in directories. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "volume-handles.h"
#include "volume-requests.h"

static bool describe_name(int directory, const char *name, struct statx *stat)
{
    return statx(directory, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, stat) == 0;
}

/* Opens the directory of the request. Answers when it cannot. */
static int open_directory(const struct request *request, struct node **node)
{
    *node = node_of(request);
    if (!*node)
        return -1;
    int directory = node_open(*node, O_PATH | O_DIRECTORY);
    if (directory == -1)
        answer_error(request, errno);
    return directory;
}

bool describe_entry(struct node *parent, const char *name, struct fuse_entry_out *entry)
{
    struct statx stat;
    int directory = node_open(parent, O_PATH | O_DIRECTORY);
    bool is_there = directory != -1 && describe_name(directory, name, &stat);
    int error = errno;
    if (directory != -1)
        close(directory);
    if (!is_there)
        return errno = error, false;
    struct node *node = node_at(parent, name, identity_of(&stat));
    if (!node)
        return errno = ENOMEM, false;
    node->lookups++;
    /* No time for which names and attributes are valid: other sandboxes may change them at any moment. */
    *entry = (struct fuse_entry_out){.nodeid = node->id, .attr = attributes_of(&stat)};
    return true;
}

void answer_entry(const struct request *request, struct node *parent, const char *name)
{
    struct fuse_entry_out entry;
    if (describe_entry(parent, name, &entry))
        answer(request, &entry, sizeof(entry));
    else
        answer_error(request, errno);
}

void serve_lookup(const struct request *request)
{
    const char *name = name_at(request, 0);
    struct node *parent = name ? node_of(request) : NULL;
    if (parent)
        answer_entry(request, parent, name);
}

void serve_forget(const struct request *request)
{
    const struct fuse_forget_in *in = request->body;
    struct node *node = request->length >= sizeof(*in) ? node_find(request->header->nodeid) : NULL;
    if (node)
        node_forget(node, in->nlookup);
}

void serve_batch_forget(const struct request *request)
{
    const struct fuse_batch_forget_in *in = request->body;
    const struct fuse_forget_one *one = (const void *)(in + 1);
    if (request->length < sizeof(*in))
        return;
    size_t count = (request->length - sizeof(*in)) / sizeof(*one);
    for (size_t i = 0; i < count && i < in->count; i++) {
        struct node *node = node_find(one[i].nodeid);
        if (node)
            node_forget(node, one[i].nlookup);
    }
}

/* A new file belongs to who made it, and to the group of a directory that gives its group away. */
static int own_new(int directory, const char *name, const struct fuse_in_header *header)
{
    struct stat parent;
    if (fstat(directory, &parent) == -1)
        return -1;
    gid_t group = parent.st_mode & S_ISGID ? (gid_t)-1 : header->gid;
    return fchownat(directory, name, header->uid, group, AT_SYMLINK_NOFOLLOW);
}

/* Answers with the new entry. One that cannot have its owner is removed again. */
static void finish_new(const struct request *request, int directory, struct node *parent, const char *name, int outcome, int remove_flags)
{
    if (outcome == 0 && own_new(directory, name, request->header) == -1) {
        int error = errno;
        unlinkat(directory, name, remove_flags);
        errno = error;
        outcome = -1;
    }
    if (outcome == -1)
        answer_error(request, errno);
    else
        answer_entry(request, parent, name);
    close(directory);
}

/* Opens a file that may exist. `is_new` says whether this made it. */
static int open_or_make(int directory, const char *name, const struct fuse_create_in *in, bool *is_new)
{
    int flags = server_flags(in->flags) | O_NOFOLLOW;
    int fd = openat(directory, name, flags | O_CREAT | O_EXCL, in->mode & 07777);
    *is_new = fd != -1;
    return fd == -1 && errno == EEXIST && !(in->flags & O_EXCL) ? openat(directory, name, flags) : fd;
}

void serve_create(const struct request *request)
{
    const struct fuse_create_in *in = request->body;
    if (!has_body(request, sizeof(*in)))
        return;
    const char *name = name_at(request, sizeof(*in));
    struct node *parent;
    int directory = name ? open_directory(request, &parent) : -1;
    if (directory == -1)
        return;
    bool is_new;
    struct {
        struct fuse_entry_out entry;
        struct fuse_open_out open;
    } out = {0};
    int fd = open_or_make(directory, name, in, &is_new);
    struct stat stat;
    bool is_file = fd != -1 && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
    if (fd != -1 && !is_file)
        errno = EEXIST;
    if (is_new && is_file && own_new(directory, name, request->header) == -1) {
        int error = errno;
        unlinkat(directory, name, 0);
        errno = error;
        is_file = false;
    }
    bool is_known = is_file && describe_entry(parent, name, &out.entry);
    int error = errno;
    close(directory);
    struct handle *handle = is_known ? handle_open(node_find(out.entry.nodeid), fd, in->flags, false) : NULL;
    if (is_known && !handle)
        error = errno;
    else if (!is_known && fd != -1)
        close(fd);
    if (!handle) {
        if (is_known)
            node_forget(node_find(out.entry.nodeid), 1);
        answer_error(request, error);
        return;
    }
    out.open.fh = handle->id;
    answer(request, &out, sizeof(out));
}

void serve_mknod(const struct request *request)
{
    const struct fuse_mknod_in *in = request->body;
    if (!has_body(request, sizeof(*in)))
        return;
    const char *name = name_at(request, sizeof(*in));
    struct node *parent;
    if (name && !S_ISREG(in->mode) && !S_ISFIFO(in->mode) && !S_ISSOCK(in->mode)) {
        answer_error(request, EPERM);
        return;
    }
    int directory = name ? open_directory(request, &parent) : -1;
    if (directory != -1)
        finish_new(request, directory, parent, name, mknodat(directory, name, in->mode & (S_IFMT | 07777), 0), 0);
}

void serve_mkdir(const struct request *request)
{
    const struct fuse_mkdir_in *in = request->body;
    if (!has_body(request, sizeof(*in)))
        return;
    const char *name = name_at(request, sizeof(*in));
    struct node *parent;
    int directory = name ? open_directory(request, &parent) : -1;
    if (directory != -1)
        finish_new(request, directory, parent, name, mkdirat(directory, name, in->mode & 07777), AT_REMOVEDIR);
}

void serve_symlink(const struct request *request)
{
    const char *name = name_at(request, 0);
    if (!name)
        return;
    size_t at = strlen(name) + 1;
    const char *target = (const char *)request->body + at;
    if (at >= request->length || strnlen(target, request->length - at) == request->length - at) {
        answer_error(request, EINVAL);
        return;
    }
    struct node *parent;
    int directory = open_directory(request, &parent);
    if (directory != -1)
        finish_new(request, directory, parent, name, symlinkat(target, directory, name), 0);
}

void serve_link(const struct request *request)
{
    const struct fuse_link_in *in = request->body;
    if (!has_body(request, sizeof(*in)))
        return;
    const char *name = name_at(request, sizeof(*in));
    struct node *node = name ? node_find(in->oldnodeid) : NULL, *parent;
    if (name && (!node || !node->parent)) {
        answer_error(request, ESTALE);
        return;
    }
    int directory = name ? open_directory(request, &parent) : -1;
    if (directory == -1)
        return;
    int from = node_open_parent(node);
    int outcome = from == -1 ? -1 : linkat(from, node->name, directory, name, 0);
    int error = errno;
    if (from != -1)
        close(from);
    close(directory);
    if (outcome == -1)
        answer_error(request, error);
    else
        answer_entry(request, parent, name);
}

void serve_remove(const struct request *request, int flags)
{
    const char *name = name_at(request, 0);
    struct node *parent;
    int directory = name ? open_directory(request, &parent) : -1;
    if (directory == -1)
        return;
    answer_outcome(request, unlinkat(directory, name, flags));
    close(directory);
}

/* The nodes of what a rename moves. Null for what the guest does not know. */
static struct node *known_at(int directory, const char *name)
{
    struct statx stat;
    return describe_name(directory, name, &stat) ? node_with(identity_of(&stat)) : NULL;
}

void serve_rename(const struct request *request)
{
    bool has_flags = request->header->opcode == FUSE_RENAME2;
    size_t size = has_flags ? sizeof(struct fuse_rename2_in) : sizeof(struct fuse_rename_in);
    if (!has_body(request, size))
        return;
    uint64_t target_id = ((const struct fuse_rename_in *)request->body)->newdir;
    uint32_t flags = has_flags ? ((const struct fuse_rename2_in *)request->body)->flags : 0;
    const char *from = name_at(request, size);
    const char *to = from ? name_at(request, size + strlen(from) + 1) : NULL;
    struct node *source, *target = node_find(target_id);
    if (to && (!target || flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE))) {
        answer_error(request, target ? EINVAL : ESTALE);
        return;
    }
    int source_fd = to ? open_directory(request, &source) : -1;
    if (source_fd == -1)
        return;
    int target_fd = node_open(target, O_PATH | O_DIRECTORY);
    struct node *moved = target_fd == -1 ? NULL : known_at(source_fd, from);
    struct node *other = target_fd != -1 && flags & RENAME_EXCHANGE ? known_at(target_fd, to) : NULL;
    int outcome = target_fd == -1 ? -1 : (int)syscall(SYS_renameat2, source_fd, from, target_fd, to, flags);
    answer_outcome(request, outcome);
    if (outcome == 0 && moved)
        node_move(moved, target, to);
    if (outcome == 0 && other)
        node_move(other, source, from);
    close(source_fd);
    if (target_fd != -1)
        close(target_fd);
}

void serve_readlink(const struct request *request)
{
    char target[PATH_MAX];
    struct node *node = node_of(request);
    int fd = node ? node_open(node, O_PATH) : -1;
    if (!node)
        return;
    ssize_t length = fd == -1 ? -1 : readlinkat(fd, "", target, sizeof(target));
    if (length == -1)
        answer_error(request, errno);
    else
        answer(request, target, (size_t)length);
    if (fd != -1)
        close(fd);
}
