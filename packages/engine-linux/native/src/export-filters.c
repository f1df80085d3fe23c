/*
 * export-filters ALLOW DENY BASE: writes the three seccomp programs of a burrow.
 *
 * ALLOW lists the system calls that sandboxes may make. Calls that administer the machine fail with EPERM, as programs
 * expect in a container. All other calls, including ones that do not exist yet, fail with ENOSYS, so that libraries use
 * their fallback. DENY refuses calls by their arguments. The kernel runs both and the stricter result wins.
 * BASE is the filter of the restoring CRIU: every call of ALLOW and the few more that a restore makes. Every process
 * that CRIU restores inherits it. A burrow that boots loads it too, so it is the oldest filter of every process of
 * every burrow.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base-filter.h"
#include "report.h"
#include "syscalls.h"

#define AGENT_PID 2
/* Pids and flags have 32 bits, and the upper half of the register is undefined. */
#define LOW_WORD 0xffffffffULL

static void rule(scmp_filter_ctx filter, uint32_t action, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR)
        return; /* Unknown to this libseccomp or not on this architecture: the default action denies it. */
    int result = seccomp_rule_add(filter, action, number, 0);
    if (result < 0) {
        errno = -result;
        fail("rule for %s", name);
    }
}

static void deny_if_all(scmp_filter_ctx filter, int error, const char *name, unsigned int count,
                        const struct scmp_arg_cmp *conditions)
{
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR)
        return;
    int result = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO((uint32_t)error), number, count, conditions);
    if (result < 0) {
        errno = -result;
        fail("condition for %s", name);
    }
}

static void deny_if(scmp_filter_ctx filter, int error, const char *name, struct scmp_arg_cmp condition)
{
    deny_if_all(filter, error, name, 1, &condition);
}

static void deny_if_both(scmp_filter_ctx filter, int error, const char *name, struct scmp_arg_cmp one,
                         struct scmp_arg_cmp other)
{
    const struct scmp_arg_cmp conditions[] = {one, other};
    deny_if_all(filter, error, name, 2, conditions);
}

static scmp_filter_ctx new_filter(uint32_t default_action)
{
    scmp_filter_ctx filter = seccomp_init(default_action);
    if (!filter)
        refuse("seccomp_init failed");
    /*
     * System calls of other architectures (i386, x32 on amd64) reach the same kernel by another table: refuse them all.
     */
    if (seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)) < 0)
        refuse("cannot set the action for foreign architectures");
    /* Optional: a binary tree instead of a list. */
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
    /* Only personalities that do not change the memory layout. */
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
 * `pkill python` and `kill -9 -1` are common accidents, and when the agent ends, the burrow ends. The agent's pid is
 * always the same, so the filter can refuse signals to it, to its process group and to all processes at once. This is
 * not a security boundary.
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

/*
 * Opening a socket of a rare protocol loads kernel code that few people review. Of netlink, only the families remain
 * that programs use to ask for addresses, sockets, devices and auditing.
 */
static void deny_protocols(scmp_filter_ctx filter)
{
    static const unsigned int internet[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < sizeof(internet) / sizeof(*internet); i++) {
        struct scmp_arg_cmp family = SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_WORD, internet[i]);
        /*
         * Higher numbers are SCTP, UDP-Lite, L2TP, SMC and MPTCP. The filter compares the whole register, so it also
         * refuses stray upper bits.
         */
        deny_if_both(filter, EPROTONOSUPPORT, "socket", family, SCMP_A2(SCMP_CMP_GT, IPPROTO_ICMPV6));
        deny_if_both(filter, EPROTONOSUPPORT, "socket", family, SCMP_A2(SCMP_CMP_MASKED_EQ, LOW_WORD, IPPROTO_DCCP));
    }
    struct scmp_arg_cmp netlink = SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_WORD, AF_NETLINK);
    for (unsigned int protocol = 0; protocol < MAX_LINKS; protocol++)
        if (protocol != NETLINK_ROUTE && protocol != NETLINK_SOCK_DIAG && protocol != NETLINK_AUDIT &&
            protocol != NETLINK_KOBJECT_UEVENT && protocol != NETLINK_GENERIC)
            deny_if_both(filter, EPROTONOSUPPORT, "socket", netlink, SCMP_A2(SCMP_CMP_MASKED_EQ, LOW_WORD, protocol));
    /* Kernel TLS: libraries implement TLS themselves, and a snapshot cannot save its state in the kernel. */
    deny_if_both(filter, ENOPROTOOPT, "setsockopt", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_WORD, IPPROTO_TCP),
                 SCMP_A2(SCMP_CMP_MASKED_EQ, LOW_WORD, TCP_ULP));
}

