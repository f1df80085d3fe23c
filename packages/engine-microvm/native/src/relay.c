#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "guest-pressure.h"
#include "guest-volume.h"
#include "link.h"

#define AGENT_SOCKET "/.dormouse/run/agent.sock"
#define FAMILY_VOLUME 1
/* Signals, the port and the pressure, before the streams. */
#define OWN_DESCRIPTORS 3
/* A host that connects is noticed by SIGIO; this is for the signal that was lost. */
#define WITHOUT_HOST_MS 200

struct stream {
    int fd;
    bool is_connecting;
    /* What the host may still send, and what may still be sent to it. */
    uint32_t credit;
    /* Bytes from the host that the program has not taken. */
    unsigned char *pending;
    size_t pending_used;
    bool host_ended, program_ended;
};

static struct stream *streams[STREAMS_MAX];

static void drop(uint16_t id)
{
    struct stream *stream = streams[id];
    if (!stream)
        return;
    close(stream->fd);
    free(stream->pending);
    free(stream);
    streams[id] = NULL;
}

/* The program sees that the host has reset the connection, and not only an end. */
static void abort_stream(uint16_t id)
{
    struct linger at_once = {.l_onoff = 1};
    setsockopt(streams[id]->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    drop(id);
}

static void reset_stream(uint16_t id)
{
    drop(id);
    link_send(FRAME_RESET, id, NULL, 0);
}

void link_reset(void)
{
    for (uint16_t id = 0; id < STREAMS_MAX; id++)
        drop(id);
    link_begin();
}

static int connect_agent(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = AGENT_SOCKET};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd != -1 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == -1) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Programs inside see a connection from the loopback, to 127.0.0.1 or else to ::1. */
static int connect_port(uint16_t port, bool is_v6)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback};
    int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return -1;
    int outcome = is_v6 ? connect(fd, (struct sockaddr *)&v6, sizeof(v6)) : connect(fd, (struct sockaddr *)&v4, sizeof(v4));
    if (outcome == -1 && errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

static int connect_target(unsigned char family, uint16_t port)
{
    if (family == 0)
        return connect_agent();
    return family == FAMILY_VOLUME ? connect_volume(port) : connect_port(port, family == 6);
}

/* The payload is one byte for the family (0: the agent, 1: a volume, 4, 6) and the port, or the number of the volume. */
static void open_stream(uint16_t id, const unsigned char *payload, size_t length)
{
    if (id >= STREAMS_MAX || length != 3)
        return;
    drop(id);
    uint16_t port = (uint16_t)(payload[1] << 8 | payload[2]);
    int fd = connect_target(payload[0], port);
    struct stream *stream = fd == -1 ? NULL : calloc(1, sizeof(*stream));
    if (stream)
        stream->pending = malloc(WINDOW_BYTES);
    if (!stream || !stream->pending) {
        if (fd != -1)
            close(fd);
        free(stream);
        link_send(FRAME_REFUSED, id, NULL, 0);
        return;
    }
    stream->fd = fd;
    stream->credit = WINDOW_BYTES;
    stream->is_connecting = payload[0] != 0 && payload[0] != FAMILY_VOLUME;
    streams[id] = stream;
    if (!stream->is_connecting)
        link_send(FRAME_OPENED, id, NULL, 0);
}

static void finish_connecting(uint16_t id)
{
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(streams[id]->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        drop(id);
        link_send(FRAME_REFUSED, id, NULL, 0);
        return;
    }
    streams[id]->is_connecting = false;
    link_send(FRAME_OPENED, id, NULL, 0);
}

static void close_when_over(uint16_t id)
{
    struct stream *stream = streams[id];
    if (stream->program_ended && stream->host_ended && stream->pending_used == 0)
        drop(id);
}

static void read_program(uint16_t id);

/*
 * A program may answer and close before it has read everything. Kernel rule: what it had sent before the reset can still
 * be read, and the error comes after that.
 */
static void reset_after_last_words(uint16_t id)
{
    while (streams[id] && !streams[id]->program_ended && streams[id]->credit > 0 && link_has_room())
        read_program(id);
    if (streams[id])
        reset_stream(id);
}

static void write_pending(uint16_t id)
{
    struct stream *stream = streams[id];
    if (stream->pending_used > 0) {
        ssize_t written = send(stream->fd, stream->pending, stream->pending_used, MSG_NOSIGNAL);
        if (written == -1) {
            if (errno != EAGAIN && errno != EINTR)
                reset_after_last_words(id);
            return;
        }
        stream->pending_used -= (size_t)written;
        memmove(stream->pending, stream->pending + written, stream->pending_used);
        unsigned char credit[4] = {(unsigned char)(written >> 24), (unsigned char)(written >> 16),
                                   (unsigned char)(written >> 8), (unsigned char)written};
        link_send(FRAME_CREDIT, id, credit, sizeof(credit));
    }
    if (stream->pending_used == 0 && stream->host_ended) {
        shutdown(stream->fd, SHUT_WR);
        close_when_over(id);
    }
}

static void read_program(uint16_t id)
{
    static unsigned char buffer[FRAME_MAX_BYTES];
    struct stream *stream = streams[id];
    size_t most = stream->credit < sizeof(buffer) ? stream->credit : sizeof(buffer);
    ssize_t count = read(stream->fd, buffer, most);
    if (count > 0) {
        stream->credit -= (uint32_t)count;
        link_send(FRAME_DATA, id, buffer, (size_t)count);
    } else if (count == 0) {
        stream->program_ended = true;
        link_send(FRAME_END, id, NULL, 0);
        close_when_over(id);
    } else if (errno != EAGAIN && errno != EINTR) {
        reset_stream(id);
    }
}

static void take_data(uint16_t id, const unsigned char *payload, size_t length)
{
    struct stream *stream = streams[id];
    if (stream->pending_used + length > WINDOW_BYTES) {
        reset_stream(id);
        return;
    }
    memcpy(stream->pending + stream->pending_used, payload, length);
    stream->pending_used += length;
}

void link_frame(enum frame_type type, uint16_t id, const unsigned char *payload, size_t length)
{
    if (type == FRAME_HELLO)
        link_send(FRAME_HELLO, 0, payload, length);
    else if (type == FRAME_CONTROL)
        answer_control((const char *)payload, length);
    else if (type == FRAME_OPEN)
        open_stream(id, payload, length);
    /* The stream may have ended here while this frame was on its way. */
    if (id >= STREAMS_MAX || !streams[id])
        return;
    if (type == FRAME_DATA)
        take_data(id, payload, length);
    else if (type == FRAME_END)
        streams[id]->host_ended = true;
    else if (type == FRAME_RESET)
        abort_stream(id);
    else if (type == FRAME_CREDIT && length == 4)
        streams[id]->credit += (uint32_t)payload[0] << 24 | (uint32_t)payload[1] << 16 | (uint32_t)payload[2] << 8 | payload[3];
}

static short wanted(const struct stream *stream)
{
    if (stream->is_connecting)
        return POLLOUT;
    short events = 0;
    if (!stream->program_ended && stream->credit > 0 && link_has_room())
        events |= POLLIN;
    if (stream->pending_used > 0)
        events |= POLLOUT;
    return events;
}

/* Reaps every child. Returns whether the agent was among them, and how it ended. */
static bool reap(int agent_pid, int *status)
{
    bool has_ended = false;
    int one;
    for (pid_t pid; (pid = waitpid(-1, &one, WNOHANG)) > 0;) {
        if (pid == agent_pid) {
            has_ended = true;
            *status = one;
        }
    }
    return has_ended;
}

static bool read_port(int port)
{
    static unsigned char buffer[65536];
    ssize_t count = read(port, buffer, sizeof(buffer));
    if (count > 0)
        link_receive(buffer, (size_t)count);
    return count > 0;
}

static void say_ended(int port, int status)
{
    unsigned char end[2] = {WIFSIGNALED(status), (unsigned char)(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status))};
    link_send(FRAME_AGENT_ENDED, 0, end, sizeof(end));
    for (int i = 0; i < 100 && link_has_output(); i++) {
        link_flush(port);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static void serve_streams(const struct pollfd *polled, const uint16_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t id = ids[i];
        if (!streams[id] || streams[id]->fd != polled[i].fd || polled[i].revents == 0)
            continue;
        if (streams[id]->is_connecting)
            finish_connecting(id);
        else if (polled[i].revents & (POLLIN | POLLHUP | POLLERR) && wanted(streams[id]) & POLLIN)
            read_program(id);
    }
    /* Also the streams whose data came in this turn: most programs take it at once. */
    for (uint16_t id = 0; id < STREAMS_MAX; id++)
        if (streams[id] && !streams[id]->is_connecting && (streams[id]->pending_used > 0 || streams[id]->host_ended))
            write_pending(id);
}

void relay(int port, int agent_pid)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGIO);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    fcntl(port, F_SETOWN, getpid());
    fcntl(port, F_SETFL, O_NONBLOCK | O_ASYNC);
    static struct pollfd polled[STREAMS_MAX + OWN_DESCRIPTORS];
    static uint16_t ids[STREAMS_MAX];
    bool has_host = false;
    int status = 0;
    watch_pressure();
    while (!reap(agent_pid, &status)) {
        nfds_t count = OWN_DESCRIPTORS;
        for (uint16_t id = 0; id < STREAMS_MAX; id++) {
            if (!streams[id] || wanted(streams[id]) == 0)
                continue;
            ids[count - OWN_DESCRIPTORS] = id;
            polled[count++] = (struct pollfd){.fd = streams[id]->fd, .events = wanted(streams[id])};
        }
        polled[0] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
        /* Without a host the port is always ready, so only the signal is waited for. */
        short events = (short)(POLLIN | (link_has_output() ? POLLOUT : 0));
        polled[1] = (struct pollfd){.fd = has_host ? port : -1, .events = events};
        polled[2] = (struct pollfd){.fd = pressure_fd(), .events = POLLPRI};
        poll(polled, count, has_host ? pressure_wait_ms() : WITHOUT_HOST_MS);
        struct signalfd_siginfo info;
        while (read(signal_fd, &info, sizeof(info)) > 0)
            continue;
        struct pollfd now = {.fd = port, .events = POLLIN};
        poll(&now, 1, 0);
        has_host = (now.revents & POLLHUP) == 0;
        if (now.revents & POLLIN)
            read_port(port);
        relieve_pressure((polled[2].revents & POLLPRI) != 0);
        serve_streams(polled + OWN_DESCRIPTORS, ids, count - OWN_DESCRIPTORS);
        if (has_host)
            link_flush(port);
    }
    say_ended(port, status);
}
