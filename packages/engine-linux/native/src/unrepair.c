/*
 * Part of libdormouse-enter.so, preloaded into CRIU: lets connections continue when a snapshot is abandoned after CRIU
 * has finished the dump.
 *
 * In repair mode (TCP_REPAIR) the kernel sends nothing that is written to a connection. CRIU keeps a descriptor of each
 * connection until it exits, so this library can end repair mode at the last moment. The kernel sets SO_REUSEADDR when
 * repair mode starts and clears it when it ends, so the former value is restored.
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
#define REPAIR_OFF_QUIETLY -1 /* TCP_REPAIR_OFF_NO_WP: without a window probe, which the peer would have to answer. */

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
