/*
 * Part of libdormouse-enter.so, preloaded into CRIU: connections go on when a snapshot is given up after CRIU is done
 * with it.
 *
 * In repair mode (TCP_REPAIR) nothing that is written to a connection is sent. CRIU keeps a descriptor of each one to
 * its end, so those can be taken out of it at the last moment. The kernel sets SO_REUSEADDR on the way in and clears it
 * on the way out.
 */
#include "unrepair.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REPAIR_ON 1
#define REPAIR_OFF_QUIETLY -1 /* TCP_REPAIR_OFF_NO_WP: without a probe, to which somebody would have to answer. */

static struct connection {
    int fd, reuse;
} *connections;
static size_t count, room;

static bool remember(int fd, int reuse)
{
    if (count == room) {
        size_t more = room ? room * 2 : 64;
        struct connection *grown = realloc(connections, more * sizeof(*grown));
        if (!grown)
            return false;
        connections = grown;
        room = more;
    }
    connections[count++] = (struct connection){.fd = fd, .reuse = reuse};
    return true;
}

__attribute__((visibility("default"))) int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    bool is_repair = level == IPPROTO_TCP && name == TCP_REPAIR && size == sizeof(int) && *(const int *)value == REPAIR_ON;
    int reuse = 0;
    socklen_t reuse_size = sizeof(reuse);
    if (is_repair && getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, &reuse_size) == -1)
        return -1;
    if (is_repair && !remember(fd, reuse))
        return -1;
    return (int)syscall(SYS_setsockopt, fd, level, name, value, size);
}

void end_repair(void)
{
    const int off = REPAIR_OFF_QUIETLY;
    for (size_t i = 0; i < count; i++) {
        syscall(SYS_setsockopt, connections[i].fd, IPPROTO_TCP, TCP_REPAIR, &off, sizeof(off));
        syscall(SYS_setsockopt, connections[i].fd, SOL_SOCKET, SO_REUSEADDR, &connections[i].reuse, sizeof(int));
    }
    count = 0;
}