/* The host's administrator reserves huge pages as a pool, and memory cgroups do not count them. */
static void deny_huge_pages(scmp_filter_ctx filter)
{
    deny_if(filter, EPERM, "mmap", SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_HUGETLB, MAP_HUGETLB));
    deny_if(filter, EPERM, "memfd_create", SCMP_A1(SCMP_CMP_MASKED_EQ, MFD_HUGETLB, MFD_HUGETLB));
    deny_if(filter, EPERM, "shmget", SCMP_A2(SCMP_CMP_MASKED_EQ, SHM_HUGETLB, SHM_HUGETLB));
}

/*
 * dormouse-init sets this limit to 1. That also keeps the kernel from starting the host's core dump handler, which it
 * would start with 0. Core dumps are off either way, so for programs that switch them off the call returns success.
 */
static void keep_core_limit(scmp_filter_ctx filter)
{
    deny_if(filter, 0, "setrlimit", SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_WORD, RLIMIT_CORE));
    deny_if_both(filter, 0, "prlimit64", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_WORD, RLIMIT_CORE), SCMP_A2(SCMP_CMP_NE, 0));
}

static scmp_filter_ctx deny_filter(void)
{
    scmp_filter_ctx filter = new_filter(SCMP_ACT_ALLOW);
    deny_namespaces(filter);
    shield_agent(filter);
    deny_families(filter);
    deny_protocols(filter);
    deny_huge_pages(filter);
    keep_core_limit(filter);
    /* TIOCSTI injects keystrokes into a terminal, TIOCLINUX into the console: a way to escape from a PTY. */
    deny_if(filter, EPERM, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_WORD, TIOCSTI));
    deny_if(filter, EPERM, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_WORD, TIOCLINUX));
    /* This call loads drivers for line disciplines other than a terminal's. */
    deny_if(filter, EPERM, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_WORD, TIOCSETD));
    return filter;
}

static scmp_filter_ctx base_filter(void)
{
    scmp_filter_ctx filter = new_filter(SCMP_ACT_ERRNO(ENOSYS));
    for (size_t i = 0; i < sizeof(allowed_calls) / sizeof(*allowed_calls); i++)
        rule(filter, SCMP_ACT_ALLOW, allowed_calls[i]);
    for (size_t i = 0; i < sizeof(restore_calls) / sizeof(*restore_calls); i++)
        rule(filter, SCMP_ACT_ALLOW, restore_calls[i]);
    return filter;
}

/*
 * One instruction in front of the program that loads a constant and has no effect. It marks the base filter, so that
 * the host can find it in a dump and remove it: a restore adds it again.
 */
static void write_mark(int fd, const char *path)
{
    const struct sock_filter mark = BPF_STMT(BPF_LD | BPF_W | BPF_IMM, BASE_FILTER_MARK);
    if (CHECK(write(fd, &mark, sizeof(mark)), "write %s", path) != sizeof(mark))
        refuse("cannot write %s", path);
}

static void export_to(const char *path, scmp_filter_ctx filter, bool is_marked)
{
    int fd = CHECK(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), "create %s", path);
    if (is_marked)
        write_mark(fd, path);
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
    if (argc != 4)
        refuse("usage: export-filters ALLOW DENY BASE");
    export_to(argv[3], base_filter(), true);
    export_to(argv[2], deny_filter(), false);
    export_to(argv[1], allow_filter(), false);
    return 0;
}
