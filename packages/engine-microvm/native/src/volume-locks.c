#include "volume-locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct waiting {
    struct fuse_in_header header;
    struct fuse_lk_in body;
};

static struct lock_file *lock_files;
static size_t lock_file_count;
static struct waiting waiting[WAITING_MAX];
static size_t waiting_count;

static struct lock_file *lock_file_of(struct node *node, uint64_t owner, bool makes)
{
    for (struct lock_file *file = lock_files; file; file = file->next)
        if (file->node == node && file->owner == owner)
            return file;
    if (!makes)
        return NULL;
    struct lock_file *file = lock_file_count == LOCK_FILES_MAX ? NULL : calloc(1, sizeof(*file));
    if (!file)
        return errno = ENOLCK, NULL;
    file->fd = node_open(node, O_RDWR | O_NONBLOCK);
    if (file->fd == -1 && errno == EROFS)
        file->fd = node_open(node, O_RDONLY | O_NONBLOCK);
    if (file->fd == -1) {
        free(file);
        return errno = ENOLCK, NULL;
    }
    *file = (struct lock_file){.next = lock_files, .node = node, .owner = owner, .fd = file->fd};
    lock_files = file;
    lock_file_count++;
    return file;
}

static void drop_lock_files(const struct node *node, const uint64_t *owner)
{
    for (struct lock_file **at = &lock_files; *at;) {
        struct lock_file *file = *at;
        if (file->node != node || (owner && file->owner != *owner)) {
            at = &file->next;
            continue;
        }
        *at = file->next;
        close(file->fd);
        free(file);
        lock_file_count--;
    }
}

/* What is left of the ranges when this one has taken its place. */
static void note_range(struct lock_file *file, struct range new)
{
    struct range kept[RANGES_MAX + 2];
    size_t count = 0;
    for (size_t i = 0; i < file->range_count && count < RANGES_MAX; i++) {
        struct range old = file->ranges[i];
        if (old.end < new.start || old.start > new.end) {
            kept[count++] = old;
            continue;
        }
        if (old.start < new.start)
            kept[count++] = (struct range){old.start, new.start - 1, old.type};
        if (old.end > new.end)
            kept[count++] = (struct range){new.end + 1, old.end, old.type};
    }
    if (new.type != F_UNLCK)
        kept[count++] = new;
    file->range_count = count < RANGES_MAX ? count : RANGES_MAX;
    memcpy(file->ranges, kept, file->range_count * sizeof(*kept));
}

static struct flock as_flock(const struct range *range)
{
    bool is_to_end = range->end >= INT64_MAX;
    return (struct flock){
        .l_type = (short)range->type,
        .l_whence = SEEK_SET,
        .l_start = (off_t)range->start,
        .l_len = is_to_end ? 0 : (off_t)(range->end - range->start + 1),
    };
}

static int set_range(struct node *node, uint64_t owner, const struct range *range)
{
    struct lock_file *file = lock_file_of(node, owner, range->type != F_UNLCK);
    if (!file)
        return range->type == F_UNLCK ? 0 : -1;
    /* Two more may come from one that is split. */
    if (range->type != F_UNLCK && file->range_count + 2 > RANGES_MAX)
        return errno = ENOLCK, -1;
    struct flock lock = as_flock(range);
    if (fcntl(file->fd, F_OFD_SETLK, &lock) == -1)
        return -1;
    note_range(file, *range);
    return 0;
}

static int set_flock(struct handle *handle, int operation)
{
    if (flock(handle->fd, operation | LOCK_NB) == -1)
        return -1;
    handle->flock = operation == LOCK_UN ? 0 : operation;
    return 0;
}

static int try_lock(struct handle *handle, const struct fuse_lk_in *in)
{
    if (in->lk_flags & FUSE_LK_FLOCK)
        return set_flock(handle, in->lk.type == F_UNLCK ? LOCK_UN : in->lk.type == F_WRLCK ? LOCK_EX : LOCK_SH);
    struct range range = {in->lk.start, in->lk.end, in->lk.type};
    if (range.start > INT64_MAX || range.end < range.start || range.type > F_UNLCK)
        return errno = EINVAL, -1;
    return set_range(handle->node, in->owner, &range);
}

