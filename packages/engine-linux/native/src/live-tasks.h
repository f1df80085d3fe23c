#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

/* One thread of a burrow that this process traces. */
struct task {
    pid_t process, thread;
    bool is_stopped;
    /* The last look at the cgroup that found it there. */
    unsigned seen;
};

struct tasks {
    struct task *items;
    size_t count, capacity;
    unsigned looks;
    /* A thread does not stop, and so cannot be let go: only the end of this process lets it go. */
    bool is_stuck;
};

/*
 * Stops every thread of a burrow except those of PID 1, as a debugger does: none of them can notice. A thread that a
 * signal had stopped stays so afterwards. False when one could not be stopped in time, is traced by another process, or
 * there are too many; then all of them continue.
 */
bool stop_tasks(struct tasks *tasks, const char *cgroup, pid_t first);
/*
 * Whether a stopped task is a member of the burrow. A pid that was listed may have been given to another process before
 * it was stopped.
 */
bool is_member(const struct tasks *tasks, const struct task *task);
/* Lets all of them continue. When this process ends, the kernel does the same. */
void continue_tasks(struct tasks *tasks);

enum stop { STOP_EVENT, STOP_SYSTEM_CALL, STOP_OTHER };
/* Waits until a thread stops again. STOP_OTHER: it ended, or something else happened, or it took too long. */
enum stop wait_for_stop(pid_t thread);
