/* Makes the server's ends of connections anew in another burrow; see gate-ends.h. */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gate-ends.h"

/* The kernel allocates each piece of a receive queue at once. */
#define PIECE_BYTES 32768u
/* The kernel counts its own overhead for every packet. */
#define BUFFER_SPARE_BYTES 65536u
enum { OPTION_MSS = 2, OPTION_SCALE = 3, OPTION_SACK = 4, OPTION_TIMESTAMP = 8 };

static bool set_number(int fd, int level, int name, int number)
{
    return setsockopt(fd, level, name, &number, sizeof(number)) == 0;
}

static bool is_mapped(const uint32_t address[4])
{
    return address[0] == 0 && address[1] == 0 && address[2] == htonl(0xffff);
}

static socklen_t make_address(struct sockaddr_in6 *into, const uint32_t address[4], uint32_t port)
{
    memset(into, 0, sizeof(*into));
    if (is_mapped(address)) {
        struct sockaddr_in *ipv4 = (struct sockaddr_in *)into;
        *ipv4 = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = address[3]};
        return sizeof(*ipv4);
    }
    into->sin6_family = AF_INET6;
    into->sin6_port = htons((uint16_t)port);
    memcpy(&into->sin6_addr, address, sizeof(into->sin6_addr));
    return sizeof(*into);
}

static bool set_queue_seq(int fd, int queue, uint32_t seq)
{
    return set_number(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, queue) &&
        setsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &seq, sizeof(seq)) == 0;
}

/* A buffer that once grew stays as large; others keep the kernel's default, which grows by itself. */
static void set_buffers(int fd, const struct end_record *record)
{
    uint32_t size = 0;
    socklen_t length = sizeof(size);
    uint32_t receive = record->received_bytes * 2 + BUFFER_SPARE_BYTES;
    receive = receive > record->receive_buffer ? receive : record->receive_buffer;
    if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &length) == 0 && size < receive)
        set_number(fd, SOL_SOCKET, SO_RCVBUFFORCE, (int)(receive / 2));
    uint32_t send_size = record->unsent_bytes * 2 + BUFFER_SPARE_BYTES;
    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &length) == 0 && record->unsent_bytes > 0 && size < send_size)
        set_number(fd, SOL_SOCKET, SO_SNDBUFFORCE, (int)(send_size / 2));
}

static bool set_options(int fd, const struct end_record *record)
{
    struct tcp_repair_opt options[4];
    size_t count = 0;
    if (record->options & TCPI_OPT_SACK)
        options[count++] = (struct tcp_repair_opt){.opt_code = OPTION_SACK};
    if (record->options & TCPI_OPT_WSCALE)
        options[count++] = (struct tcp_repair_opt){
            .opt_code = OPTION_SCALE, .opt_val = record->send_scale | record->receive_scale << 16};
    if (record->options & TCPI_OPT_TIMESTAMPS)
        options[count++] = (struct tcp_repair_opt){.opt_code = OPTION_TIMESTAMP};
    options[count++] = (struct tcp_repair_opt){.opt_code = OPTION_MSS, .opt_val = record->mss};
    return setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_OPTIONS, options, (socklen_t)(count * sizeof(*options))) == 0;
}

/*
 * The other end may have been told a larger window than a new socket has. What it sends must not be dropped. And what
 * was sent before is sent again at once: until then, this end drops every packet of another end that had received it,
 * because it acknowledges more than was sent.
 */
static bool set_window(int fd, const struct end_record *record)
{
    struct tcp_repair_window window;
    socklen_t size = sizeof(window);
    if (getsockopt(fd, IPPROTO_TCP, TCP_REPAIR_WINDOW, &window, &size) == -1)
        return false;
    int32_t promised = (int32_t)(record->receive_edge - record->receive_seq);
    if (promised > (int32_t)window.rcv_wnd)
        window.rcv_wnd = (uint32_t)promised;
    int32_t allowed = (int32_t)(record->send_edge - record->send_seq);
    if (allowed > (int32_t)window.snd_wnd)
        window.snd_wnd = (uint32_t)allowed;
    if (window.max_window < window.snd_wnd)
        window.max_window = window.snd_wnd;
    window.rcv_wup = record->receive_seq;
    window.snd_wl1 = record->receive_seq;
    return setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_WINDOW, &window, size) == 0;
}

