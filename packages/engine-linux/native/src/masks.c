#include "masks.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "devices.h"
#include "namespaces.h"
#include "report.h"

/* These describe the host or its hardware, and user namespaces do not hide all of them. */
static const char *const hidden[] = {
    "proc/acpi",         "proc/asound",    "proc/interrupts", "proc/kallsyms",   "proc/kcore",       "proc/keys",
    "proc/key-users",    "proc/kmsg",      "proc/kpagecount", "proc/kpageflags", "proc/kpagecgroup", "proc/latency_stats",
    "proc/sched_debug",  "proc/scsi",      "proc/timer_list", "proc/vmallocinfo", "proc/slabinfo",
    "proc/modules",      "proc/cmdline",   "proc/config.gz",  "sys/firmware",    "sys/fs/bpf",       "sys/hypervisor",
    "sys/kernel/debug",  "sys/kernel/tracing", "sys/kernel/security", "sys/devices/virtual/powercap",
};

static const char *const read_only[] = {"proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/sysrq-trigger"};

void write_sysctls(void)
{
    static const struct { const char *path; const char *value; } sysctls[] = {
        /* In addition to seccomp: a nested user namespace would give capabilities back. */
        {"proc/sys/user/max_user_namespaces", "0"},
        /* After a wake, sockets can be bound again to an address that no longer exists. */
        {"proc/sys/net/ipv4/ip_nonlocal_bind", "1"},
        {"proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
        /* ping without raw sockets. */
        {"proc/sys/net/ipv4/ping_group_range", "0 65535"},
    };
    for (size_t i = 0; i < sizeof(sysctls) / sizeof(*sysctls); i++)
        if (access(sysctls[i].path, F_OK) == 0)
            write_file(sysctls[i].path, sysctls[i].value);
}

void set_last_pid(int64_t last_pid)
{
    char text[32];
    if (last_pid == 0)
        return;
    snprintf(text, sizeof(text), "%lld", (long long)last_pid);
    write_file("proc/sys/kernel/ns_last_pid", text);
}

void mask_paths(void)
{
    for (size_t i = 0; i < sizeof(hidden) / sizeof(*hidden); i++) {
        struct stat status;
        if (stat(hidden[i], &status) == -1)
            continue; /* Not every kernel has all of them. */
        const char *cover = S_ISDIR(status.st_mode) ? EMPTY_DIRECTORY : "dev/null";
        CHECK(mount(cover, hidden[i], NULL, MS_BIND, NULL), "mask /%s", hidden[i]);
    }
    for (size_t i = 0; i < sizeof(read_only) / sizeof(*read_only); i++) {
        if (access(read_only[i], F_OK) == -1)
            continue;
        CHECK(mount(read_only[i], read_only[i], NULL, MS_BIND | MS_REC, NULL), "bind /%s", read_only[i]);
        unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
        CHECK(mount(NULL, read_only[i], NULL, flags, NULL), "close /%s", read_only[i]);
    }
}
