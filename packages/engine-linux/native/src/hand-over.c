#include "hand-over.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "report.h"

#define FDS 2

/* The length of the text, and the descriptors beside it. */
struct head {
    struct msghdr message;
    struct iovec length;
    union {
        char space[CMSG_SPACE(FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
};

static void prepare(struct head *head, size_t *length)
{
    memset(head, 0, sizeof(*head));
    head->length = (struct iovec){.iov_base = length, .iov_len = sizeof(*length)};
    head->message = (struct msghdr){
        .msg_iov = &head->length,
        .msg_iovlen = 1,
        .msg_control = head->control.space,
        .msg_controllen = sizeof(head->control.space),
    };
}

void hand_over(int socket, const struct order *order)
{
    size_t length = order->length;
    const int fds[FDS] = {order->mounts, order->end_fd};
    struct head head;
    prepare(&head, &length);
    struct cmsghdr *control = CMSG_FIRSTHDR(&head.message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(control), fds, sizeof(fds));
    CHECK(sendmsg(socket, &head.message, 0), "start the child");
    for (size_t sent = 0; sent < length;) {
        ssize_t part = write(socket, order->text + sent, length - sent);
        if (part == -1 && errno != EINTR)
            fail("start the child");
        if (part > 0)
            sent += (size_t)part;
    }
}

struct order take_over(int socket)
{
    struct order order;
    struct head head;
    prepare(&head, &order.length);
    ssize_t got;
    while ((got = recvmsg(socket, &head.message, MSG_CMSG_CLOEXEC | MSG_WAITALL)) == -1)
        if (errno != EINTR)
            fail("receive the configuration");
    struct cmsghdr *control = CMSG_FIRSTHDR(&head.message);
    int fds[FDS];
    if (got != (ssize_t)sizeof(order.length) || !control || control->cmsg_len != CMSG_LEN(sizeof(fds)))
        _exit(1);
    memcpy(fds, CMSG_DATA(control), sizeof(fds));
    order.mounts = fds[0];
    order.end_fd = fds[1];
    order.text = malloc(order.length);
    if (!order.text)
        fail("configuration");
    for (size_t done = 0; done < order.length;) {
        ssize_t part = read(socket, order.text + done, order.length - done);
        if (part == -1 && errno == EINTR)
            continue;
        if (part <= 0)
            _exit(1);
        done += (size_t)part;
    }
    return order;
}
