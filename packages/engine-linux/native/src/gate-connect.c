/* Connects to a server that listens on the loopback of a burrow. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "gate.h"

/*
 * On the loopback the kernel answers at once, unless the listener's queue is full. Then the connection continues in the
 * background: data that is written to it waits.
 */
#define ANSWER_US 20000
/*
 * Bounds what the host's kernel holds for a connection whose reader or writer pauses. The kernel doubles it, and by
 * default allows no more than this.
 */
#define BUFFER_BYTES 212992

/*
 * Where the connections of the server come from: an address that no process inside has, so that a snapshot can tell
 * them from connections between processes. src/network/addresses.ts has them too.
 */
#define SERVER_IPV4 "127.18.0.1"
#define SERVER_IPV6 "fd64:6f72:6d6f::1"

static bool is_refusal(int error)
{
    return error == ECONNREFUSED || error == EADDRNOTAVAIL || error == ENETUNREACH || error == EAFNOSUPPORT;
}

/* The port is chosen when it connects: each program inside can then have as many connections as there are ports. */
static bool bind_source(int fd, int family)
{
    const int on = 1;
    struct sockaddr_in ipv4 = {.sin_family = AF_INET};
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6};
    inet_pton(AF_INET, SERVER_IPV4, &ipv4.sin_addr);
    inet_pton(AF_INET6, SERVER_IPV6, &ipv6.sin6_addr);
    return setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on)) == 0 &&
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on)) == 0 &&
        (family == AF_INET ? bind(fd, (const struct sockaddr *)&ipv4, sizeof(ipv4))
                           : bind(fd, (const struct sockaddr *)&ipv6, sizeof(ipv6))) == 0;
}

/* Returns -1 and sets errno on failure. */
static int connect_to(const struct sockaddr *address, socklen_t length)
{
    const struct timeval patience = {.tv_usec = ANSWER_US};
    const int on = 1, buffer = BUFFER_BYTES;
    const unsigned int mark = GATE_MARK;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return -1;
    /* Before it connects: the receive buffer decides the window that TCP offers. */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) == 0 &&
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
        /* Marked as the gate's connections are: hold_connections holds it while a snapshot is taken. */
        setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) == 0 && bind_source(fd, address->sa_family) &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
        /* EINPROGRESS: the time-out of SO_SNDTIMEO has passed, and the connection continues in the background. */
        (connect(fd, address, length) == 0 || errno == EINPROGRESS) &&
        fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

bool connect_port(uint16_t port, int *connection, struct failure *failure)
{
    const struct sockaddr_in ipv4 = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 ipv6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    *connection = connect_to((const struct sockaddr *)&ipv4, sizeof(ipv4));
    if (*connection == -1 && is_refusal(errno))
        *connection = connect_to((const struct sockaddr *)&ipv6, sizeof(ipv6));
    if (*connection == -1 && is_refusal(errno))
        errno = ECONNREFUSED;
    return *connection != -1 || failed(failure, "connect to the port");
}
