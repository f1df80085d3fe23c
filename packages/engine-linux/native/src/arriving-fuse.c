#include "arriving-fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <unistd.h>

#include "report.h"

#define READ_MAX_BYTES (1u << 20)
#define REQUEST_BYTES (READ_MAX_BYTES + 4096)
/* Names and sizes never change: the kernel need not ask again. */
#define FOREVER_S 1000000000u
/* Node ids of files follow the root's. */
#define FIRST_NODE (FUSE_ROOT_ID + 1)

struct waiting_read {
    struct waiting_read *next;
    uint64_t unique;
    uint32_t file;
    uint64_t offset;
    uint32_t length;
};

static struct waiting_read *waiting;
static char buffer[REQUEST_BYTES];

int mount_arriving(const char *mount_point)
{
    int fuse = CHECK(open("/dev/fuse", O_RDWR | O_CLOEXEC), "open /dev/fuse");
    char options[160];
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other,max_read=%u",
             fuse, READ_MAX_BYTES);
    CHECK(mount("memory", mount_point, "fuse", MS_RDONLY | MS_NOSUID | MS_NODEV, options), "mount the memory files");
    return fuse;
}

/* An answer that the kernel does not want any more (ENOENT) was for a process that has ended. */
static void answer(int fuse, uint64_t unique, int error, const void *data, size_t length)
{
    struct fuse_out_header header = {.len = (uint32_t)(sizeof(header) + length), .error = -error, .unique = unique};
    struct iovec parts[] = {{&header, sizeof(header)}, {(void *)data, length}};
    if (writev(fuse, parts, length > 0 ? 2 : 1) == -1 && errno != ENOENT && errno != ENODEV)
        fail("answer the kernel");
}

static struct fuse_attr attributes_of(const struct arriving_files *files, uint64_t node)
{
    if (node == FUSE_ROOT_ID)
        return (struct fuse_attr){.ino = node, .mode = S_IFDIR | 0755, .nlink = 2, .blksize = 4096};
    const struct stat *stat = &files->list[node - FIRST_NODE].stat;
    return (struct fuse_attr){
        .ino = node,
        .size = (uint64_t)stat->st_size,
        .blocks = ((uint64_t)stat->st_size + 511) / 512,
        .mode = stat->st_mode,
        .nlink = 1,
        .uid = stat->st_uid,
        .gid = stat->st_gid,
        .blksize = 4096,
    };
}

static void answer_init(int fuse, uint64_t unique, const struct fuse_init_in *in)
{
    struct fuse_init_out out = {
        .major = FUSE_KERNEL_VERSION,
        .minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor : FUSE_KERNEL_MINOR_VERSION,
        .max_readahead = in->max_readahead,
        .flags = in->flags & (FUSE_ASYNC_READ | FUSE_MAX_PAGES | FUSE_PARALLEL_DIROPS | FUSE_NO_OPENDIR_SUPPORT),
        /* As many threads may wait for pages as there are; none may block the answers of others. */
        .max_background = UINT16_MAX,
        .congestion_threshold = UINT16_MAX,
        .max_write = 4096,
        .max_pages = READ_MAX_BYTES / 4096,
    };
    answer(fuse, unique, 0, &out, sizeof(out));
}

static void answer_lookup(int fuse, uint64_t unique, const struct arriving_files *files, const char *name)
{
    for (uint32_t index = 0; index < files->count; index++) {
        if (strcmp(files->list[index].name, name) != 0)
            continue;
        uint64_t node = index + FIRST_NODE;
        struct fuse_entry_out out = {
            .nodeid = node, .entry_valid = FOREVER_S, .attr_valid = FOREVER_S, .attr = attributes_of(files, node)};
        answer(fuse, unique, 0, &out, sizeof(out));
        return;
    }
    answer(fuse, unique, ENOENT, NULL, 0);
}

static void answer_data(int fuse, const struct arriving_files *files, const struct waiting_read *read)
{
    static char data[READ_MAX_BYTES];
    ssize_t length = pread(files->list[read->file].fd, data, read->length, (off_t)read->offset);
    if (length == -1)
        answer(fuse, read->unique, EIO, NULL, 0);
    else
        answer(fuse, read->unique, 0, data, (size_t)length);
}

static void want_missing(const struct arriving_files *files, const struct waiting_read *read, want_pages want)
{
    const struct arriving_file *file = &files->list[read->file];
    uint64_t end = (read->offset + read->length + PAGE_BYTES - 1) / PAGE_BYTES;
    uint64_t first = read->offset / PAGE_BYTES;
    for (uint64_t page = first; page < end; page++) {
        if (file->map[page] != PAGE_MISSING) {
            first = page + 1;
            continue;
        }
        if (page + 1 == end || file->map[page + 1] != PAGE_MISSING)
            want(file->name, first, page + 1 - first);
    }
}

