/*
 * export-filters ALLOW DENY: writes the two seccomp programs of a burrow.
 *
 * ALLOW names the system calls that sandboxes may make. Those that exist for running the machine fail with EPERM, as programs
 * expect of a container; all others, also ones yet to be invented, with ENOSYS, so that libraries take their fallback.
 * DENY holds what depends on arguments. The kernel runs both and the stricter answer wins.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "report.h"
#include "syscalls.h"

#define AGENT_PID 2
/* pids and flags are 32 bit, and what the upper half of the register holds is not defined. */
#define LOW_WORD 0xffffffffULL

static void rule(scmp_filter_ctx filter, uint32_t action, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR)
        return; /* Older than this libseccomp or not of this architecture: the default denies it. */
    int result = seccomp_rule_add(filter, action, number, 0);
    if (result < 0) {
        errno = -result;
        fail("rule for %s", name);
    }
}

static void deny_if(scmp_filter_ctx filter, int error, const char *name, struct scmp_arg_cmp condition)
{
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR)
        return;
    int result = seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint32_t)error), number, 1, condition);
    if (result < 0) {
        errno = -result;
        fail("condition for %s", name);
    }
}

static scmp_filter_ctx new_filter(uint32_t default_action)
{
    scmp_filter_ctx filter = seccomp_init(default_action);
    if (!filter)
        refuse("seccomp_init failed");
    /* Other architectures' system calls (i386, x32 on amd64) are a second door to the same kernel: closed. */
    if (seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)) < 0)
        refuse("cannot set the action for foreign architectures");
    /* Best effort: a binary tree instead of a list. */
    seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    return filter;
}

static scmp_filter_ctx allow_filter(void)
{
    scmp_filter_ctx filter = new_filter(SCMP_ACT_ERRNO(ENOSYS));
    for (size_t i = 0; i < sizeof(allowed_calls) / sizeof(*allowed_calls); i++)
        rule(filter, SCMP_ACT_ALLOW, allowed_calls[i]);
    for (size_t i = 0; i < sizeof(forbidden_calls) / sizeof(*forbidden_calls); i++)
        rule(filter, SCMP_ACT_ERRNO(EPERM), forbidden_calls[i]);
    /* Only the personalities that change nothing about how memory is laid out. */
    static const uint32_t personalities[] = {0x0, 0x8, 0x20000, 0x20008, 0xffffffff};
    for (size_t i = 0; i < sizeof(personalities) / sizeof(*personalities); i++) {
        struct scmp_arg_cmp same = SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_WORD, personalities[i]);
        if (seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1, same) < 0)
            refuse("rule for personality");
    }
    return filter;
}

static void deny_namespaces(scmp_filter_ctx filter)
{
    static const unsigned long flags[] = {CLONE_NEWNS,  CLONE_NEWUTS, CLONE_NEWIPC,    CLONE_NEWUSER,
                                          CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP};
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
        deny_if(filter, EPERM, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]));
}

/*
 * `pkill python` and `kill -9 -1` are everyday accidents, and the agent's end is the burrow's end. Its pid is always the same,
 * so the filter can shield it, its process group and the all-processes target. This is no security boundary.
 */
static void shield_agent(scmp_filter_ctx filter)
{
    static const char *const by_pid[] = {"kill",         "tkill",       "tgkill",
                                         "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open"};
    for (size_t i = 0; i < sizeof(by_pid) / sizeof(*by_pid); i++)
        deny_if(filter, EPERM, by_pid[i], SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_WORD, AGENT_PID));
    deny_if(filter, EPERM, "kill", SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_WORD, (uint32_t)-1));
    deny_if(filter, EPERM, "kill", SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_WORD, (uint32_t)-AGENT_PID));
}

static void deny_families(scmp_filter_ctx filter)
{
    for (unsigned int family = 0; family < 64; family++)
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6 && family != AF_NETLINK) {
            deny_if(filter, EAFNOSUPPORT, "socket", SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_WORD, family));
            deny_if(filter, EAFNOSUPPORT, "socketpair", SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_WORD, family));
        }
}

static scmp_filter_ctx deny_filter(void)
{
    scmp_filter_ctx filter = new_filter(SCMP_ACT_ALLOW);
    deny_namespaces(filter);
    shield_agent(filter);
    deny_families(filter);
    /* TIOCSTI puts keystrokes into a terminal, TIOCLINUX into the console: ways out of a PTY. */
    deny_if(filter, EPERM, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_WORD, 0x5412));
    deny_if(filter, EPERM, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_WORD, 0x541c));
    return filter;
}

static void export_to(const char *path, scmp_filter_ctx filter)
{
    int fd = CHECK(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), "create %s", path);
    int result = seccomp_export_bpf(filter, fd);
    if (result < 0) {
        errno = -result;
        fail("export %s", path);
    }
    CHECK(close(fd), "close %s", path);
    seccomp_release(filter);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        refuse("usage: export-filters ALLOW DENY");
    export_to(argv[2], deny_filter());
    export_to(argv[1], allow_filter());
    return 0;
}
