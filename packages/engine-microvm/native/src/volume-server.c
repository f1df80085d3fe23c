/*
 * dormouse-volume-server [--cgroup DIRECTORY]… --filter FILE… --volume DIRECTORY ro|rw --ids BASE COUNT
 *   --requests SOCKET --control SOCKET
 *
 * Answers the requests that the kernel of a guest sends for a volume that it has mounted by FUSE, over a socket that the
 * engine connects to a stream of the link. The guest may be hostile: this process sees the volume and nothing else, as
 * root of a user namespace with the ids of sandboxes. It outlives the engine, because the guest does, and ends with the
 * cgroup of its burrow.
 *
 * A connection to the other socket gets the state: see volume-state.h. Standard input has the state of an earlier server,
 * or is empty. Writes `ready PID` when it answers, or `error …`.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "filters.h"
#include "join-cgroup.h"
#include "report.h"
#include "volume-jail.h"
#include "volume-locks.h"
#include "volume-state.h"

#define LOCK_RETRY_MS 20

static struct slot slots[SLOTS];
static _Alignas(8) unsigned char input[REQUEST_MAX_BYTES];
static size_t input_used;
static int guest = -1;
/* Whether the guest slept, and has not heard from this process yet. */
static bool is_woken;

static void hang_up(void)
{
    if (guest != -1)
        close(guest);
    guest = -1;
    input_used = 0;
}

/* The engine hangs up before it saves, so this waits only for a guest that runs. */
static void send_all(const struct iovec *parts, size_t count)
{
    for (size_t i = 0; i < count && guest != -1; i++)
        for (size_t sent = 0; sent < parts[i].iov_len && guest != -1;) {
            ssize_t length = send(guest, (char *)parts[i].iov_base + sent, parts[i].iov_len - sent, MSG_NOSIGNAL);
            if (length == -1 && errno == EINTR)
                continue;
            if (length == -1)
                hang_up();
            else
                sent += (size_t)length;
        }
}

static void send_answer(const struct request *request, int error, const void *data, size_t length)
{
    struct fuse_out_header header = {
        .len = (uint32_t)(sizeof(header) + length), .error = -error, .unique = request->header->unique};
    struct slot *slot = &slots[request->header->padding % SLOTS];
    if (header.len <= sizeof(slot->answer) && slot->unique == header.unique) {
        memcpy(slot->answer, &header, sizeof(header));
        memcpy(slot->answer + sizeof(header), data ? data : "", length);
        slot->length = header.len;
    }
    struct iovec parts[] = {{&header, sizeof(header)}, {(void *)data, length}};
    send_all(parts, length > 0 ? 2 : 1);
}

void answer(const struct request *request, const void *data, size_t length)
{
    send_answer(request, 0, data, length);
}

void answer_error(const struct request *request, int error)
{
    send_answer(request, error, NULL, 0);
}

void answer_outcome(const struct request *request, int outcome)
{
    send_answer(request, outcome == -1 ? errno : 0, NULL, 0);
}

bool has_body(const struct request *request, size_t size)
{
    if (request->length >= size)
        return true;
    answer_error(request, EINVAL);
    return false;
}

const char *name_at(const struct request *request, size_t offset)
{
    const char *name = (const char *)request->body + offset;
    size_t most = offset < request->length ? request->length - offset : 0;
    size_t length = strnlen(name, most);
    if (length > 0 && length < most && length <= NAME_MAX && !memchr(name, '/', length) && strcmp(name, ".") != 0 &&
        strcmp(name, "..") != 0)
        return name;
    answer_error(request, length > NAME_MAX ? ENAMETOOLONG : EINVAL);
    return NULL;
}

struct node *node_of(const struct request *request)
{
    struct node *node = node_find(request->header->nodeid);
    if (!node)
        answer_error(request, ESTALE);
    return node;
}

