/* Takes the server's ends of connections out of a burrow and reads their state; see gate-ends.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gate-ends.h"

#define READS_MAX 8
#define STATE_BIT(state) (1u << (state))
#define STATES_KEPT (STATE_BIT(TCP_ESTABLISHED) | STATE_BIT(TCP_FIN_WAIT1) | STATE_BIT(TCP_FIN_WAIT2) | \
    STATE_BIT(TCP_CLOSE_WAIT) | STATE_BIT(TCP_LAST_ACK) | STATE_BIT(TCP_CLOSING))
#define STATES_RECEIVED_END (STATE_BIT(TCP_CLOSE_WAIT) | STATE_BIT(TCP_LAST_ACK) | STATE_BIT(TCP_CLOSING))
#define STATES_SENT_END \
    (STATE_BIT(TCP_FIN_WAIT1) | STATE_BIT(TCP_FIN_WAIT2) | STATE_BIT(TCP_LAST_ACK) | STATE_BIT(TCP_CLOSING))

enum { TCP_ESTABLISHED = 1, TCP_FIN_WAIT1 = 4, TCP_FIN_WAIT2 = 5, TCP_CLOSE_WAIT = 8, TCP_LAST_ACK = 9, TCP_CLOSING = 11 };

static bool set_repair(int fd, int mode)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &mode, sizeof(mode)) == 0;
}

/* Nothing arrives at the socket any more. Together with repair mode this makes it silent. */
static bool drop_incoming(int fd)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {.len = 1, .filter = &nothing};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

void revive_end(int old)
{
    const int on = 1, unused = 0;
    /* First it can hear, then it asks: leaving repair mode sends a probe that the other end answers. */
    setsockopt(old, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
    set_repair(old, TCP_REPAIR_OFF);
    setsockopt(old, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

static bool read_address(const struct sockaddr_in6 *from, uint32_t address[4], uint32_t *port)
{
    *port = ntohs(from->sin6_port);
    if (from->sin6_family == AF_INET6) {
        memcpy(address, &from->sin6_addr, sizeof(from->sin6_addr));
        return true;
    }
    address[0] = address[1] = 0;
    address[2] = htonl(0xffff);
    address[3] = ((const struct sockaddr_in *)from)->sin_addr.s_addr;
    return from->sin6_family == AF_INET;
}

static bool read_addresses(int fd, struct end_record *record)
{
    struct sockaddr_in6 local, remote;
    socklen_t local_size = sizeof(local), remote_size = sizeof(remote);
    return getsockname(fd, (struct sockaddr *)&local, &local_size) == 0 &&
        getpeername(fd, (struct sockaddr *)&remote, &remote_size) == 0 &&
        read_address(&local, record->local, &record->local_port) &&
        read_address(&remote, record->remote, &record->remote_port);
}

static bool get_number(int fd, int level, int name, uint32_t *number)
{
    socklen_t size = sizeof(*number);
    return getsockopt(fd, level, name, number, &size) == 0;
}

static bool read_queue_seq(int fd, int queue, uint32_t *seq)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof(queue)) == 0 &&
        get_number(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, seq);
}

/* Pre: the socket is in repair mode. */
static bool read_state(int fd, struct end_record *record)
{
    struct tcp_info info = {0};
    struct tcp_repair_window window;
    socklen_t info_size = sizeof(info), window_size = sizeof(window);
    int received, unsent;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_size) == -1 || info.tcpi_state > TCP_CLOSING ||
        !(STATE_BIT(info.tcpi_state) & STATES_KEPT) ||
        getsockopt(fd, IPPROTO_TCP, TCP_REPAIR_WINDOW, &window, &window_size) == -1 ||
        ioctl(fd, SIOCINQ, &received) == -1 || ioctl(fd, SIOCOUTQ, &unsent) == -1)
        return false;
    unsigned int state = STATE_BIT(info.tcpi_state);
    /* Until read_once adds the sequence number behind what was written. */
    record->send_edge = window.snd_wnd - (uint32_t)unsent;
    record->flags = (state & STATES_RECEIVED_END ? RECEIVED_END : 0) | (state & STATES_SENT_END ? SENT_END : 0);
    /* An end that was not acknowledged counts as one byte of the queue. */
    if (state & STATES_SENT_END && info.tcpi_state != TCP_FIN_WAIT2 && unsent > 0)
        unsent--;
    record->received_bytes = (uint32_t)received;
    record->unsent_bytes = (uint32_t)unsent;
    record->options = info.tcpi_options;
    record->send_scale = info.tcpi_snd_wscale;
    record->receive_scale = info.tcpi_rcv_wscale;
    record->receive_edge = window.rcv_wup + window.rcv_wnd;
    return get_number(fd, IPPROTO_TCP, TCP_MAXSEG, &record->mss) &&
        get_number(fd, SOL_SOCKET, SO_RCVBUF, &record->receive_buffer) &&
        get_number(fd, SOL_SOCKET, SO_SNDBUF, &record->send_buffer) && read_addresses(fd, record);
}

/* Reads a queue without taking anything from it. */
static bool peek_queue(int fd, int queue, uint32_t *seq, unsigned char *into, uint32_t size)
{
    if (!read_queue_seq(fd, queue, seq))
        return false;
    return size == 0 || recv(fd, into, size, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)size;
}

