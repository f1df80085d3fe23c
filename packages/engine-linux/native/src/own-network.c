#include "gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Enough for the connections of one program. */
#define BACKLOG 128

static bool bring_loopback_up(struct failure *failure)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return failed(failure, "make a socket");
    if (ioctl(fd, SIOCSIFFLAGS, &request) == -1) {
        failed(failure, "bring the loopback interface up");
        close(fd);
        return false;
    }
    close(fd);
    return true;
}

bool make_network(int *network, struct failure *failure)
{
    /* Only the calling thread changes: network namespaces are per thread. */
    if (unshare(CLONE_NEWNET) == -1)
        return failed(failure, "make a network namespace");
    if (!bring_loopback_up(failure))
        return false;
    *network = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    return *network != -1 || failed(failure, "open the network namespace");
}

bool listen_loopback(uint16_t port, int *listener, struct failure *failure)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1)
        return failed(failure, "make the listener");
    if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) == -1 || listen(fd, BACKLOG) == -1) {
        failed(failure, "listen");
        close(fd);
        return false;
    }
    *listener = fd;
    return true;
}
