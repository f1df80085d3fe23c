#include "idle.h"

#include <linux/ioprio.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report.h"

#define AHEAD_MAX_BYTES (16u << 20)

static bool is_idle;

void be_idle(void)
{
    is_idle = true;
    CHECK(setpriority(PRIO_PROCESS, 0, 19), "priority");
    CHECK(syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)), "priority of input");
}

void flush_if_idle(int fd, size_t bytes)
{
    static size_t ahead;
    ahead += bytes;
    if (!is_idle || ahead < AHEAD_MAX_BYTES)
        return;
    CHECK(fdatasync(fd), "sync");
    ahead = 0;
}
