/*
 * dormouse-arrive MOUNT_POINT SOCKET MEMORY_DIRECTORY MAPS_DIRECTORY
 *
 * Shows a burrow memory files of which pages are still missing. A page fault on a missing page waits here until the
 * engine has written it. The engine connects to SOCKET. It is told which pages are wanted, in lines `NAME FIRST COUNT`,
 * and writes `g` when it has written some, and `h` when the burrow has its own mount, so that the host's goes.
 *
 * It runs as long as the burrow, also without the engine: mappings of these files ask it for pages that the kernel has
 * dropped. Without an engine, reads of missing pages wait for the next one. If the engine leaves before `h`, the
 * burrow was not made, and nothing is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "arriving-files.h"
#include "arriving-fuse.h"
#include "report.h"

#define LINE_BYTES 320

static int engine = -1;

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        refuse("the path of the socket is too long");
    strcpy(address.sun_path, path);
    int listening = CHECK(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");
    CHECK(bind(listening, (struct sockaddr *)&address, sizeof(address)), "bind");
    CHECK(listen(listening, 4), "listen");
    return listening;
}

/* An engine that does not read its lines is let go; the next connection is told all of them again. */
static void want(const char *name, uint64_t first, uint64_t count)
{
    char line[LINE_BYTES];
    int length = snprintf(line, sizeof(line), "%s %llu %llu\n", name, (unsigned long long)first, (unsigned long long)count);
    if (engine == -1 || send(engine, line, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) == length)
        return;
    close(engine);
    engine = -1;
}

static void hide(const char *mount_point)
{
    umount2(mount_point, MNT_DETACH);
    rmdir(mount_point);
}

static void accept_engine(int listening, const struct arriving_files *files)
{
    int next = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    if (next == -1)
        return;
    if (engine != -1)
        close(engine);
    engine = next;
    want_all(files, want);
}

/* False when the engine has left. */
static bool hear_engine(int fuse, const struct arriving_files *files, const char *mount_point, bool *is_hidden)
{
    char said[256];
    ssize_t length = recv(engine, said, sizeof(said), MSG_DONTWAIT);
    if (length == -1 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (length <= 0) {
        close(engine);
        engine = -1;
        return false;
    }
    if (memchr(said, 'h', (size_t)length) && !*is_hidden) {
        hide(mount_point);
        *is_hidden = true;
    }
    answer_waiting(fuse, files);
    return true;
}

static void serve(int fuse, int listening, const struct arriving_files *files, const char *mount_point)
{
    bool is_hidden = false;
    for (;;) {
        struct pollfd polled[] = {{fuse, POLLIN, 0}, {listening, POLLIN, 0}, {engine, POLLIN, 0}};
        if (poll(polled, 3, -1) == -1 && errno != EINTR)
            fail("poll");
        if (polled[1].revents)
            accept_engine(listening, files);
        if (engine != -1 && polled[2].fd == engine && polled[2].revents)
            if (!hear_engine(fuse, files, mount_point, &is_hidden) && !is_hidden) {
                hide(mount_point);
                return;
            }
        /* When nothing mounts the files any more, the kernel hangs up. */
        if (polled[0].revents && !answer_request(fuse, files, want))
            return;
    }
}

int main(int argc, char **argv)
{
    report_to(STDOUT_FILENO);
    if (argc != 5)
        refuse("four arguments are needed");
    signal(SIGPIPE, SIG_IGN);
    /* A page of a burrow that this process needs memory for must not wait for this process. */
    prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
    struct arriving_files files = open_arriving(argv[3], argv[4]);
    int listening = listen_at(argv[2]);
    int fuse = mount_arriving(argv[1]);
    report("ready");
    serve(fuse, listening, &files, argv[1]);
    unlink(argv[2]);
    return 0;
}
