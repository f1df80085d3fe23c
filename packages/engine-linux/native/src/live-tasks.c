#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "live-tasks.h"
#include "report.h"

/* With more threads the pause would be too long. */
#define TASKS_MAX 512
/* A thread in an uninterruptible system call takes longer. On a busy host, so does one that waits for a CPU. */
#define STOP_MAX_NS 20000000
/* How long to wait for threads that did not stop in time, while all others continue. */
#define LET_GO_MAX_NS 500000000
/* A thread that needs longer for a system call is not in one. */
#define CALL_MAX_NS 2000000000
#define WAKE_US 10000

static long elapsed_ns(const struct timespec *since)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - since->tv_sec) * 1000000000 + (now.tv_nsec - since->tv_nsec);
}

static bool has_ended(pid_t process, pid_t thread)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", process, thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return true;
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        return true;
    text[length] = '\0';
    const char *name_end = strrchr(text, ')');
    return !name_end || name_end[2] == 'Z' || name_end[2] == 'X';
}

static bool is_known(struct tasks *tasks, pid_t thread)
{
    for (size_t i = 0; i < tasks->count; i++)
        if (tasks->items[i].thread == thread) {
            tasks->items[i].seen = tasks->looks;
            return true;
        }
    return false;
}

static void remember(struct tasks *tasks, pid_t process, pid_t thread)
{
    if (tasks->count == tasks->capacity) {
        tasks->capacity = tasks->capacity ? tasks->capacity * 2 : 64;
        tasks->items = realloc(tasks->items, tasks->capacity * sizeof(*tasks->items));
        if (!tasks->items)
            fail("memory");
    }
    tasks->items[tasks->count++] = (struct task){.process = process, .thread = thread, .seen = tasks->looks};
}

/* Seizes the threads of a process that are not seized yet. Returns how many, or -1. */
static int seize_process(struct tasks *tasks, pid_t process)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", process);
    DIR *directory = opendir(path);
    if (!directory)
        return 0; /* It has ended. */
    int added = 0;
    struct dirent *entry;
    while (added >= 0 && (entry = readdir(directory))) {
        pid_t thread = atoi(entry->d_name);
        if (thread <= 0 || is_known(tasks, thread))
            continue;
        if (tasks->count >= TASKS_MAX)
            added = -1;
        else if (ptrace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACESYSGOOD) == 0) {
            remember(tasks, process, thread);
            ptrace(PTRACE_INTERRUPT, thread, 0, 0);
            added++;
        } else if (!has_ended(process, thread))
            added = -1;
    }
    closedir(directory);
    return added;
}

static int seize_members(struct tasks *tasks, const char *cgroup, pid_t first)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
    FILE *members = fopen(path, "re");
    if (!members)
        return -1;
    tasks->looks++;
    int added = 0, process;
    while (added >= 0 && fscanf(members, "%d", &process) == 1) {
        int more = process == first ? 0 : seize_process(tasks, process);
        added = more < 0 ? -1 : added + more;
    }
    fclose(members);
    return added;
}

/* Takes note of a change of state. */
static void note_stop(struct task *task, int status)
{
    if (!WIFSTOPPED(status)) {
        task->thread = 0;
        return;
    }
    if (status >> 16 == PTRACE_EVENT_STOP) {
        task->is_stopped = true;
        return;
    }
    /* A signal arrives. It goes to the thread; the interrupt was used up by this stop. */
    ptrace(PTRACE_INTERRUPT, task->thread, 0, 0);
    ptrace(PTRACE_CONT, task->thread, 0, WSTOPSIG(status));
}

static void on_alarm(int number)
{
    (void)number;
}

/* Interrupts a wait now and then, so that it can give up. */
static void set_alarm(suseconds_t interval_us)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval timer = {.it_interval.tv_usec = interval_us, .it_value.tv_usec = interval_us};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* Like waitpid, but returns 0 when that takes longer than `max_ns`. It sleeps, because the thread may need this CPU. */
static pid_t wait_until(pid_t thread, int *status, const struct timespec *since, long max_ns)
{
    pid_t found = waitpid(thread, status, __WALL | WNOHANG);
    if (found != 0)
        return found;
    set_alarm(WAKE_US);
    do
        found = waitpid(thread, status, __WALL);
    while (found == -1 && errno == EINTR && elapsed_ns(since) < max_ns);
    bool is_late = found == -1 && errno == EINTR;
    set_alarm(0);
    return is_late ? 0 : found;
}

static bool wait_for_all(struct tasks *tasks, const struct timespec *since)
{
    for (size_t i = 0; i < tasks->count;) {
        struct task *task = &tasks->items[i];
        if (task->is_stopped || !task->thread) {
            i++;
            continue;
        }
        int status;
        pid_t found = wait_until(task->thread, &status, since, STOP_MAX_NS);
        if (found == 0)
            return false;
        if (found == -1)
            task->thread = 0;
        else
            note_stop(task, status);
    }
    return true;
}

bool stop_tasks(struct tasks *tasks, const char *cgroup, pid_t first)
{
    struct timespec since;
    clock_gettime(CLOCK_MONOTONIC, &since);
    tasks->count = 0;
    int added;
    /* A thread that is not stopped yet may start another. */
    while ((added = seize_members(tasks, cgroup, first)) > 0)
        if (!wait_for_all(tasks, &since)) {
            added = -1;
            break;
        }
    if (added == 0)
        return true;
    continue_tasks(tasks);
    return false;
}

bool is_member(const struct tasks *tasks, const struct task *task)
{
    return task->thread && task->is_stopped && task->seen == tasks->looks;
}

static void let_go(struct task *task)
{
    if (task->thread && task->is_stopped)
        ptrace(PTRACE_DETACH, task->thread, 0, 0);
    if (task->is_stopped)
        task->thread = 0;
}

void continue_tasks(struct tasks *tasks)
{
    /* First those that are stopped: a thread in vfork stops only when its child has continued. */
    for (size_t i = 0; i < tasks->count; i++)
        let_go(&tasks->items[i]);
    struct timespec since;
    clock_gettime(CLOCK_MONOTONIC, &since);
    for (size_t i = 0; i < tasks->count; i++) {
        struct task *task = &tasks->items[i];
        while (task->thread && !task->is_stopped) {
            int status;
            pid_t found = wait_until(task->thread, &status, &since, LET_GO_MAX_NS);
            if (found > 0) {
                note_stop(task, status);
                continue;
            }
            tasks->is_stuck |= found == 0;
            task->thread = 0;
        }
        let_go(task);
    }
    tasks->count = 0;
}

enum stop wait_for_stop(pid_t thread)
{
    struct timespec since;
    clock_gettime(CLOCK_MONOTONIC, &since);
    int status;
    if (wait_until(thread, &status, &since, CALL_MAX_NS) != thread || !WIFSTOPPED(status))
        return STOP_OTHER;
    if (status >> 16 == PTRACE_EVENT_STOP)
        return STOP_EVENT;
    return WSTOPSIG(status) == (SIGTRAP | 0x80) ? STOP_SYSTEM_CALL : STOP_OTHER;
}
