#pragma once

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <stddef.h>

/* A message of the kernel's interface for addresses, routes and rules. We send few and short ones, so no library. */
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

/* Returns the socket, or -1. */
int open_rtnetlink(void);
/* `size` is the size of the union member that goes with the type. */
struct request start_request(unsigned short type, unsigned short flags, size_t size);
void add_attribute(struct request *request, unsigned short type, const void *value, size_t size);
/* Returns 0 or an errno. */
int ask_kernel(int netlink, struct request *request);