/* Returns NULL when there is nothing to keep, or too much, or when the socket changed meanwhile. */
static unsigned char *read_once(int fd, uint32_t max_bytes)
{
    struct end_record record = {0};
    if (!read_state(fd, &record))
        return NULL;
    /* Rounded up, so that every record of a list is aligned. */
    uint64_t size = (sizeof(record) + (uint64_t)record.received_bytes + record.unsent_bytes + 3) / 4 * 4;
    if (size > max_bytes)
        return NULL;
    record.size = (uint32_t)size;
    unsigned char *whole = calloc(1, record.size);
    if (!whole)
        return NULL;
    unsigned char *received = whole + sizeof(record), *unsent = received + record.received_bytes;
    const int no_queue = TCP_NO_QUEUE;
    bool is_read = peek_queue(fd, TCP_RECV_QUEUE, &record.receive_seq, received, record.received_bytes) &&
        peek_queue(fd, TCP_SEND_QUEUE, &record.send_seq, unsent, record.unsent_bytes);
    setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, &no_queue, sizeof(no_queue));
    record.send_edge += record.send_seq;
    if (is_read) {
        memcpy(whole, &record, sizeof(record));
        return whole;
    }
    free(whole);
    return NULL;
}

static bool is_as_read(int fd, const struct end_record *before)
{
    struct end_record now = {0};
    const int no_queue = TCP_NO_QUEUE;
    bool is_read = read_state(fd, &now) && read_queue_seq(fd, TCP_RECV_QUEUE, &now.receive_seq) &&
        read_queue_seq(fd, TCP_SEND_QUEUE, &now.send_seq);
    setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, &no_queue, sizeof(no_queue));
    return is_read && now.receive_seq == before->receive_seq && now.send_seq == before->send_seq &&
        now.received_bytes == before->received_bytes && now.unsent_bytes == before->unsent_bytes &&
        now.flags == before->flags;
}

/*
 * Another CPU may be about to hand over a packet that passed before the filter was there. There are no more of them, so
 * a socket that stays the same between two looks stays so.
 */
static unsigned char *read_end(int fd, uint32_t max_bytes)
{
    for (int i = 0; i < READS_MAX; i++) {
        unsigned char *record = read_once(fd, max_bytes);
        if (record && is_as_read(fd, (const struct end_record *)record))
            return record;
        free(record);
        sched_yield();
    }
    return NULL;
}

/* A connected socket to which nothing can be written: its buffer is full, and the other side is never read. */
static bool make_stand_in(int pair[2])
{
    static const char filling[4096];
    const int smallest = 1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == -1)
        return false;
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &smallest, sizeof(smallest));
    while (send(pair[0], filling, sizeof(filling), MSG_NOSIGNAL) > 0)
        ;
    while (send(pair[0], filling, 1, MSG_NOSIGNAL) > 0)
        ;
    return true;
}

static bool replace(int epoll, const uint32_t *events, int fd, int next)
{
    struct epoll_event event = {.events = events[fd], .data = {.fd = fd}};
    /* An epoll set knows files, not descriptors: the one that is replaced may live on under another number. */
    if (events[fd] != 0)
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
    if (dup3(next, fd, O_CLOEXEC) == -1)
        return false;
    close(next);
    return events[fd] == 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool park_end(int epoll, const uint32_t *events, int fd, uint32_t max_bytes, struct parked_end *parked)
{
    int pair[2] = {-1, -1};
    int old = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    *parked = (struct parked_end){.old = -1, .stand_in = -1};
    if (old == -1)
        return false;
    if (set_repair(fd, TCP_REPAIR_ON)) {
        if (drop_incoming(fd))
            parked->record = read_end(fd, max_bytes);
        if (parked->record && make_stand_in(pair) && replace(epoll, events, fd, pair[0])) {
            parked->old = old;
            parked->stand_in = pair[1];
            return true;
        }
        revive_end(fd);
    }
    if (pair[0] != -1)
        close(pair[0]);
    if (pair[1] != -1)
        close(pair[1]);
    free(parked->record);
    parked->record = NULL;
    close(old);
    return false;
}

bool put_end(int epoll, const uint32_t *events, int fd, int next, int stand_in)
{
    struct pollfd other = {.fd = stand_in, .events = POLLRDHUP};
    bool was_ended = stand_in != -1 && poll(&other, 1, 0) == 1 && (other.revents & (POLLRDHUP | POLLHUP));
    if (!replace(epoll, events, fd, next))
        return false;
    /* The event loop closes it in order from now on; see start_end. */
    reset_on_close(fd, false);
    if (was_ended)
        shutdown(fd, SHUT_WR);
    if (stand_in != -1)
        close(stand_in);
    return true;
}

uint32_t *read_events(int epoll, int count)
{
    char path[64], line[256];
    uint32_t *events = calloc((size_t)count, sizeof(*events));
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
    FILE *info = events ? fopen(path, "re") : NULL;
    if (!info) {
        free(events);
        return NULL;
    }
    while (fgets(line, sizeof(line), info)) {
        int fd;
        uint32_t registered;
        if (sscanf(line, "tfd: %d events: %x", &fd, &registered) == 2 && fd >= 0 && fd < count)
            events[fd] = registered;
    }
    fclose(info);
    return events;
}
