#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

/* One thread of a burrow that this process traces. */
struct task {
    pid_t process, thread;
    bool is_stopped;
    /* It was stopped by a signal before: it stays so after `continue_tasks`. */
    bool was_stopped;
};

struct tasks {
    struct task *items;
    size_t count, capacity;
};

/*
 * Stops every thread of a burrow except those of PID 1, as a debugger does: none of them can notice. False when one
 * could not be stopped in time, is traced by another process, or there are too many; then all of them continue.
 */
bool stop_tasks(struct tasks *tasks, const char *cgroup, pid_t first);
/* Lets all of them continue. When this process ends, the kernel does the same. */
void continue_tasks(struct tasks *tasks);

enum stop { STOP_EVENT, STOP_SYSTEM_CALL, STOP_OTHER };
/* Waits until a thread stops again. STOP_OTHER: it ended, or something else happened, or it took too long. */
enum stop wait_for_stop(pid_t thread);
