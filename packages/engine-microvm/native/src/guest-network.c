#include "guest-network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CARD "eth0"
/* The same as in network.c of engine-linux: a sandbox sees the same addresses with every isolation. */
#define OWN_IPV4 "198.18.0.2"
#define OWN_IPV6 "fd64:6f72:6d6f::2"

static int set_flags(int fd, const char *device, short flags)
{
    struct ifreq request = {.ifr_flags = flags};
    strncpy(request.ifr_name, device, IFNAMSIZ - 1);
    return ioctl(fd, SIOCSIFFLAGS, &request);
}

static struct sockaddr ipv4(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    inet_pton(AF_INET, text, &address.sin_addr);
    struct sockaddr generic;
    memcpy(&generic, &address, sizeof(generic));
    return generic;
}

static int ipv4_up(int fd)
{
    struct ifreq request = {.ifr_name = CARD, .ifr_addr = ipv4(OWN_IPV4)};
    if (ioctl(fd, SIOCSIFADDR, &request) == -1)
        return -1;
    request.ifr_netmask = ipv4("255.255.255.255");
    /* The other end has the same hardware address; neither side asks for any (see tap.c). */
    if (ioctl(fd, SIOCSIFNETMASK, &request) == -1 || set_flags(fd, CARD, IFF_UP | IFF_NOARP) == -1)
        return -1;
    struct rtentry route = {
        .rt_flags = RTF_UP, .rt_dst = ipv4("0.0.0.0"), .rt_genmask = ipv4("0.0.0.0"), .rt_dev = CARD};
    return ioctl(fd, SIOCADDRT, &route);
}

static int ipv6_up(void)
{
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return errno == EAFNOSUPPORT ? 0 : -1;
    int index = (int)if_nametoindex(CARD);
    struct in6_ifreq address = {.ifr6_prefixlen = 128, .ifr6_ifindex = index};
    inet_pton(AF_INET6, OWN_IPV6, &address.ifr6_addr);
    struct in6_rtmsg route = {.rtmsg_flags = RTF_UP, .rtmsg_metric = 1, .rtmsg_ifindex = index};
    int outcome = ioctl(fd, SIOCSIFADDR, &address);
    if (outcome == 0)
        outcome = ioctl(fd, SIOCADDRT, &route);
    close(fd);
    return outcome;
}

static int set_number(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd == -1)
        return -1;
    ssize_t written = write(fd, text, strlen(text));
    close(fd);
    return written == -1 ? -1 : 0;
}

/*
 * The ends of connections on the host are made anew after a sleep, and their time stamps begin anew. Ends in here would
 * take packets with earlier time stamps for old ones and drop them, so connections have none.
 */
static int without_time_stamps(void)
{
    return set_number("/proc/sys/net/ipv4/tcp_timestamps", "0");
}

/* As in burrows of processes: every user may listen on low ports and send pings. */
static int open_to_users(void)
{
    if (set_number("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0") == -1)
        return -1;
    return set_number("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
}

int guest_network_up(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return -1;
    int outcome = set_flags(fd, "lo", IFF_UP | IFF_RUNNING);
    if (outcome == 0)
        outcome = ipv4_up(fd);
    close(fd);
    return outcome == 0 && ipv6_up() == 0 && without_time_stamps() == 0 ? open_to_users() : -1;
}
