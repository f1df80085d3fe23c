#include "show-limits.h"

#include <stddef.h>
#include <sys/mount.h>
#include <unistd.h>

#include "report.h"

/* The mount of the directory is read-only, and so are these. */
static const struct { const char *source; const char *target; } shown[] = {
    {LIMITS_DIRECTORY "/meminfo", "proc/meminfo"},
    {LIMITS_DIRECTORY "/cpuinfo", "proc/cpuinfo"},
    {LIMITS_DIRECTORY "/online", "sys/devices/system/cpu/online"},
    {LIMITS_DIRECTORY "/cgroup", "sys/fs/cgroup"},
};

void show_limits(void)
{
    for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++)
        /* Not every kernel has all of them. */
        if (access(shown[i].target, F_OK) == 0)
            CHECK(mount(shown[i].source, shown[i].target, NULL, MS_BIND, NULL), "mount /%s", shown[i].target);
}