static struct handle *handle_of(const struct request *request, uint64_t id)
{
    struct handle *handle = handle_find(id);
    if (handle && handle->node->id == request->header->nodeid)
        return handle;
    answer_error(request, EBADF);
    return NULL;
}

static bool is_held(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EACCES;
}

void serve_lock(const struct request *request, bool waits)
{
    const struct fuse_lk_in *in = request->body;
    struct handle *handle = has_body(request, sizeof(*in)) ? handle_of(request, in->fh) : NULL;
    if (!handle)
        return;
    int outcome = try_lock(handle, in);
    if (outcome == -1 && waits && is_held(errno)) {
        if (waiting_count < WAITING_MAX)
            waiting[waiting_count++] = (struct waiting){*request->header, *in};
        else
            answer_error(request, ENOLCK);
        return;
    }
    answer_outcome(request, outcome);
}

void serve_get_lock(const struct request *request)
{
    const struct fuse_lk_in *in = request->body;
    struct handle *handle = has_body(request, sizeof(*in)) ? handle_of(request, in->fh) : NULL;
    if (!handle)
        return;
    struct range range = {in->lk.start, in->lk.end, in->lk.type};
    struct lock_file *own = lock_file_of(handle->node, in->owner, false);
    struct flock lock = as_flock(&range);
    if (range.start > INT64_MAX || range.end < range.start || fcntl(own ? own->fd : handle->fd, F_OFD_GETLK, &lock) == -1) {
        answer_error(request, EINVAL);
        return;
    }
    struct fuse_lk_out out = {.lk = {.type = (uint32_t)lock.l_type}};
    if (lock.l_type != F_UNLCK) {
        out.lk.start = (uint64_t)lock.l_start;
        out.lk.end = lock.l_len == 0 ? INT64_MAX : (uint64_t)(lock.l_start + lock.l_len - 1);
    }
    answer(request, &out, sizeof(out));
}

void serve_flush(const struct request *request)
{
    const struct fuse_flush_in *in = request->body;
    struct handle *handle = has_body(request, sizeof(*in)) ? handle_of(request, in->fh) : NULL;
    if (!handle)
        return;
    drop_lock_files(handle->node, &in->lock_owner);
    answer(request, NULL, 0);
}

static struct request request_of(const struct waiting *one)
{
    return (struct request){&one->header, &one->body, sizeof(one->body)};
}

void serve_interrupt(const struct request *request)
{
    const struct fuse_interrupt_in *in = request->body;
    for (size_t i = 0; request->length >= sizeof(*in) && i < waiting_count; i++) {
        if (waiting[i].header.unique != in->unique)
            continue;
        struct waiting one = waiting[i];
        waiting[i] = waiting[--waiting_count];
        struct request interrupted = request_of(&one);
        answer_error(&interrupted, EINTR);
        return;
    }
}

bool locks_retry(void)
{
    for (size_t i = 0; i < waiting_count;) {
        struct waiting one = waiting[i];
        struct request request = request_of(&one);
        struct handle *handle = handle_find(one.body.fh);
        int outcome = handle ? try_lock(handle, &one.body) : (errno = EBADF, -1);
        if (outcome == -1 && is_held(errno)) {
            i++;
            continue;
        }
        int error = errno;
        waiting[i] = waiting[--waiting_count];
        errno = error;
        answer_outcome(&request, outcome);
    }
    return waiting_count > 0;
}

bool locks_wait_for(uint64_t unique)
{
    for (size_t i = 0; i < waiting_count; i++)
        if (waiting[i].header.unique == unique)
            return true;
    return false;
}

void locks_end(struct handle *handle)
{
    if (handle->node->handles == handle && !handle->next_of_node)
        drop_lock_files(handle->node, NULL);
}

void lock_files_each(void (*visit)(struct lock_file *file, void *context), void *context)
{
    for (struct lock_file *file = lock_files; file; file = file->next)
        visit(file, context);
}

bool lock_restore(struct node *node, uint64_t owner, const struct range *range)
{
    return set_range(node, owner, range) == 0;
}

bool flock_restore(struct handle *handle, int type)
{
    return set_flock(handle, type) == 0;
}
