#include "network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "namespaces.h"
#include "report.h"
#include "rtnetlink.h"

/* Every burrow has the same addresses, because nothing outside sees them. src/network/addresses.ts has them too. */
#define OWN_IPV4 "198.18.0.2"
#define OWN_IPV6 "fd64:6f72:6d6f::2"
#define LOOPBACK 1 /* The first interface of a network namespace is its `lo`. */

static void must(int error, const char *what)
{
    if (error == 0)
        return;
    errno = error;
    fail("network: %s", what);
}

static int add_address(int netlink, unsigned char family, const void *address, size_t size)
{
    struct request request = start_request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof(request.address));
    request.address = (struct ifaddrmsg){
        .ifa_family = family,
        .ifa_prefixlen = (unsigned char)(size * 8),
        .ifa_flags = IFA_F_PERMANENT | IFA_F_NODAD,
        .ifa_index = LOOPBACK,
    };
    add_attribute(&request, IFA_LOCAL, address, size);
    add_attribute(&request, IFA_ADDRESS, address, size);
    return ask_kernel(netlink, &request);
}

/*
 * `local default dev lo`: every packet is received here, whatever its destination. Without a preferred source the
 * kernel would use the destination as the source. The route is in the table of local addresses, because IPv4 answers
 * only from addresses found there.
 */
static int add_default_route(int netlink, unsigned char family, const void *source, size_t size)
{
    struct request request = start_request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof(request.route));
    request.route = (struct rtmsg){
        .rtm_family = family,
        .rtm_table = RT_TABLE_LOCAL,
        .rtm_protocol = RTPROT_BOOT,
        .rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
        .rtm_type = RTN_LOCAL,
    };
    unsigned int device = LOOPBACK;
    add_attribute(&request, RTA_OIF, &device, sizeof(device));
    add_attribute(&request, RTA_PREFSRC, source, size);
    return ask_kernel(netlink, &request);
}

struct rule {
    unsigned char action, protocol, prefix_bits;
    const char *destination;
};

static int change_rule(int netlink, unsigned short type, unsigned char family, unsigned int priority, struct rule rule)
{
    struct request request = start_request(type, type == RTM_NEWRULE ? NLM_F_CREATE | NLM_F_EXCL : 0, sizeof(request.rule));
    request.rule = (struct fib_rule_hdr){
        .family = family,
        .action = rule.action,
        .dst_len = rule.prefix_bits,
        .table = rule.action == FR_ACT_TO_TBL ? RT_TABLE_LOCAL : RT_TABLE_UNSPEC,
    };
    add_attribute(&request, FRA_PRIORITY, &priority, sizeof(priority));
    if (rule.protocol)
        add_attribute(&request, FRA_IP_PROTO, &rule.protocol, sizeof(rule.protocol));
    if (rule.destination) {
        unsigned char address[sizeof(struct in6_addr)];
        inet_pton(family, rule.destination, address);
        add_attribute(&request, FRA_DST, address, family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr));
    }
    return ask_kernel(netlink, &request);
}

/*
 * The kernel would answer `ping` for every address. So ICMP is unreachable except for the burrow's own addresses. All
 * other packets continue to the local table, which every namespace otherwise consults first, with priority 0. Returns
 * false when this kernel has no such rules.
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
    /* The kernel deletes the first rule that matches, and priority 0 comes first. */
    must(change_rule(netlink, RTM_DELRULE, family, 0, rules[3]), "first rule");
    return true;
}

/* For kernels without such rules: then no ping is answered. */
static void ignore_echo(const char *sysctl)
{
    if (access(sysctl, F_OK) == 0)
        write_file(sysctl, "1");
}

static void loopback_up(int netlink)
{
    struct request request = start_request(RTM_NEWLINK, 0, sizeof(request.link));
    request.link = (struct ifinfomsg){.ifi_index = LOOPBACK, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    must(ask_kernel(netlink, &request), "loopback up");
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

/* A host may have disabled IPv6 in one of several ways; then a burrow has none. */
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
    int netlink = CHECK(open_rtnetlink(), "netlink");
    loopback_up(netlink);
    ipv4_up(netlink);
    ipv6_up(netlink);
    close(netlink);
}
