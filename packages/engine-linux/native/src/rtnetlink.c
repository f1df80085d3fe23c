#include "rtnetlink.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

int open_rtnetlink(void)
{
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
}

struct request start_request(unsigned short type, unsigned short flags, size_t size)
{
    return (struct request){.header = {
        .nlmsg_type = type,
        .nlmsg_flags = (unsigned short)(flags | NLM_F_REQUEST | NLM_F_ACK),
        .nlmsg_len = (unsigned int)NLMSG_LENGTH(size),
    }};
}

void add_attribute(struct request *request, unsigned short type, const void *value, size_t size)
{
    struct rtattr *at = (struct rtattr *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));
    at->rta_type = type;
    at->rta_len = (unsigned short)RTA_LENGTH(size);
    memcpy(RTA_DATA(at), value, size);
    request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + RTA_ALIGN(at->rta_len);
}

/* One request at a time, so this is its answer: the kernel sends it before send(2) returns. */
int ask_kernel(int netlink, struct request *request)
{
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[512];
    } answer;
    if (send(netlink, request, request->header.nlmsg_len, 0) == -1)
        return errno;
    ssize_t size = recv(netlink, &answer, sizeof(answer), MSG_DONTWAIT);
    if (size == -1)
        return errno;
    if ((size_t)size < NLMSG_LENGTH(sizeof(answer.error)) || answer.header.nlmsg_type != NLMSG_ERROR)
        return EPROTO;
    return -answer.error.error;
}
