#include "idle.h"

#include <linux/ioprio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report.h"

void be_idle(void)
{
    CHECK(setpriority(PRIO_PROCESS, 0, 19), "priority");
    CHECK(syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)), "priority of input");
}
