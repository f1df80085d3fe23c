#include "capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Enough for root inside to manage its own files, users and processes. Nothing that opens larger parts of the kernel.
 */
static const int kept[] = {
    CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,  CAP_FSETID,           CAP_KILL,       CAP_SETGID,
    CAP_SETUID, CAP_SETPCAP,      CAP_SETFCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_AUDIT_WRITE,
};

uint64_t burrow_capabilities(void)
{
    return capability_mask(kept, sizeof(kept) / sizeof(*kept));
}

uint64_t capability_mask(const int *capabilities, size_t count)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < count; i++)
        mask |= UINT64_C(1) << capabilities[i];
    return mask;
}

bool keep_capabilities(uint64_t mask)
{
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
        if ((capability >= 64 || !(mask & UINT64_C(1) << capability)) && prctl(PR_CAPBSET_DROP, capability) == -1)
            return false;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == -1)
        return false;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct now[2], data[2] = {0};
    if (syscall(SYS_capget, &header, now) == -1)
        return false;
    /* Inside a container the host's root may lack some of them. */
    for (int word = 0; word < 2; word++)
        data[word].effective = data[word].permitted = (uint32_t)(mask >> (32 * word)) & now[word].permitted;
    return syscall(SYS_capset, &header, data) == 0;
}
