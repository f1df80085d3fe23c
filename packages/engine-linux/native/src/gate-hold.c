/*
 * Holds connections through a gate while a snapshot is taken: packets from the server's sockets have no route.
 * Processes inside are stopped then, but the kernel would still receive for them, and CRIU must find exactly as many
 * bytes as it counted.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gate.h"
#include "rtnetlink.h"

/* Priority 0 puts the rule before all rules of network.c. Returns 0 or an errno, as ask_kernel does. */
static int change_rule(int netlink, unsigned short type, unsigned char family)
{
    struct request request = start_request(type, type == RTM_NEWRULE ? NLM_F_CREATE | NLM_F_EXCL : 0, sizeof(request.rule));
    request.rule = (struct fib_rule_hdr){.family = family, .action = FR_ACT_UNREACHABLE};
    const unsigned int priority = 0, mark = GATE_MARK;
    add_attribute(&request, FRA_PRIORITY, &priority, sizeof(priority));
    add_attribute(&request, FRA_FWMARK, &mark, sizeof(mark));
    return ask_kernel(netlink, &request);
}

/* The rule is already in the wanted state, or this kernel has no IPv6 or no policy routing. */
static bool is_fine(int error)
{
    return error == ENOENT || error == EEXIST || error == EAFNOSUPPORT || error == EOPNOTSUPP;
}

static bool change_rules(unsigned short type, struct failure *failure, const char *step)
{
    int error = 0;
    int netlink = open_rtnetlink();
    if (netlink == -1)
        return failed(failure, step);
    const unsigned char families[] = {AF_INET, AF_INET6};
    for (int i = 0; i < 2 && error == 0; i++) {
        error = change_rule(netlink, type, families[i]);
        if (is_fine(error))
            error = 0;
    }
    close(netlink);
    errno = error;
    return error == 0 || failed(failure, step);
}

bool hold_connections(struct failure *failure)
{
    return change_rules(RTM_NEWRULE, failure, "hold connections");
}

bool release_connections(struct failure *failure)
{
    return change_rules(RTM_DELRULE, failure, "let connections go");
}
