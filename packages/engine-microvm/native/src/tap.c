#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "report.h"
#include "rtnetlink.h"

#define DEVICE "vm0"
/* A table of its own: in the main table the kernel has routes to the same addresses on the loopback. */
#define GUEST_TABLE 100
/* The same as in guest-network.c and in network.c of engine-linux. */
#define OWN_IPV4 "198.18.0.2"
#define OWN_IPV6 "fd64:6f72:6d6f::2"
/*
 * Both ends of the cable have this address and neither asks for others (IFF_NOARP): Linux then sends every packet to
 * its own hardware address, which is also that of the other end. src/qemu/qemu-arguments.ts has it too.
 */
static const unsigned char HARDWARE_ADDRESS[6] = {0x02, 0x64, 0x6f, 0x72, 0x6d, 0x6f};

/*
 * An end that is made anew sends everything that was on the way at once (see gate-make-ends.c), as if all of it were
 * new: the kernel must not hold it back to find out what the network bears.
 */
#define FIRST_PACKETS 10000

static void add_route(int netlink, unsigned char family, unsigned int device, const void *address, size_t size)
{
    struct request request = start_request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof(request.route));
    request.route = (struct rtmsg){
        .rtm_family = family,
        .rtm_dst_len = (unsigned char)(size * 8),
        .rtm_table = GUEST_TABLE,
        .rtm_protocol = RTPROT_BOOT,
        .rtm_scope = RT_SCOPE_LINK,
        .rtm_type = RTN_UNICAST,
    };
    add_attribute(&request, RTA_DST, address, size);
    add_attribute(&request, RTA_OIF, &device, sizeof(device));
    const struct {
        struct rtattr header;
        uint32_t packets;
    } window = {{.rta_len = sizeof(window), .rta_type = RTAX_INITCWND}, FIRST_PACKETS};
    add_attribute(&request, RTA_METRICS, &window, sizeof(window));
    errno = ask_kernel(netlink, &request);
    if (errno != 0)
        fail("network: route to the guest");
}

/*
 * network.c makes the burrow's addresses local; here they are the guest's. The rule comes before all of its rules, with
 * the priority that gate-hold.c uses too: the kernel keeps several rules of one priority, the newest last.
 */
static void add_rule(int netlink, unsigned char family, const void *address, size_t size)
{
    struct request request = start_request(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, sizeof(request.rule));
    request.rule = (struct fib_rule_hdr){
        .family = family, .action = FR_ACT_TO_TBL, .dst_len = (unsigned char)(size * 8), .table = GUEST_TABLE};
    const unsigned int priority = 0;
    add_attribute(&request, FRA_PRIORITY, &priority, sizeof(priority));
    add_attribute(&request, FRA_DST, address, size);
    errno = ask_kernel(netlink, &request);
    if (errno != 0)
        fail("network: rule for the guest");
}

static void route_to_guest(unsigned int device)
{
    struct in_addr ipv4;
    struct in6_addr ipv6;
    inet_pton(AF_INET, OWN_IPV4, &ipv4);
    inet_pton(AF_INET6, OWN_IPV6, &ipv6);
    int netlink = CHECK(open_rtnetlink(), "netlink");
    add_rule(netlink, AF_INET, &ipv4, sizeof(ipv4));
    add_route(netlink, AF_INET, device, &ipv4, sizeof(ipv4));
    /* A host without IPv6 gives burrows none. */
    if (access("proc/sys/net/ipv6/conf/" DEVICE "/disable_ipv6", F_OK) == 0) {
        add_rule(netlink, AF_INET6, &ipv6, sizeof(ipv6));
        add_route(netlink, AF_INET6, device, &ipv6, sizeof(ipv6));
    }
    close(netlink);
}

int tap_up(void)
{
    int tap = CHECK(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun");
    struct ifreq request = {.ifr_name = DEVICE, .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    CHECK(ioctl(tap, TUNSETIFF, &request), "network: the guest's cable");
    int control = CHECK(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
    struct ifreq hardware = {.ifr_name = DEVICE, .ifr_hwaddr.sa_family = ARPHRD_ETHER};
    memcpy(hardware.ifr_hwaddr.sa_data, HARDWARE_ADDRESS, sizeof(HARDWARE_ADDRESS));
    CHECK(ioctl(control, SIOCSIFHWADDR, &hardware), "network: hardware address");
    struct ifreq up = {.ifr_name = DEVICE, .ifr_flags = IFF_UP | IFF_NOARP};
    CHECK(ioctl(control, SIOCSIFFLAGS, &up), "network: the guest's cable up");
    close(control);
    route_to_guest(if_nametoindex(DEVICE));
    return tap;
}
