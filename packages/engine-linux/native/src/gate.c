#include "gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESOLVER "198.18.0.1"
#define RESOLVER_PORT 53
/*
 * The BPF program hands connections to the listener wherever it is bound. But its port is then taken for programs
 * inside that bind it on all addresses. So it is a port that programs do not use; if one does, the kernel chooses
 * another.
 */
#define LISTENER_PORT 1
/* Connections that the server has not accepted yet: enough for short bursts. */
#define BACKLOG 511

bool failed(struct failure *failure, const char *step)
{
    failure->step = step;
    failure->error = errno;
    return false;
}

static bool close_failed(int fd, struct failure *failure, const char *step)
{
    failed(failure, step);
    if (fd != -1)
        close(fd);
    return false;
}

/* Refuses the host's own namespace: its sockets must never serve a burrow. */
bool enter_network(int netns, struct failure *failure)
{
    struct stat own, other;
    if (stat("/proc/thread-self/ns/net", &own) == -1 || fstat(netns, &other) == -1)
        return failed(failure, "look at the network namespace");
    if (own.st_dev == other.st_dev && own.st_ino == other.st_ino) {
        errno = EINVAL;
        return failed(failure, "it is the host's own network namespace");
    }
    return setns(netns, CLONE_NEWNET) == 0 || failed(failure, "enter the network namespace");
}

/*
 * Binds an IPv4-mapped IPv6 address: such a socket accepts IPv4 and IPv6 connections, one bound to a native IPv6
 * address does not.
 */
static int bind_dual(int fd, in_port_t port)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    inet_pton(AF_INET6, "::ffff:" RESOLVER, &at.sin6_addr);
    return bind(fd, (struct sockaddr *)&at, sizeof(at));
}

static int bind_ipv4(int fd, in_port_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, RESOLVER, &at.sin_addr);
    return bind(fd, (struct sockaddr *)&at, sizeof(at));
}

static bool listen_tcp(int *listener, struct failure *failure)
{
    const int on = 1, off = 0;
    int (*bind_at)(int, in_port_t) = bind_dual;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1 && errno == EAFNOSUPPORT) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        bind_at = bind_ipv4;
    } else if (fd != -1 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == -1) {
        return close_failed(fd, failure, "make the listener take IPv4 too");
    }
    if (fd == -1)
        return failed(failure, "make the listener");
    /*
     * The address is not assigned in the namespace; the default route leads to it. Accepted connections inherit
     * SO_REUSEADDR: a connection to port 443 of some host must not keep a server inside from binding that port.
     */
    if (setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on)) == -1 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == -1)
        return close_failed(fd, failure, "let the listener have its address");
    const unsigned int mark = GATE_MARK;
    if (setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) == -1)
        return close_failed(fd, failure, "mark the listener");
    if (bind_at(fd, LISTENER_PORT) == -1 && (errno != EADDRINUSE || bind_at(fd, 0) == -1))
        return close_failed(fd, failure, "bind the listener");
    if (listen(fd, BACKLOG) == -1)
        return close_failed(fd, failure, "listen");
    *listener = fd;
    return true;
}

static bool bind_dns(int *dns, struct failure *failure)
{
    const int on = 1;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1)
        return failed(failure, "make the resolver's socket");
    /* SO_REUSEADDR lets a name server inside bind the port on all addresses if it sets the option too. */
    if (setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on)) == -1 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == -1)
        return close_failed(fd, failure, "let the resolver have its address");
    if (bind_ipv4(fd, RESOLVER_PORT) == -1)
        return close_failed(fd, failure, "bind the resolver to " RESOLVER ":53");
    *dns = fd;
    return true;
}

bool open_gate(int netns, struct gate *gate, struct failure *failure)
{
    int tcp = -1, dns = -1, link = -1;
    if (release_connections(failure) && listen_tcp(&tcp, failure) && bind_dns(&dns, failure))
        link = steer_connections(netns, tcp, failure);
    if (link != -1) {
        *gate = (struct gate){.tcp = tcp, .dns = dns, .link = link};
        return true;
    }
    if (tcp != -1)
        close(tcp);
    if (dns != -1)
        close(dns);
    return false;
}
