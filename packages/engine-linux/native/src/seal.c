#include "seal.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "capabilities.h"
#include "load-filter.h"
#include "report.h"

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the audit number of this architecture is not known here"
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)
#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), ANSWER(SECCOMP_RET_ALLOW)
/* Not SECCOMP_RET_KILL: when PID 1 ends, the burrow ends, and a C library may try calls that it can do without. */
#define REFUSE ANSWER(SECCOMP_RET_ERRNO | EPERM)

/* Not made by export-filters: it needs no list of names, and PID 1 can no longer read files. */
static struct sock_filter code[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCHITECTURE, 1, 0),
    REFUSE,
    LOAD(nr),
    ALLOW(wait4),
    ALLOW(rt_sigtimedwait),
    ALLOW(restart_syscall),
    ALLOW(rt_sigreturn),
    ALLOW(write),
    ALLOW(exit_group),
    REFUSE,
};

void seal_first_process(void)
{
    const struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};
    if (!keep_capabilities(0))
        fail("drop capabilities");
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    if (!filter_load(&program))
        fail("seal");
}
