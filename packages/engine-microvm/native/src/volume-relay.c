#include "volume-relay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "volume-requests.h"

/* Messages that wait to be sent. Those that forget files have no answer, so they have no slot that bounds them. */
#define WAITING_MAX (4 * SLOTS)
#define NO_SLOT UINT16_MAX
/* Enough for one notification of each file that can be open. */
#define NOTIFY_PIPE_BYTES (1 << 20)

struct message {
    struct message *next;
    size_t length, sent;
    uint16_t slot;
    unsigned char bytes[];
};

static struct message *slots[SLOTS];
static struct message *first, **last = &first;
static size_t waiting_count, used_slots;
static int host = -1;
static _Alignas(8) unsigned char request[REQUEST_MAX_BYTES], answer_bytes[REQUEST_MAX_BYTES];
static size_t answer_used;

static void queue(struct message *message)
{
    message->next = NULL;
    message->sent = 0;
    *last = message;
    last = &message->next;
    waiting_count++;
}

static bool has_answer(uint32_t opcode)
{
    return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_INTERRUPT;
}

static uint16_t free_slot(void)
{
    for (uint16_t slot = 0; slot < SLOTS; slot++)
        if (!slots[slot])
            return slot;
    return NO_SLOT;
}

static void take_request(int fuse)
{
    ssize_t length = read(fuse, request, sizeof(request));
    /* Unmounted: no request comes any more. */
    if (length == -1 && errno == ENODEV)
        _exit(0);
    struct fuse_in_header *header = (void *)request;
    if (length < (ssize_t)sizeof(*header))
        return;
    struct message *message = malloc(sizeof(*message) + (size_t)length);
    if (!message)
        _exit(1);
    message->length = (size_t)length;
    message->slot = has_answer(header->opcode) ? free_slot() : NO_SLOT;
    header->padding = message->slot;
    memcpy(message->bytes, request, (size_t)length);
    if (message->slot != NO_SLOT) {
        slots[message->slot] = message;
        used_slots++;
    }
    queue(message);
}

static void drop_connection(void)
{
    if (host != -1)
        close(host);
    host = -1;
    answer_used = 0;
    while (first) {
        struct message *message = first;
        first = message->next;
        if (message->slot == NO_SLOT)
            free(message);
    }
    last = &first;
    waiting_count = 0;
}

static void take_connection(int listener)
{
    int next = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (next == -1)
        return;
    drop_connection();
    host = next;
    for (uint16_t slot = 0; slot < SLOTS; slot++)
        if (slots[slot])
            queue(slots[slot]);
}

static void send_messages(void)
{
    while (first) {
        struct message *message = first;
        ssize_t count = send(host, message->bytes + message->sent, message->length - message->sent, MSG_NOSIGNAL);
        if (count == -1) {
            if (errno != EAGAIN && errno != EINTR)
                drop_connection();
            return;
        }
        message->sent += (size_t)count;
        if (message->sent < message->length)
            return;
        first = message->next;
        if (!first)
            last = &first;
        waiting_count--;
        if (message->slot == NO_SLOT)
            free(message);
    }
}

/* An answer may come before its request has left the queue only from a host that lies: then the request stays queued. */
static void end_request(uint64_t unique)
{
    for (uint16_t slot = 0; slot < SLOTS; slot++) {
        struct message *message = slots[slot];
        if (!message || ((struct fuse_in_header *)message->bytes)->unique != unique)
            continue;
        if (message->sent < message->length)
            message->slot = NO_SLOT;
        else
            free(message);
        slots[slot] = NULL;
        used_slots--;
        return;
    }
}

static void take_answer(int fuse, int notify)
{
    const struct fuse_out_header *header = (const void *)answer_bytes;
    size_t whole = answer_used < sizeof(*header) ? sizeof(*header) : header->len;
    ssize_t count = recv(host, answer_bytes + answer_used, whole - answer_used, MSG_DONTWAIT);
    if (count == -1 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0) {
        drop_connection();
        return;
    }
    answer_used += (size_t)count;
    if (answer_used < sizeof(*header))
        return;
    if (header->len < sizeof(*header) || header->len > sizeof(answer_bytes)) {
        drop_connection();
        return;
    }
    if (answer_used < header->len)
        return;
    answer_used = 0;
    /* What the kernel refuses, it has no use for: the process that asked has ended. */
    ssize_t written = write(header->unique == 0 ? notify : fuse, answer_bytes, header->len);
    (void)written;
    if (header->unique != 0)
        end_request(header->unique);
}

/*
 * Kernel rule: a notification waits for pages that are being read or written, whose answers come through the other
 * process. So it needs a process of its own.
 */
static int start_notifier(int fuse)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == -1)
        return -1;
    fcntl(ends[1], F_SETPIPE_SZ, NOTIFY_PIPE_BYTES);
    pid_t pid = fork();
    if (pid == 0) {
        struct {
            struct fuse_out_header header;
            struct fuse_notify_inval_inode_out body;
        } message;
        close(ends[1]);
        while (read(ends[0], &message, sizeof(message)) == sizeof(message)) {
            ssize_t written = write(fuse, &message, sizeof(message));
            (void)written;
        }
        _exit(0);
    }
    close(ends[0]);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    return ends[1];
}

void relay_volume(int fuse, int listener)
{
    int notify = start_notifier(fuse);
    for (;;) {
        bool has_room = host != -1 && used_slots < SLOTS && waiting_count < WAITING_MAX;
        struct pollfd polled[] = {
            {.fd = listener, .events = POLLIN},
            {.fd = has_room ? fuse : -1, .events = POLLIN},
            {.fd = host, .events = (short)(POLLIN | (first ? POLLOUT : 0))},
        };
        if (poll(polled, 3, -1) == -1)
            continue;
        if (polled[1].revents)
            take_request(fuse);
        if (polled[2].revents & (POLLIN | POLLHUP | POLLERR))
            take_answer(fuse, notify);
        if (polled[0].revents)
            take_connection(listener);
        /* Most requests can be sent at once. */
        if (host != -1)
            send_messages();
    }
}
