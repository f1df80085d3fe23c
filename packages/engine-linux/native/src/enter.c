/*
 * libdormouse-enter.so: makes a program of the host start its main() inside a burrow.
 *
 * Preloaded into CRIU with DORMOUSE_ENTER=<pid of the burrow's PID 1>:<host|burrow>. By the time a constructor runs, the dynamic
 * loader has opened every library, from the host's files. Entering the mount namespace only then means that nothing that the
 * sandbox can write (/etc/ld.so.preload, libraries, caches) is ever loaded into a process with the host's privileges.
 * `host` keeps our own user namespace, which saving needs (reading seccomp filters takes CAP_SYS_ADMIN there); `burrow` takes on
 * the burrow's and with it gives up every privilege over the host.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAILED 125

static void fail_to(const char *what)
{
    dprintf(STDERR_FILENO, "enter: %s: %s\n", what, strerror(errno));
    _exit(FAILED);
}

static void join_namespaces(pid_t pid, bool user)
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
    close(process);
}

static void become_burrow_root(void)
{
    if (setgroups(0, NULL) == -1 || setresgid(0, 0, 0) == -1 || setresuid(0, 0, 0) == -1)
        fail_to("become root of the burrow");
    /* The change of uids closed our own /proc files to us, and CRIU reads them. */
    if (prctl(PR_SET_DUMPABLE, 1) == -1)
        fail_to("dumpable");
}

__attribute__((constructor)) static void enter(void)
{
    const char *target = getenv("DORMOUSE_ENTER");
    if (!target)
        return;
    char *end;
    long pid = strtol(target, &end, 10);
    bool user = !strcmp(end, ":burrow");
    if (pid <= 1 || (!user && strcmp(end, ":host"))) {
        errno = EINVAL;
        fail_to("DORMOUSE_ENTER");
    }
    unsetenv("DORMOUSE_ENTER");
    unsetenv("LD_PRELOAD");
    join_namespaces((pid_t)pid, user);
    if (user)
        become_burrow_root();
    /* A pid namespace is entered by the next child. */
    pid_t child = fork();
    if (child == -1)
        fail_to("fork");
    if (child == 0)
        return;
    int status;
    while (waitpid(child, &status, 0) == -1)
        if (errno != EINTR)
            fail_to("wait");
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}
