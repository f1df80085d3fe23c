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

static void must(int error, const char *what)
{
    if (error == 0)
        return;
    errno = error;
    fail("network: %s", what);
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
 * destination itself. In the table of local addresses, because IPv4 answers only from what is found there.
 */
static int add_default_route(int netlink, unsigned char family, const void *source, size_t size)
{
    struct request request = start(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof(request.route));
    request.route = (struct rtmsg){
        .rtm_family = family,
        .rtm_table = RT_TABLE_LOCAL,
        .rtm_protocol = RTPROT_BOOT,
        .rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
        .rtm_type = RTN_LOCAL,
    };
    unsigned int device = LOOPBACK;
    attribute(&request, RTA_OIF, &device, sizeof(device));
    attribute(&request, RTA_PREFSRC, source, size);
    return ask(netlink, &request);
}

struct rule {
    unsigned char action, protocol, prefix_bits;
    const char *destination;
};

static int change_rule(int netlink, unsigned short type, unsigned char family, unsigned int priority, struct rule rule)
{
    struct request request = start(type, type == RTM_NEWRULE ? NLM_F_CREATE | NLM_F_EXCL : 0, sizeof(request.rule));
    request.rule = (struct fib_rule_hdr){
        .family = family,
        .action = rule.action,
        .dst_len = rule.prefix_bits,
        .table = rule.action == FR_ACT_TO_TBL ? RT_TABLE_LOCAL : RT_TABLE_UNSPEC,
    };
    attribute(&request, FRA_PRIORITY, &priority, sizeof(priority));
    if (rule.protocol)
        attribute(&request, FRA_IP_PROTO, &rule.protocol, sizeof(rule.protocol));
    if (rule.destination) {
        unsigned char address[sizeof(struct in6_addr)];
        inet_pton(family, rule.destination, address);
        attribute(&request, FRA_DST, address, family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr));
    }
    return ask(netlink, &request);
}

/*
 * The kernel would answer `ping` for all the world. So echoes, and whatever else is of their protocol, have no way to addresses other
 * than our own, and are told so; everything else goes on to the table that every namespace asks first, with the priority 0. False when
 * this kernel has no such rules.
 */
static bool forbid_echo(int netlink, unsigned char family, unsigned char protocol, const struct rule own[2])
{
    const struct rule rules[] = {
        own[0],
        own[1],
        {.action = FR_ACT_UNREACHABLE, .protocol = protocol},
        {.action = FR_ACT_TO_TBL},
    };
    if (change_rule(netlink, RTM_NEWRULE, family, 1, rules[0]) != 0)
        return false;
    for (unsigned int i = 1; i < sizeof(rules) / sizeof(*rules); i++)
        must(change_rule(netlink, RTM_NEWRULE, family, 1 + i, rules[i]), "rule");
    /* Deleted is the first that matches, and 0 comes first. */
    must(change_rule(netlink, RTM_DELRULE, family, 0, rules[3]), "first rule");
    return true;
}

/* For kernels without such rules: then it answers nobody. */
static void ignore_echo(const char *sysctl)
{
    if (access(sysctl, F_OK) == 0)
        write_file(sysctl, "1");
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
    const struct rule own_rules[] = {
        {.action = FR_ACT_TO_TBL, .destination = OWN_IPV4, .prefix_bits = 32},
        {.action = FR_ACT_TO_TBL, .destination = "127.0.0.0", .prefix_bits = 8},
    };
    if (!forbid_echo(netlink, AF_INET, IPPROTO_ICMP, own_rules))
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
    const struct rule own_rules[] = {
        {.action = FR_ACT_TO_TBL, .destination = OWN_IPV6, .prefix_bits = 128},
        {.action = FR_ACT_TO_TBL, .destination = "::1", .prefix_bits = 128},
    };
    if (!forbid_echo(netlink, AF_INET6, IPPROTO_ICMPV6, own_rules))
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
