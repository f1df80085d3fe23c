#include "privileges.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report.h"

struct filters {
    struct sock_fprog allow, deny;
};

static struct sock_fprog program_read(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    int fd = CHECK(open(path, O_RDONLY | O_CLOEXEC), "open %s", name);
    struct stat status;
    CHECK(fstat(fd, &status), "stat %s", name);
    size_t size = (size_t)status.st_size;
    if (size == 0 || size % sizeof(struct sock_filter) || size / sizeof(struct sock_filter) > BPF_MAXINSNS)
        refuse("%s is not a filter", name);
    void *code = malloc(size);
    if (!code || read(fd, code, size) != (ssize_t)size)
        fail("read %s", name);
    close(fd);
    return (struct sock_fprog){.len = (unsigned short)(size / sizeof(struct sock_filter)), .filter = code};
}

struct filters *filters_read(const char *directory)
{
    struct filters *filters = malloc(sizeof(*filters));
    if (!filters)
        fail("filters");
    filters->allow = program_read(directory, "seccomp-allow.bpf");
    filters->deny = program_read(directory, "seccomp-deny.bpf");
    return filters;
}

/* What root needs to be root of its own files, users and processes, and nothing that reaches the kernel's larger surfaces. */
static const int kept[] = {
    CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,  CAP_FSETID,           CAP_KILL,       CAP_SETGID,
    CAP_SETUID, CAP_SETPCAP,      CAP_SETFCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_AUDIT_WRITE,
};

static uint64_t kept_mask(void)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
        mask |= UINT64_C(1) << kept[i];
    return mask;
}

static void limit_capabilities(void)
{
    uint64_t mask = kept_mask();
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
        if (capability >= 64 || !(mask & UINT64_C(1) << capability))
            CHECK(prctl(PR_CAPBSET_DROP, capability), "drop capability %d", capability);
    CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "clear ambient capabilities");
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    for (int word = 0; word < 2; word++)
        data[word].effective = data[word].permitted = (uint32_t)(mask >> (32 * word));
    CHECK(syscall(SYS_capset, &header, data), "limit capabilities");
}

void drop_privileges(const struct filters *filters)
{
    limit_capabilities();
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filters->deny), "deny filter");
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filters->allow), "allow filter");
}