static void serve_init(const struct request *request)
{
    const struct fuse_init_in *in = request->body;
    if (!has_body(request, 16))
        return;
    uint32_t wanted = FUSE_ASYNC_READ | FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES |
                      FUSE_AUTO_INVAL_DATA | FUSE_MAX_PAGES;
    struct fuse_init_out out = {
        .major = FUSE_KERNEL_VERSION,
        .minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor : FUSE_KERNEL_MINOR_VERSION,
        .max_readahead = in->max_readahead < IO_MAX_BYTES ? in->max_readahead : IO_MAX_BYTES,
        .flags = in->flags & wanted,
        .max_background = SLOTS / 4,
        .congestion_threshold = SLOTS / 8,
        .max_write = IO_MAX_BYTES,
        .max_pages = IO_MAX_BYTES / 4096,
        .time_gran = 1,
    };
    answer(request, &out, sizeof(out));
}

static void serve(const struct request *request)
{
    switch (request->header->opcode) {
    case FUSE_INIT: serve_init(request); return;
    case FUSE_LOOKUP: serve_lookup(request); return;
    case FUSE_GETATTR: serve_getattr(request); return;
    case FUSE_SETATTR: serve_setattr(request); return;
    case FUSE_READLINK: serve_readlink(request); return;
    case FUSE_SYMLINK: serve_symlink(request); return;
    case FUSE_MKNOD: serve_mknod(request); return;
    case FUSE_MKDIR: serve_mkdir(request); return;
    case FUSE_UNLINK: serve_remove(request, 0); return;
    case FUSE_RMDIR: serve_remove(request, AT_REMOVEDIR); return;
    case FUSE_RENAME:
    case FUSE_RENAME2: serve_rename(request); return;
    case FUSE_LINK: serve_link(request); return;
    case FUSE_CREATE: serve_create(request); return;
    case FUSE_OPEN: serve_open(request, false); return;
    case FUSE_OPENDIR: serve_open(request, true); return;
    case FUSE_READ: serve_read(request); return;
    case FUSE_READDIR: serve_readdir(request); return;
    case FUSE_WRITE: serve_write(request); return;
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR: serve_fsync(request); return;
    case FUSE_FALLOCATE: serve_fallocate(request); return;
    case FUSE_LSEEK: serve_seek(request); return;
    case FUSE_FLUSH: serve_flush(request); return;
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR: serve_release(request); return;
    case FUSE_GETLK: serve_get_lock(request); return;
    case FUSE_SETLK: serve_lock(request, false); return;
    case FUSE_SETLKW: serve_lock(request, true); return;
    case FUSE_STATFS: serve_statfs(request); return;
    case FUSE_DESTROY: answer(request, NULL, 0); return;
    default: answer_error(request, ENOSYS);
    }
}

/* A guest that does not know whether its request was answered sends it again: then it gets the same answer. */
static void serve_once(const struct request *request)
{
    const struct fuse_in_header *header = request->header;
    if (header->padding >= SLOTS) {
        hang_up();
        return;
    }
    struct slot *slot = &slots[header->padding];
    if (slot->unique == header->unique && slot->length > 0) {
        struct iovec kept = {slot->answer, slot->length};
        send_all(&kept, 1);
    } else if (!locks_wait_for(header->unique)) {
        slot->unique = header->unique;
        slot->length = 0;
        serve(request);
    }
}

static void serve_message(void)
{
    const struct fuse_in_header *header = (const void *)input;
    struct request request = {header, header + 1, header->len - sizeof(*header)};
    if (header->opcode == FUSE_FORGET)
        serve_forget(&request);
    else if (header->opcode == FUSE_BATCH_FORGET)
        serve_batch_forget(&request);
    else if (header->opcode == FUSE_INTERRUPT)
        serve_interrupt(&request);
    else
        serve_once(&request);
}

static void receive(void)
{
    const struct fuse_in_header *header = (const void *)input;
    size_t whole = input_used < sizeof(*header) ? sizeof(*header) : header->len;
    ssize_t count = recv(guest, input + input_used, whole - input_used, MSG_DONTWAIT);
    if (count == -1 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0) {
        hang_up();
        return;
    }
    input_used += (size_t)count;
    if (input_used < sizeof(*header))
        return;
    if (header->len < sizeof(*header) || header->len > sizeof(input)) {
        hang_up();
        return;
    }
    if (input_used == header->len) {
        input_used = 0;
        serve_message();
    }
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        refuse("the path of a socket is too long");
    strcpy(address.sun_path, path);
    int fd = CHECK(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");
    umask(0077);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof(address)), "%s", path);
    CHECK(listen(fd, 4), "listen");
    return fd;
}

