#include "network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "namespaces.h"
#include "report.h"

/* The same in every burrow: nobody outside ever sees them. The server knows them too, see src/network/addresses.ts. */
#define OWN_IPV4 "198.18.0.2"
#define OWN_IPV6 "fd64:6f72:6d6f::2"
#define LOOPBACK 1 /* The first interface of a network namespace is its `lo`. */
#define RULE_PRIORITY 100 /* After the table of own addresses (0), before the one with the default routes (32766). */

struct request {
    struct nlmsghdr header;
    union {
        struct ifinfomsg link;
        struct ifaddrmsg address;
        struct rtmsg route;
        struct fib_rule_hdr rule;
    };
    char attributes[128];
};

static void attribute(struct request *request, unsigned short type, const void *value, size_t size)
{
    struct rtattr *at = (struct rtattr *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));
    at->rta_type = type;
    at->rta_len = (unsigned short)RTA_LENGTH(size);
    memcpy(RTA_DATA(at), value, size);
    request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + RTA_ALIGN(at->rta_len);
}

/* Answers 0 or what the kernel said, as errno has it. */
static int ask(int netlink, struct request *request)
{
    static unsigned int sequence;
    request->header.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
    request->header.nlmsg_seq = ++sequence;
    CHECK(send(netlink, request, request->header.nlmsg_len, 0), "ask netlink");
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[512];
    } answer;
    ssize_t size = CHECK(recv(netlink, &answer, sizeof(answer), 0), "answer of netlink");
    if ((size_t)size < NLMSG_LENGTH(sizeof(answer.error)) || answer.header.nlmsg_type != NLMSG_ERROR ||
        answer.header.nlmsg_seq != sequence)
        refuse("netlink answered something else");
    return -answer.error.error;
}

static struct request start(unsigned short type, unsigned short flags, size_t size)
{
    return (struct request){.header = {
        .nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_len = (unsigned int)NLMSG_LENGTH(size)}};
}

static int add_address(int netlink, unsigned char family, const void *address, size_t size)
{
    struct request request = start(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof(request.address));
    request.address = (struct ifaddrmsg){
        .ifa_family = family,
        .ifa_prefixlen = (unsigned char)(size * 8),
        .ifa_flags = IFA_F_PERMANENT | IFA_F_NODAD,
        .ifa_index = LOOPBACK,
    };
    attribute(&request, IFA_LOCAL, address, size);
    attribute(&request, IFA_ADDRESS, address, size);
    return ask(netlink, &request);
}

/*
 * `local default dev lo`: whatever is sent anywhere is received here. Without a preferred source the source would be the
 * destination itself. In the main table, not in the local one, so that a rule can come before it.
 */
static int add_default_route(int netlink, unsigned char family, const void *source, size_t size)
{
    struct request request = start(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof(request.route));
    request.route = (struct rtmsg){
        .rtm_family = family,
        .rtm_table = RT_TABLE_MAIN,
        .rtm_protocol = RTPROT_BOOT,
        .rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
        .rtm_type = RTN_LOCAL,
    };
    unsigned int device = LOOPBACK;
    attribute(&request, RTA_OIF, &device, sizeof(device));
    attribute(&request, RTA_PREFSRC, source, size);
    return ask(netlink, &request);
}

/* The kernel would answer for all the world to `ping`. There is no way to own addresses before this rule is asked. */
static int forbid_echo(int netlink, unsigned char family, unsigned char protocol)
{
    struct request request = start(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, sizeof(request.rule));
    request.rule = (struct fib_rule_hdr){.family = family, .action = FR_ACT_UNREACHABLE};
    unsigned int priority = RULE_PRIORITY;
    attribute(&request, FRA_PRIORITY, &priority, sizeof(priority));
    attribute(&request, FRA_IP_PROTO, &protocol, sizeof(protocol));
    return ask(netlink, &request);
}

/* For kernels without such rules: then it answers nobody. */
static void ignore_echo(const char *sysctl)
{
    if (access(sysctl, F_OK) == 0)
        write_file(sysctl, "1");
}

static void must(int error, const char *what)
{
    if (error == 0)
        return;
    errno = error;
    fail("network: %s", what);
}

static void loopback_up(int netlink)
{
    struct request request = start(RTM_NEWLINK, 0, sizeof(request.link));
    request.link = (struct ifinfomsg){.ifi_index = LOOPBACK, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    must(ask(netlink, &request), "loopback up");
}

static void ipv4_up(int netlink)
{
    struct in_addr own;
    inet_pton(AF_INET, OWN_IPV4, &own);
    must(add_address(netlink, AF_INET, &own, sizeof(own)), "address");
    if (forbid_echo(netlink, AF_INET, IPPROTO_ICMP) != 0)
        ignore_echo("proc/sys/net/ipv4/icmp_echo_ignore_all");
    must(add_default_route(netlink, AF_INET, &own, sizeof(own)), "route");
}

/* A host may have IPv6 switched off in one of several ways; a burrow then does without. */
static void ipv6_up(int netlink)
{
    struct in6_addr own;
    inet_pton(AF_INET6, OWN_IPV6, &own);
    if (add_address(netlink, AF_INET6, &own, sizeof(own)) != 0)
        return;
    if (forbid_echo(netlink, AF_INET6, IPPROTO_ICMPV6) != 0)
        ignore_echo("proc/sys/net/ipv6/icmp/echo_ignore_all");
    add_default_route(netlink, AF_INET6, &own, sizeof(own));
}

void network_up(void)
{
    int netlink = CHECK(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), "netlink");
    loopback_up(netlink);
    ipv4_up(netlink);
    ipv6_up(netlink);
    close(netlink);
}
