/* Ends connections that a snapshot brought back, that lead out of the namespace, and that have no other end. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "gate-ends.h"

#define ALL_STATES 0xfffffu
/*
 * A TCP_LISTEN socket has no peer. At TCP_CLOSE_WAIT the program has received everything, and the next read returns the
 * end of the stream, not an error. A connection that was ended is TCP_CLOSE, and TCP_BOUND_INACTIVE (13) where the
 * kernel lists sockets that only have a port.
 */
#define LEFT_ALONE (1u << 7 | 1u << 8 | 1u << 10 | 1u << 13)
/* How many connections to collect before ending them. The list must not change while the kernel dumps it. */
#define ROUND 512
/*
 * Times ROUND, this is more connections than a namespace can have. The loop ends even if the sandbox keeps opening new
 * ones.
 */
#define ROUNDS_MAX 1024

struct round {
    const unsigned char *kept;
    size_t kept_size;
    struct inet_diag_sockid ids[ROUND];
    int count;
};

static bool is_own_ipv4(uint32_t network_order)
{
    uint32_t address = ntohl(network_order);
    /* Connections of the server to ports inside come from 127.18.0.1. */
    return address == 0 || (address >> 24 == 127 && address != 0x7f120001u) || address == 0xc6120002u;
}

static bool is_own(int family, const uint32_t *words)
{
    if (family == AF_INET)
        return is_own_ipv4(words[0]);
    const struct in6_addr *address = (const struct in6_addr *)words;
    if (IN6_IS_ADDR_V4MAPPED(address))
        return is_own_ipv4(words[3]);
    struct in6_addr own;
    inet_pton(AF_INET6, "fd64:6f72:6d6f::2", &own);
    return IN6_IS_ADDR_UNSPECIFIED(address) || IN6_IS_ADDR_LOOPBACK(address) || IN6_ARE_ADDR_EQUAL(address, &own);
}

static bool ask(int diag, unsigned short type, unsigned short flags, int family, const struct inet_diag_sockid *id)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 request;
    } message = {
        .header = {.nlmsg_len = sizeof(message), .nlmsg_type = type, .nlmsg_flags = (unsigned short)(NLM_F_REQUEST | flags)},
        .request = {
            .sdiag_family = (unsigned char)family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ALL_STATES & ~LEFT_ALONE},
    };
    if (id)
        message.request.id = *id;
    return send(diag, &message, sizeof(message), 0) == (ssize_t)sizeof(message);
}

static void keep(struct round *round, int family, const struct inet_diag_msg *socket_found)
{
    if (round->count == ROUND || socket_found->idiag_family != family || is_own(family, socket_found->id.idiag_dst))
        return;
    const struct inet_diag_sockid *id = &socket_found->id;
    const struct seen_inside connection = {
        .family = family,
        .own = id->idiag_src,
        .own_port = ntohs(id->idiag_sport),
        .other = id->idiag_dst,
        .other_port = ntohs(id->idiag_dport),
    };
    if (has_record(round->kept, round->kept_size, &connection))
        return;
    round->ids[round->count++] = *id;
}

/* Reads the list to its end even when `round` is full: otherwise the next request would read the rest as its answer. */
static bool list(int diag, int family, struct round *round)
{
    _Alignas(struct nlmsghdr) char buffer[32768];
    round->count = 0;
    if (!ask(diag, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, family, NULL))
        return false;
    for (;;) {
        ssize_t got = recv(diag, buffer, sizeof(buffer), 0);
        if (got <= 0)
            return false;
        size_t size = (size_t)got;
        for (const struct nlmsghdr *at = (const struct nlmsghdr *)buffer; NLMSG_OK(at, size); at = NLMSG_NEXT(at, size)) {
            if (at->nlmsg_type == NLMSG_DONE)
                return true;
            if (at->nlmsg_type == NLMSG_ERROR) {
                errno = -((const struct nlmsgerr *)NLMSG_DATA(at))->error;
                return false;
            }
            if (at->nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
                keep(round, family, NLMSG_DATA(at));
        }
    }
}

/* Returns 0 also for a connection that has ended by itself. */
static int end(int diag, int family, const struct inet_diag_sockid *id)
{
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[512];
    } answer = {0};
    if (!ask(diag, SOCK_DESTROY, NLM_F_ACK, family, id) || recv(diag, &answer, sizeof(answer), 0) <= 0)
        return errno;
    int error = answer.header.nlmsg_type == NLMSG_ERROR ? -answer.error.error : EPROTO;
    return error == ENOENT ? 0 : error;
}

static bool hang_up(int diag, int family, struct round *round, int *count, struct failure *failure)
{
    for (int i = 0; i < ROUNDS_MAX; i++) {
        if (!list(diag, family, round))
            /* A kernel without IPv6 reports ENOENT. */
            return (family == AF_INET6 && errno == ENOENT) || failed(failure, "list connections");
        for (int j = 0; j < round->count; j++) {
            errno = end(diag, family, &round->ids[j]);
            if (errno != 0)
                return failed(failure, "end a connection (CONFIG_INET_DIAG_DESTROY)");
        }
        *count += round->count;
        /* A connection that was ended may be listed a moment longer. Only a full round can hide others. */
        if (round->count < ROUND)
            return true;
    }
    errno = ELOOP;
    return failed(failure, "end connections");
}

bool hang_up_outside(const unsigned char *kept, size_t kept_size, int *count, struct failure *failure)
{
    struct round round = {.kept = kept, .kept_size = kept_size};
    *count = 0;
    int diag = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (diag == -1)
        return failed(failure, "ask for connections (CONFIG_INET_DIAG)");
    /* The kernel answers during send(2). The time limit protects the server's thread if it ever does not. */
    const struct timeval patience = {.tv_sec = 5};
    bool is_done = setsockopt(diag, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0
        ? hang_up(diag, AF_INET, &round, count, failure) && hang_up(diag, AF_INET6, &round, count, failure)
        : failed(failure, "limit the wait");
    close(diag);
    return is_done;
}