/* False when it has to wait. */
static bool try_read(int fuse, const struct arriving_files *files, const struct waiting_read *read)
{
    enum page_state state = state_of(files, read->file, read->offset, read->length);
    if (state == PAGE_MISSING)
        return false;
    if (state == PAGE_LOST)
        answer(fuse, read->unique, EIO, NULL, 0);
    else
        answer_data(fuse, files, read);
    return true;
}

static void begin_read(int fuse, const struct arriving_files *files, const struct fuse_in_header *header, want_pages want)
{
    const struct fuse_read_in *in = (const void *)(header + 1);
    uint64_t index = header->nodeid - FIRST_NODE;
    uint64_t size = index < files->count ? (uint64_t)files->list[index].stat.st_size : 0;
    if (index >= files->count || in->size > READ_MAX_BYTES || in->offset >= size) {
        answer(fuse, header->unique, index >= files->count || in->size > READ_MAX_BYTES ? EIO : 0, NULL, 0);
        return;
    }
    uint64_t length = size - in->offset < in->size ? size - in->offset : in->size;
    struct waiting_read read = {
        .unique = header->unique, .file = (uint32_t)index, .offset = in->offset, .length = (uint32_t)length};
    if (try_read(fuse, files, &read))
        return;
    struct waiting_read *kept = malloc(sizeof(*kept));
    if (!kept) {
        answer(fuse, header->unique, ENOMEM, NULL, 0);
        return;
    }
    *kept = read;
    kept->next = waiting;
    waiting = kept;
    want_missing(files, kept, want);
}

static void interrupt_read(int fuse, uint64_t unique)
{
    for (struct waiting_read **at = &waiting; *at; at = &(*at)->next) {
        struct waiting_read *read = *at;
        if (read->unique != unique)
            continue;
        *at = read->next;
        free(read);
        answer(fuse, unique, EINTR, NULL, 0);
        return;
    }
}

void answer_waiting(int fuse, const struct arriving_files *files)
{
    for (struct waiting_read **at = &waiting; *at;) {
        struct waiting_read *read = *at;
        if (!try_read(fuse, files, read)) {
            at = &read->next;
            continue;
        }
        *at = read->next;
        free(read);
    }
}

void want_all(const struct arriving_files *files, want_pages want)
{
    for (const struct waiting_read *read = waiting; read; read = read->next)
        want_missing(files, read, want);
}

static void answer_known(int fuse, const struct arriving_files *files, const struct fuse_in_header *header, want_pages want)
{
    const void *body = header + 1;
    struct fuse_attr_out attributes = {.attr_valid = FOREVER_S};
    struct fuse_open_out opened = {.open_flags = FOPEN_KEEP_CACHE};
    /* CRIU asks for the file system of every mapping. */
    struct fuse_statfs_out file_system = {.st = {.bsize = PAGE_BYTES, .frsize = PAGE_BYTES, .namelen = 255}};
    switch (header->opcode) {
    case FUSE_INIT:
        answer_init(fuse, header->unique, body);
        return;
    case FUSE_LOOKUP:
        answer_lookup(fuse, header->unique, files, body);
        return;
    case FUSE_GETATTR:
        attributes.attr = attributes_of(files, header->nodeid);
        answer(fuse, header->unique, 0, &attributes, sizeof(attributes));
        return;
    case FUSE_OPEN:
        answer(fuse, header->unique, 0, &opened, sizeof(opened));
        return;
    case FUSE_STATFS:
        answer(fuse, header->unique, 0, &file_system, sizeof(file_system));
        return;
    case FUSE_READ:
        begin_read(fuse, files, header, want);
        return;
    case FUSE_INTERRUPT:
        interrupt_read(fuse, ((const struct fuse_interrupt_in *)body)->unique);
        return;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
        return;
    case FUSE_RELEASE:
    case FUSE_FLUSH:
        answer(fuse, header->unique, 0, NULL, 0);
        return;
    default:
        answer(fuse, header->unique, ENOSYS, NULL, 0);
    }
}

bool answer_request(int fuse, const struct arriving_files *files, want_pages want)
{
    ssize_t length = read(fuse, buffer, sizeof(buffer));
    if (length == -1 && errno == ENODEV)
        return false;
    /* ENOENT: the request was taken back before it was read. */
    if (length == -1 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
        return true;
    CHECK(length, "read a request of the kernel");
    const struct fuse_in_header *header = (const void *)buffer;
    bool is_file = header->nodeid >= FIRST_NODE && header->nodeid - FIRST_NODE < files->count;
    if (!is_file && header->nodeid > FUSE_ROOT_ID)
        answer(fuse, header->unique, ENOENT, NULL, 0);
    else
        answer_known(fuse, files, header, want);
    return true;
}
