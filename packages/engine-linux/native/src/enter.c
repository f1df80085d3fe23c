/*
 * libdormouse-enter.so: makes a program of the host start its main() inside a burrow.
 *
 * The engine preloads it into CRIU with DORMOUSE_ENTER=<host|burrow>. It reads from fd 4 which burrow to enter, so the
 * engine can start CRIU and load its libraries before there is a burrow. When this constructor runs, the dynamic loader
 * has already opened every library from the host's files. The process enters the mount namespace only after that, so
 * nothing that the sandbox can write (/etc/ld.so.preload, libraries, caches) is ever loaded into a process with the
 * host's privileges. When main() has succeeded, it writes `0` to the same fd; a restore writes `r` before, when all is
 * in place and the processes are about to continue.
 * DORMOUSE_ENTER_CGROUPS names cgroup directories to join first. DORMOUSE_ENTER_FILTER names the seccomp program for a
 * restoring CRIU. `host` keeps the host's user namespace, which saving needs: reading seccomp filters takes
 * CAP_SYS_ADMIN there. `burrow` enters the burrow's user namespace and gives up every privilege over the host.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/nsfs.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confine.h"
#include "cut-off.h"
#include "join-cgroup.h"
#include "tell-restored.h"
#include "unrepair.h"

#define FAILED 125
#define IMAGES_FD 3
#define TARGET_FD 4
#define FREEZER_FD 5
#define TARGET_LINES 3
#define AGENT_PID 2

static void fail_to(const char *what)
{
    dprintf(STDERR_FILENO, "enter: %s: %s\n", what, strerror(errno));
    _exit(FAILED);
}

/*
 * Paths separated by newlines. Every process started from here on is a member and counts towards the burrow's limits.
 */
static void join_cgroups(char *paths)
{
    for (char *path = strtok(paths, "\n"); path; path = strtok(NULL, "\n"))
        if (!join_cgroup(path))
            fail_to("join cgroup");
}

/* Returns a pidfd of PID 1. */
static int join_namespaces(pid_t pid, bool user)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/time_for_children", pid);
    /* PID 1 itself is not in the time namespace that it made for its children. */
    int time_ns = open(path, O_RDONLY | O_CLOEXEC);
    if (time_ns == -1)
        fail_to("time namespace");
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    if (process == -1)
        fail_to("pidfd_open");
    if (setns(time_ns, CLONE_NEWTIME) == -1)
        fail_to("enter time namespace");
    int kinds = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    if (setns(process, kinds | (user ? CLONE_NEWUSER : 0)) == -1)
        fail_to("enter namespaces");
    close(time_ns);
    return process;
}

/*
 * Reading the resource limits of a task takes CAP_SYS_RESOURCE in its user namespace. The host's root may lack that
 * capability. But a process whose effective uid created a user namespace has every capability in it. The file-system
 * uid stays root.
 */
static void become_owner(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
    int user_ns = open(path, O_RDONLY | O_CLOEXEC);
    uid_t owner;
    if (user_ns == -1 || ioctl(user_ns, NS_GET_OWNER_UID, &owner) == -1)
        fail_to("owner of the user namespace");
    close(user_ns);
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) == -1 || setresuid((uid_t)-1, owner, (uid_t)-1) == -1)
        fail_to("become owner");
    setfsuid(0);
}

static void become_burrow_root(void)
{
    if (setgroups(0, NULL) == -1 || setresgid(0, 0, 0) == -1 || setresuid(0, 0, 0) == -1)
        fail_to("become root of the burrow");
}

static pid_t entered;
static bool is_saving, has_told;

static void tell_engine(const char *message)
{
    ssize_t ignored = write(TARGET_FD, message, 1);
    (void)ignored;
}

void tell_restored(void)
{
    if (has_told || is_saving || getpid() != entered)
        return;
    has_told = true;
    tell_engine("r");
}

/*
 * The engine continues at once, while the kernel still frees our memory. Tasks that CRIU is restoring may also leave
 * through this handler.
 */
static void tell_success(int status, void *unused)
{
    (void)unused;
    if (status == 0 && getpid() == entered) {
        if (is_saving)
            end_repair();
        tell_engine("0");
    }
}

struct target {
    pid_t pid;
    long seconds; /* time limit for CRIU; 0 for none */
    bool has_volumes;
};