static bool send_all(int fd, const unsigned char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        size_t piece = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;
        ssize_t sent = send(fd, bytes + at, piece, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0)
            return false;
        at += (size_t)sent;
    }
    return true;
}

static bool fill_end(int fd, const struct end_record *record)
{
    struct sockaddr_in6 local, remote;
    const socklen_t local_size = make_address(&local, record->local, record->local_port);
    const socklen_t remote_size = make_address(&remote, record->remote, record->remote_port);
    const unsigned int mark = GATE_MARK;
    if (setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) == -1 ||
        !set_number(fd, IPPROTO_IP, IP_FREEBIND, 1) || !set_number(fd, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_ON))
        return false;
    set_buffers(fd, record);
    /* An end that was received is not in the queue, but has a sequence number: the bytes before it move up by one. */
    return set_queue_seq(fd, TCP_RECV_QUEUE, record->receive_seq - record->received_bytes) &&
        set_queue_seq(fd, TCP_SEND_QUEUE, record->send_seq) &&
        bind(fd, (struct sockaddr *)&local, local_size) == 0 &&
        connect(fd, (struct sockaddr *)&remote, remote_size) == 0 && set_options(fd, record) &&
        set_number(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, TCP_RECV_QUEUE) &&
        send_all(fd, (const unsigned char *)(record + 1), record->received_bytes) &&
        set_number(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, TCP_NO_QUEUE) && set_window(fd, record) &&
        set_number(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
        (!(record->flags & RECEIVED_END) || shutdown(fd, SHUT_RD) == 0);
}

int make_end(const struct end_record *record)
{
    int fd = socket(is_mapped(record->local) ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1 || fill_end(fd, record))
        return fd;
    close(fd);
    return -1;
}

void reset_on_close(int fd, bool is_on)
{
    const struct linger how = {.l_onoff = is_on, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &how, sizeof(how));
}

bool start_end(int fd, const struct end_record *record)
{
    const unsigned char *unsent = (const unsigned char *)(record + 1) + record->received_bytes;
    /* The sandbox may stay frozen: if the server is killed meanwhile, its program must not take that for the end. */
    reset_on_close(fd, true);
    /* Leaving repair mode sends a probe. Its answer has the window of the other end. */
    return set_number(fd, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_OFF) &&
        set_number(fd, SOL_SOCKET, SO_REUSEADDR, 1) && send_all(fd, unsent, record->unsent_bytes) &&
        (!(record->flags & SENT_END) || shutdown(fd, SHUT_WR) == 0);
}

static bool is_same(const uint32_t a[4], const uint32_t *b, int family)
{
    return family == AF_INET ? is_mapped(a) && a[3] == b[0] : memcmp(a, b, 16) == 0;
}

const struct end_record *next_record(const unsigned char *records, size_t size, const struct end_record *at)
{
    size_t offset = at ? (size_t)((const unsigned char *)at - records) + at->size : 0;
    if (size < sizeof(*at) || offset > size - sizeof(*at))
        return NULL;
    const struct end_record *next = (const struct end_record *)(records + offset);
    uint64_t needed = sizeof(*next) + (uint64_t)next->received_bytes + next->unsent_bytes;
    /* The records are aligned, because each size is a multiple of four. */
    return next->size % sizeof(uint32_t) == 0 && needed <= next->size && next->size <= size - offset ? next : NULL;
}

bool has_record(const unsigned char *records, size_t size, const struct seen_inside *connection)
{
    const struct end_record *record = NULL;
    while ((record = next_record(records, size, record)) != NULL)
        if (record->local_port == connection->other_port && record->remote_port == connection->own_port &&
            is_same(record->local, connection->other, connection->family) &&
            is_same(record->remote, connection->own, connection->family))
            return true;
    return false;
}
