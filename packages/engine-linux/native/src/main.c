/*
 * dormouse-init: makes a burrow and becomes its PID 1.
 *
 * dormouse-init CGROUP...
 *
 * The engine starts it as real root, in a session of its own, with the configuration on stdin, a status pipe as fd 3
 * and a ready pipe as fd 4. Only dormouse-init writes to the status pipe: `pid <host pid> <start time>`, or `error
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ceilings.h"
#include "config.h"
#include "join-cgroup.h"
#include "mounts.h"
#include "namespaces.h"
#include "privileges.h"
#include "report.h"
#include "supervise.h"

#define STATUS_FD 3
#define READY_FD 4
/*
 * Each burrow's user namespace is owned by a uid of its own. So no burrow can exhaust the per-user limits of the host's
 * root, and with them those of other burrows. No account has these uids (systemd assigns lower ones), and every pid
 * fits into the range.
 */
#define OWNER_BASE 0x70000000u

static void join_cgroups(int count, char **directories)
{
    for (int i = 0; i < count; i++)
        if (!join_cgroup(directories[i]))
            fail("join %s", directories[i]);
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
static void record_pid(const struct config *config, pid_t pid)
{
    char line[64];
    int length = snprintf(line, sizeof(line), "%d %llu\n", pid, start_time(pid));
    int fd = CHECK(open(config->pid_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), "create pid file");
    CHECK(write(fd, line, (size_t)length), "write pid file");
    close(fd);
    report("pid %.*s", length - 1, line);
}

static noreturn void run_inside(const struct config *config, const struct filters *filters, int mapped, int end_fd)
{
    char go;
    if (read(mapped, &go, 1) != 1)
        _exit(1); /* The outer process failed and has reported why. */
    close(mapped);
    become_inner_root();
    CHECK(sethostname(config->hostname, strlen(config->hostname)), "hostname");
    mount_inner(config);
    supervise(config, filters, (struct outside){.end_fd = end_fd, .ready_fd = READY_FD});
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
    /*
     * Joins before it reads the configuration: joining can take tens of milliseconds, and the engine may have started
     * this process ahead of need.
     */
    join_cgroups(argc - 1, argv + 1);
    hide_paths(argc, argv);
    struct config config = config_read(STDIN_FILENO);
    umask(022);
    struct filters *filters = filters_read(config.filters);
    int end_fd = CHECK(open(config.end_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), "create end file");
    unprotect();
    raise_ceilings();
    mount_outer(&config);

    int mapped[2];
    CHECK(pipe2(mapped, O_CLOEXEC), "pipe");
    pid_t child = fork_into(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                                CLONE_NEWCGROUP,
                            OWNER_BASE + (uid_t)getpid());
    if (child == 0) {
        close(mapped[1]);
        run_inside(&config, filters, mapped[0], end_fd);
    }
    close(mapped[0]);
    map_ids(child, config.uid_base, config.uid_count);
    record_pid(&config, child);
    CHECK(write(mapped[1], "1", 1), "start the child");
    return 0;
}