static void read_lines(char *text, size_t size)
{
    size_t length = 0;
    for (int lines = 0; lines < TARGET_LINES;) {
        ssize_t got = length < size - 1 ? read(TARGET_FD, text + length, size - 1 - length) : 0;
        if (got == -1 && errno == EINTR)
            continue;
        if (got == -1)
            fail_to("read target");
        if (got == 0)
            _exit(FAILED);
        for (ssize_t i = 0; i < got; i++)
            lines += text[length + (size_t)i] == '\n';
        length += (size_t)got;
    }
    text[length] = '\0';
}

static void open_directory(const char *path, int fd)
{
    int opened = open(path, O_RDONLY | O_DIRECTORY);
    if (opened == -1 || (opened != fd && dup2(opened, fd) == -1))
        fail_to("open directory");
    if (opened != fd)
        close(opened);
}

/*
 * Reads three lines: `<pid> <seconds> <0|1 for volumes>`; the images directory, which becomes fd 3; and the directory
 * of the burrow's freezer, which becomes fd 5 and may be empty. CRIU gets the descriptors as paths. If the engine
 * closes the fd first, there will be no burrow.
 */
static struct target read_target(void)
{
    char text[3 * 4096];
    read_lines(text, sizeof(text));
    char *rest = text;
    char *numbers = strsep(&rest, "\n"), *images = strsep(&rest, "\n"), *freezer = strsep(&rest, "\n");
    char *after;
    struct target target = {.pid = (pid_t)strtol(numbers, &after, 10)};
    if (target.pid <= 1 || *after != ' ')
        _exit(FAILED);
    target.seconds = strtol(after, &after, 10);
    target.has_volumes = strtol(after, NULL, 10);
    open_directory(images, IMAGES_FD);
    if (*freezer)
        open_directory(freezer, FREEZER_FD);
    return target;
}

/*
 * Orphans belong to the agent (PR_SET_CHILD_SUBREAPER). CRIU restores that flag only after its helper processes, which
 * stand in for former session leaders, have ended. Orphans of those helpers would go to PID 1, outside of the tree that
 * the next snapshot saves. So the agent's process gets the flag here, when CRIU makes it a session leader and before it
 * has children.
 */
__attribute__((visibility("default"))) pid_t setsid(void)
{
    pid_t session = (pid_t)syscall(SYS_setsid);
    if (session == AGENT_PID && prctl(PR_SET_CHILD_SUBREAPER, 1) == -1)
        fail_to("subreaper");
    return session;
}

__attribute__((constructor)) static void enter(void)
{
    const char *privileges = getenv("DORMOUSE_ENTER");
    if (!privileges)
        return;
    bool user = !strcmp(privileges, "burrow");
    if (!user && strcmp(privileges, "host")) {
        errno = EINVAL;
        fail_to("DORMOUSE_ENTER");
    }
    /* CRIU outlives a server that is killed. Writing to a closed pipe must not end it in the middle of a dump. */
    signal(SIGPIPE, SIG_IGN);
    char *cgroups = getenv("DORMOUSE_ENTER_CGROUPS");
    if (cgroups)
        join_cgroups(cgroups);
    const char *filter = getenv("DORMOUSE_ENTER_FILTER");
    if (filter && !filter_restorer(filter))
        fail_to("load filter");
    struct target target = read_target();
    unsetenv("DORMOUSE_ENTER");
    unsetenv("DORMOUSE_ENTER_CGROUPS");
    unsetenv("DORMOUSE_ENTER_FILTER");
    unsetenv("LD_PRELOAD");
    if (!user)
        become_owner(target.pid);
    int first = join_namespaces(target.pid, user);
    if (user)
        become_burrow_root();
    if (!(user ? confine_restorer() : confine_saver(target.has_volumes)))
        fail_to("give up privileges");
    /* After the change of uids the kernel no longer lets us read our own /proc files, which CRIU reads. */
    if (prctl(PR_SET_DUMPABLE, 1) == -1)
        fail_to("dumpable");
    /* Only children enter a pid namespace. */
    pid_t child = fork();
    if (child == -1)
        fail_to("fork");
    if (child == 0) {
        close(first);
        entered = getpid();
        is_saving = !user;
        if (on_exit(tell_success, NULL))
            fail_to("on_exit");
        return;
    }
    if (!user)
        _exit(wait_for_saver(child, first, target.seconds));
    int status;
    while (waitpid(child, &status, 0) == -1)
        if (errno != EINTR)
            fail_to("wait");
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}
