#include "supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "namespaces.h"
#include "report.h"
#include "seal.h"

/* The seccomp filter protects this pid from signals: see export-filters.c. */
#define AGENT_PID 2
/* The agent's end of the ready pipe. */
#define AGENT_READY_FD 3
/* Above the descriptors that the agent gets. */
#define STATUS_MIN_FD 10
#define AGENT_LOG "/var/log/dormouse-agent.log"

static void clock_offset(char *line, size_t size, const char *name, clockid_t clock, int64_t wanted_ns)
{
    struct timespec now;
    CHECK(clock_gettime(clock, &now), "read clock");
    int64_t offset_ns = wanted_ns - ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    int64_t seconds = offset_ns / 1000000000, rest = offset_ns % 1000000000;
    if (rest < 0) { /* The kernel requires positive nanoseconds. */
        rest += 1000000000;
        seconds--;
    }
    snprintf(line, size, "%s %lld %lld\n", name, (long long)seconds, (long long)rest);
}

/* Only children enter a new time namespace, and its offsets are fixed once a process is inside. */
static void prepare_clocks(const struct config *config)
{
    char monotonic[64], boottime[64], offsets[128];
    CHECK(unshare(CLONE_NEWTIME), "new time namespace");
    clock_offset(monotonic, sizeof(monotonic), "monotonic", CLOCK_MONOTONIC, config->monotonic_ns);
    clock_offset(boottime, sizeof(boottime), "boottime", CLOCK_BOOTTIME, config->boottime_ns);
    snprintf(offsets, sizeof(offsets), "%s%s", monotonic, boottime);
    write_file("/proc/self/timens_offsets", offsets);
}

static void limit_resources(void)
{
    /* 1, not 0: if core_pattern is a pipe, the kernel starts the host's handler as root unless the limit is 1. */
    struct rlimit core = {1, 1};
    CHECK(setrlimit(RLIMIT_CORE, &core), "limit core dumps");
    /* Whatever the server may do: real-time scheduling and higher priority would cost the rest of the host. */
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_RTPRIO, &none), "limit real-time priority");
    CHECK(setrlimit(RLIMIT_NICE, &none), "limit priority");
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files), "read file limit");
    /*
     * Raising the hard limit needs a capability on the host. Lowering it limits how many descriptors a process can
     * hoard.
     */
    const rlim_t most = 65536;
    if (files.rlim_max > most)
        files.rlim_max = most;
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files), "limit files");
}

static void redirect(const char *path, int flags, int fd)
{
    int opened = open(path, flags | O_CLOEXEC, 0600);
    if (opened == -1)
        opened = CHECK(open("/dev/null", O_RDWR | O_CLOEXEC), "open /dev/null");
    CHECK(dup2(opened, fd), "redirect");
    if (opened != fd)
        close(opened);
}

static noreturn void start_agent(const struct config *config, const struct filters *filters, int ready_fd)
{
    CHECK(setsid(), "setsid");
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    CHECK(sigprocmask(SIG_SETMASK, &none, NULL), "signal mask");
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1), "subreaper");
    limit_resources();
    redirect("/dev/null", O_RDONLY, STDIN_FILENO);
    /*
     * A file inside the sandbox: a snapshot cannot save a descriptor of a host file, and the sandbox could fill the
     * host's disk.
     */
    /* Non-blocking: if the sandbox has put a FIFO in its place, open() would wait for ever. */
    redirect(AGENT_LOG, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK, STDOUT_FILENO);
    CHECK(dup2(STDOUT_FILENO, STDERR_FILENO), "redirect");
    /* Errors can still be reported until execve closes everything but the ready pipe. */
    report_to(CHECK(fcntl(report_fd(), F_DUPFD_CLOEXEC, STATUS_MIN_FD), "status fd"));
    CHECK(dup2(ready_fd, AGENT_READY_FD), "ready fd");
    CHECK(close_range(AGENT_READY_FD + 1, ~0U, CLOSE_RANGE_CLOEXEC), "close files");
    umask(022);
    drop_privileges(filters);
    execve(config->agent[0], (char *const *)config->agent, (char *const *)config->env);
    fail("start %s", config->agent[0]);
}

static void say_end(int end_fd, int status)
{
    char line[64];
    int length = WIFEXITED(status) ? snprintf(line, sizeof(line), "agent exited %d\n", WEXITSTATUS(status))
                                   : snprintf(line, sizeof(line), "agent killed %d\n", WTERMSIG(status));
    ssize_t ignored = write(end_fd, line, (size_t)length);
    (void)ignored;
}

/*
 * Reaps every child that has ended. When the agent ends, PID 1 exits, and the kernel ends all others in the pid
 * namespace.
 */
static void reap(int end_fd)
{
    for (;;) {
        int status;
        pid_t ended = waitpid(-1, &status, WNOHANG);
        if (ended <= 0)
            return;
        if (ended == AGENT_PID) {
            say_end(end_fd, status);
            _exit(0);
        }
    }
}

noreturn void supervise(const struct config *config, const struct filters *filters, struct outside outside)
{
    /* Changing uids made this process undumpable, and then it may not write its own /proc files. */
    CHECK(prctl(PR_SET_DUMPABLE, 1), "dumpable");
    prepare_clocks(config);
    /* Undumpable again: no process inside may read or trace PID 1. */
    CHECK(prctl(PR_SET_DUMPABLE, 0), "undumpable");

    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    CHECK(sigprocmask(SIG_BLOCK, &child_signal, NULL), "block SIGCHLD");

    if (config->agent_count > 0) {
        pid_t agent = CHECK(fork(), "fork agent");
        if (agent == 0)
            start_agent(config, filters, outside.ready_fd);
        if (agent != AGENT_PID)
            refuse("the agent is pid %d, not %d", agent, AGENT_PID);
    } else {
        /* An empty burrow: a restore creates the agent with that pid. */
        report_ready(outside.ready_fd);
    }
    close(outside.ready_fd);
    close(report_fd());
    report_to(STDERR_FILENO);
    CHECK(chdir("/"), "chdir");
    seal_first_process();

    for (;;) {
        reap(outside.end_fd);
        /* Not a blocking waitpid: an empty burrow has no children yet. */
        sigwaitinfo(&child_signal, NULL);
    }
}
