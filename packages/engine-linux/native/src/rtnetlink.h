#pragma once

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <stddef.h>

/* The kernel's own language for addresses, routes and rules; no library, because what we say is short. */
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

/* The socket, or -1. */
int open_rtnetlink(void);
/* `size` is that of the member of the union that goes with the type. */
struct request start_request(unsigned short type, unsigned short flags, size_t size);
void add_attribute(struct request *request, unsigned short type, const void *value, size_t size);
/* Answers 0, or what went wrong as errno has it. */
int ask_kernel(int netlink, struct request *request);
