#include "confine.h"

#include <linux/capability.h>
#include <sys/prctl.h>

#include "capabilities.h"
#include "load-filter.h"

/*
 * CRIU has every capability over the burrow's own namespaces, as the owner of its user namespace. These are its
 * capabilities over the host.
 * It has no seccomp filter. Kernel rule: a process with a filter may neither read the filters of other processes nor
 * suspend them (PTRACE_SECCOMP_GET_FILTER, PTRACE_O_SUSPEND_SECCOMP), and a dump does both.
 */
static const int saving[] = {
    CAP_SYS_ADMIN,    /* reads and suspends seccomp filters; opens /proc/<pid>/map_files */
    CAP_SYS_PTRACE,   /* seizes PID 1, which is not dumpable */
    CAP_DAC_OVERRIDE, /* reads files of the burrow's users; links a deleted file into one of their directories */
    CAP_FOWNER,       /* removes that link again, also from a directory with the sticky bit */
    CAP_SETUID,       /* tests in a short-lived process whether the burrow's root may enter its namespaces */
    CAP_SETGID,
};

/* In addition to the capabilities of every process in a burrow. */
static const int restoring[] = {
    CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE, CAP_SYS_RESOURCE, CAP_NET_ADMIN, CAP_DAC_READ_SEARCH,
    CAP_NET_RAW,   CAP_SYS_NICE,   CAP_IPC_OWNER,          CAP_IPC_LOCK,     CAP_LEASE,
};

/*
 * CRIU uses open_by_handle_at(2) to find inotify targets on a volume. The capability lets it open any file of the
 * volume's file system, so only burrows with volumes get it.
 */
static const int with_volumes[] = {CAP_DAC_READ_SEARCH};

bool confine_saver(bool has_volumes)
{
    uint64_t mask = capability_mask(saving, sizeof(saving) / sizeof(*saving));
    if (has_volumes)
        mask |= capability_mask(with_volumes, sizeof(with_volumes) / sizeof(*with_volumes));
    return keep_capabilities(mask) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

bool filter_restorer(const char *path)
{
    struct sock_fprog base;
    return filter_read(path, &base) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && filter_load(&base);
}

bool confine_restorer(void)
{
    return keep_capabilities(burrow_capabilities() |
                             capability_mask(restoring, sizeof(restoring) / sizeof(*restoring)));
}