/* Others may have changed what the guest has in memory of this file. */
static void invalidate(struct handle *handle, void *context)
{
    (void)context;
    struct {
        struct fuse_out_header header;
        struct fuse_notify_inval_inode_out body;
    } message = {{.len = sizeof(message), .error = FUSE_NOTIFY_INVAL_INODE}, {.ino = handle->node->id}};
    struct iovec part = {&message, sizeof(message)};
    if (!handle->is_directory && handle->node->handles == handle)
        send_all(&part, 1);
}

static void take_guest(int requests)
{
    int next = accept4(requests, NULL, NULL, SOCK_CLOEXEC);
    if (next == -1)
        return;
    /* The engine has begun a new session: the guest sends again what was not answered. */
    hang_up();
    guest = next;
    if (is_woken)
        handles_each(invalidate, NULL);
    is_woken = false;
}

/*
 * What is done after the state was saved would be done again: the guest sends it again after its sleep. So all
 * connections end first, also those that were not accepted yet.
 */
static void save(int requests, int control)
{
    int to = accept4(control, NULL, NULL, SOCK_CLOEXEC);
    for (int next; (next = accept4(requests, NULL, NULL, SOCK_CLOEXEC)) != -1;)
        close(next);
    hang_up();
    if (to != -1)
        state_save(to, slots);
}

static void run(int requests, int control)
{
    for (;;) {
        bool is_waiting = locks_retry();
        struct pollfd polled[] = {{requests, POLLIN, 0}, {control, POLLIN, 0}, {guest, POLLIN, 0}};
        if (poll(polled, 3, is_waiting ? LOCK_RETRY_MS : -1) == -1 && errno != EINTR)
            fail("poll");
        if (polled[2].revents && guest != -1)
            receive();
        if (polled[0].revents)
            take_guest(requests);
        if (polled[1].revents)
            save(requests, control);
    }
}

int main(int argc, char **argv)
{
    struct volume_jail jail = {0};
    int requests = -1, control = -1;
    report_to(STDOUT_FILENO);
    for (int i = 1; i < argc;) {
        int left = argc - i - 1;
        if (strcmp(argv[i], "--cgroup") == 0 && left > 0) {
            if (!join_cgroup(argv[i + 1]))
                fail("cgroup");
            i += 2;
        } else if (strcmp(argv[i], "--volume") == 0 && left > 1) {
            jail.directory = argv[i + 1];
            jail.is_read_only = strcmp(argv[i + 2], "rw") != 0;
            i += 3;
        } else if (strcmp(argv[i], "--filter") == 0 && left > 0) {
            filters_add(argv[i + 1]);
            i += 2;
        } else if (strcmp(argv[i], "--ids") == 0 && left > 1) {
            jail.base = (uint32_t)strtoul(argv[i + 1], NULL, 10);
            jail.count = (uint32_t)strtoul(argv[i + 2], NULL, 10);
            i += 3;
        } else if (strcmp(argv[i], "--requests") == 0 && left > 0) {
            requests = listen_at(argv[i + 1]);
            i += 2;
        } else if (strcmp(argv[i], "--control") == 0 && left > 0) {
            control = listen_at(argv[i + 1]);
            i += 2;
        } else {
            refuse("bad option %s", argv[i]);
        }
    }
    if (!jail.directory || jail.base == 0 || jail.count == 0 || requests == -1 || control == -1 || filters_count() == 0)
        refuse("a volume, ids, two sockets and a filter are needed");
    enter_volume(&jail);
    umask(0);
    nodes_open(CHECK(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "the volume"));
    uint32_t random;
    CHECK(getrandom(&random, sizeof(random), 0), "random numbers");
    nodes_begin_at(((uint64_t)random << 20) + 2);
    handles_begin_at(((uint64_t)random << 20) + 1);
    int first = fgetc(stdin);
    if (first != EOF) {
        ungetc(first, stdin);
        state_load(stdin, slots);
        is_woken = true;
    }
    volume_ready(&jail);
    run(requests, control);
    return 0;
}
