/*
 * dormouse-init: makes a burrow and becomes its PID 1.
 *
 * dormouse-init FILTERS UID_BASE UID_COUNT CGROUP...
 *
 * The engine starts it as real root, in a session of its own, with the configuration on stdin, a status pipe as fd 3
 * and a ready pipe as fd 4. Until the configuration comes, it makes what no configuration changes: the namespaces, the
 * network, /proc and /sys. FILTERS is the directory of the seccomp programs, and the numbers say which ids of the host
 * the burrow gets. Only dormouse-init writes to the status pipe: `pid <host pid> <start time>`, or `error
 * <why>`. The agent gets only the ready pipe and writes `1` to it when it listens. The engine accepts nothing else from
 * that pipe, and treats its end as a failure. The process that the engine started exits early; the burrow's PID 1 keeps
 * running, also without the engine.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ceilings.h"
#include "config.h"
#include "hand-over.h"
#include "join-cgroup.h"
#include "mounts.h"
#include "namespaces.h"
#include "privileges.h"
#include "report.h"
#include "stage.h"
#include "supervise.h"

#define STATUS_FD 3
#define READY_FD 4
/*
 * Each burrow's user namespace is owned by a uid of its own. So no burrow can exhaust the per-user limits of the host's
 * root, and with them those of other burrows. No account has these uids (systemd assigns lower ones), and every pid
 * fits into the range.
 */
#define OWNER_BASE 0x70000000u

/* The arguments before the cgroups. */
enum { FILTERS = 1, UID_BASE, UID_COUNT, CGROUPS };

struct ids {
    uint32_t base, count;
};

static void join_cgroups(int count, char **directories)
{
    for (int i = 0; i < count; i++)
        if (!join_cgroup(directories[i]))
            fail("join %s", directories[i]);
}

static uint32_t id_argument(const char *text)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || end == text || *end || value == 0 || value > UINT32_MAX)
        refuse("%s is not an id", text);
    return (uint32_t)value;
}

/* The start time distinguishes this process from a later one with the same pid. */
static unsigned long long start_time(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    int fd = CHECK(open(path, O_RDONLY | O_CLOEXEC), "open %s", path);
    ssize_t length = CHECK(read(fd, text, sizeof(text) - 1), "read %s", path);
    close(fd);
    text[length] = '\0';
    /* Field 2 is the command in parentheses and may hold anything; field 22 is the start time. */
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        refuse("cannot read %s", path);
    return strtoull(at + 1, NULL, 10);
}

/* Writes it to a file, for servers that start later, and to the engine. */
static void record_pid(const struct config *config, pid_t pid, unsigned long long started)
{
    char line[64];
    int length = snprintf(line, sizeof(line), "%d %llu\n", pid, started);
    int fd = CHECK(open(config->pid_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), "create pid file");
    CHECK(write(fd, line, (size_t)length), "write pid file");
    close(fd);
    report("pid %.*s", length - 1, line);
}

/* PID 1, which keeps no descriptor that leads out of the burrow but these. */
static noreturn void run_inside(int socket, const struct filters *filters)
{
    const int link = READY_FD + 1;
    char go;
    if (socket != link)
        CHECK(dup2(socket, link), "socket");
    CHECK(close_range(link + 1, ~0U, 0), "close files");
    if (read(link, &go, 1) != 1)
        _exit(1); /* The outer process failed and has reported why. */
    become_inner_root();
    const struct inner inner = prepare_inner();
    const struct order order = take_over(link);
    const struct config config = config_parse(order.text, order.length);
    CHECK(setns(order.mounts, CLONE_NEWNS), "enter the mount namespace");
    close(order.mounts);
    close(link);
    CHECK(sethostname(config.hostname, strlen(config.hostname)), "hostname");
    mount_inner(&config, &inner);
    supervise(&config, filters, (struct outside){.end_fd = order.end_fd, .ready_fd = READY_FD});
}

/* Returns the child that becomes PID 1. It waits at the other end of `socket`. */
static pid_t start_first(int *socket, const struct filters *filters)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), "socket pair");
    pid_t child = fork_into(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                                CLONE_NEWCGROUP,
                            OWNER_BASE + (uid_t)getpid());
    if (child == 0)
        run_inside(ends[1], filters);
    close(ends[1]);
    *socket = ends[0];
    return child;
}

/*
 * A server may be protected from the OOM killer; its burrows must not be. Written with CAP_SYS_RESOURCE, the value is
 * also the lowest that its children can set.
 */
static void unprotect(void)
{
    static const char path[] = "/proc/self/oom_score_adj";
    char text[16] = {0};
    int fd = CHECK(open(path, O_RDONLY | O_CLOEXEC), "open %s", path);
    CHECK(read(fd, text, sizeof(text) - 1), "read %s", path);
    close(fd);
    write_file(path, text[0] == '-' ? "0" : text);
}

/* Everyone inside can read /proc/1/cmdline, and our arguments contain paths of the host. */
static void hide_paths(int argc, char **argv)
{
    const char *base = argc > 0 ? strrchr(argv[0], '/') : NULL;
    if (base) {
        size_t length = strlen(argv[0]), kept = strlen(base + 1);
        memmove(argv[0], base + 1, kept);
        memset(argv[0] + kept, 0, length - kept);
    }
    for (int i = 1; i < argc; i++)
        memset(argv[i], 0, strlen(argv[i]));
}

int main(int argc, char **argv)
{
    report_to(STATUS_FD);
    /* No program that we start may write to the status pipe. */
    if (fcntl(STATUS_FD, F_SETFD, FD_CLOEXEC) == -1)
        return 2;
    CHECK(fcntl(READY_FD, F_SETFD, FD_CLOEXEC), "ready pipe");
    signal(SIGPIPE, SIG_IGN);
    if (argc < CGROUPS)
        refuse("usage: dormouse-init FILTERS UID_BASE UID_COUNT CGROUP...");
    /* Can take tens of milliseconds, another reason to start this process ahead of need. */
    join_cgroups(argc - CGROUPS, argv + CGROUPS);
    const struct ids ids = {.base = id_argument(argv[UID_BASE]), .count = id_argument(argv[UID_COUNT])};
    const struct filters *filters = filters_read(argv[FILTERS]);
    hide_paths(argc, argv);
    umask(022);
    unprotect();
    raise_ceilings();
    struct stage stage = make_stage(ids.base);
    int socket;
    pid_t child = start_first(&socket, filters);
    leave_stage(&stage, child);
    map_ids(child, ids.base, ids.count);
    CHECK(write(socket, "1", 1), "start the child");
    unsigned long long started = start_time(child);

    struct order order;
    order.text = config_read(STDIN_FILENO, socket, &order.length);
    const struct config config = config_parse(order.text, order.length);
    order.end_fd = CHECK(open(config.end_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), "create end file");
    record_pid(&config, child, started);
    order.mounts = mount_outer(&config, &stage, ids.base);
    hand_over(socket, &order);
    /*
     * Until PID 1 has left its copy of the stage: the last process that leaves a mount namespace waits until the
     * kernel has removed it.
     */
    char end;
    while (read(socket, &end, 1) == -1 && errno == EINTR)
        ;
    return 0;
}
