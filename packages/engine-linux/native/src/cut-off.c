#include "cut-off.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Returns false when time runs out first. */
static bool ends_within(pid_t saver, long seconds)
{
    int process = (int)syscall(SYS_pidfd_open, saver, 0);
    if (process == -1)
        return true; /* The process has ended; waitpid returns its status. */
    const long long deadline = now_ms() + (long long)seconds * 1000;
    for (;;) {
        long long left = deadline - now_ms();
        struct pollfd ended = {.fd = process, .events = POLLIN};
        int count = left <= 0 ? 0 : poll(&ended, 1, (int)left);
        if (count == -1 && errno == EINTR)
            continue;
        close(process);
        return count != 0;
    }
}

int wait_for_saver(pid_t saver, int first_process, long seconds)
{
    bool is_late = seconds > 0 && !ends_within(saver, seconds);
    if (is_late) {
        /*
         * PID 1 first: the processes end while CRIU still holds them. CRIU is in the same pid namespace and ends with
         * them.
         */
        syscall(SYS_pidfd_send_signal, first_process, SIGKILL, NULL, 0);
        kill(saver, SIGKILL);
    }
    int status;
    while (waitpid(saver, &status, 0) == -1)
        if (errno != EINTR)
            return CUT_OFF;
    if (WIFEXITED(status) && !is_late)
        return WEXITSTATUS(status);
    syscall(SYS_pidfd_send_signal, first_process, SIGKILL, NULL, 0);
    return CUT_OFF;
}
