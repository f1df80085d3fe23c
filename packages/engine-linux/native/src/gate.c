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
 * Where the listener is bound does not matter to what is handed to it, but the port is taken from those who want it at
 * all addresses inside. So it is one that nobody wants; when somebody has it all the same, the kernel chooses.
 */
#define LISTENER_PORT 1
/* Of connections that the server has not taken yet: short bursts. */
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

/* A socket of the host's own namespace must never be taken for one of a burrow's. */
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
 * An IPv4 address as an IPv6 one: a socket bound to it takes connections of both kinds, one bound to a real IPv6
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
     * The address is none of the namespace's own: it is reached by its default route. Reuse, which accepted connections
     * have from their listener: one to port 443 somewhere must not keep a server inside from that port.
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
    /* So that a name server inside can have the port at all addresses, if it says the same. */
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
