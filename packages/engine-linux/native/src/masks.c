#include "masks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
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

/* What one socket may hold in each direction. More buys nothing on a loopback. */
#define TCP_BUFFER_MAX_BYTES (1024 * 1024)
/* What kernels have by default; those that do not show it inside a namespace may have more. */
#define SOCKET_BUFFER_BYTES 212992

static bool read_numbers(const char *path, int numbers[3])
{
    FILE *file = fopen(path, "re");
    int count = file ? fscanf(file, "%d %d %d", &numbers[0], &numbers[1], &numbers[2]) : 0;
    if (file)
        fclose(file);
    return count > 0;
}

static int lower(int a, int b)
{
    return a < b ? a : b;
}

/*
 * A restore fills the queue of a connection through a buffer that has at most twice `socket_max`, whatever the
 * connection had before. With half of that as the most that the kernel gives by itself, everything fits.
 */
static void bound_tcp_buffers(const char *path, const char *socket_max)
{
    char text[64];
    int socket_buffer[3], sizes[3];
    if (!read_numbers(path, sizes))
        return;
    if (!read_numbers(socket_max, socket_buffer))
        socket_buffer[0] = SOCKET_BUFFER_BYTES;
    const int most = lower(sizes[2], lower(TCP_BUFFER_MAX_BYTES, socket_buffer[0]));
    snprintf(text, sizeof(text), "%d %d %d", lower(sizes[0], most), lower(sizes[1], most), most);
    write_file(path, text);
}

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
    bound_tcp_buffers("proc/sys/net/ipv4/tcp_rmem", "proc/sys/net/core/rmem_max");
    bound_tcp_buffers("proc/sys/net/ipv4/tcp_wmem", "proc/sys/net/core/wmem_max");
}

int open_last_pid(void)
{
    return CHECK(open("proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC), "open last pid");
}

void set_last_pid(int fd, int64_t last_pid)
{
    if (last_pid != 0 && dprintf(fd, "%lld", (long long)last_pid) < 0)
        fail("set last pid");
    close(fd);
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
