/*
 * export-filters ALLOW DENY BASE: writes the three seccomp programs of a burrow.
 *
 * ALLOW names the system calls that sandboxes may make. Those that exist for running the machine fail with EPERM, as
 * programs expect of a container; all others, also ones yet to be invented, with ENOSYS, so that libraries take their
 * fallback. DENY holds what depends on arguments. The kernel runs both and the stricter answer wins.
 * BASE is what the restoring CRIU carries: every call of ALLOW and the few more that a restore makes. What CRIU
 * restores inherits it, so the processes of a burrow that boots get it too, and it is the oldest filter of every
 * process of every burrow.
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
 * `pkill python` and `kill -9 -1` are everyday accidents, and the agent's end is the burrow's end. Its pid is always
 * the same, so the filter can shield it, its process group and the all-processes target. This is no security boundary.
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
 * Rare protocols are kernel code that opening a socket loads and that few people look at. Of netlink, only what
 * programs ask for names, addresses, sockets, devices and auditing remains.
 */
static void deny_protocols(scmp_filter_ctx filter)
{
    static const unsigned int internet[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < sizeof(internet) / sizeof(*internet); i++) {
        struct scmp_arg_cmp family = SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_WORD, internet[i]);
        /*
         * Above are SCTP, UDP-Lite, L2TP, SMC and MPTCP. The whole register is compared: stray upper bits are denied as
         * well.
         */
        deny_if_both(filter, EPROTONOSUPPORT, "socket", family, SCMP_A2(SCMP_CMP_GT, IPPROTO_ICMPV6));
        deny_if_both(filter, EPROTONOSUPPORT, "socket", family, SCMP_A2(SCMP_CMP_MASKED_EQ, LOW_WORD, IPPROTO_DCCP));
    }
    struct scmp_arg_cmp netlink = SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_WORD, AF_NETLINK);
    for (unsigned int protocol = 0; protocol < MAX_LINKS; protocol++)
        if (protocol != NETLINK_ROUTE && protocol != NETLINK_SOCK_DIAG && protocol != NETLINK_AUDIT &&
            protocol != NETLINK_KOBJECT_UEVENT && protocol != NETLINK_GENERIC)
            deny_if_both(filter, EPROTONOSUPPORT, "socket", netlink, SCMP_A2(SCMP_CMP_MASKED_EQ, LOW_WORD, protocol));
    /* TLS in the kernel: libraries do it themselves, and a snapshot cannot hold its state. */
    deny_if_both(filter, ENOPROTOOPT, "setsockopt", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_WORD, IPPROTO_TCP),
                 SCMP_A2(SCMP_CMP_MASKED_EQ, LOW_WORD, TCP_ULP));
}

/* Huge pages are a pool that the host's administrator set aside, and memory cgroups do not count them. */
static void deny_huge_pages(scmp_filter_ctx filter)
{
    deny_if(filter, EPERM, "mmap", SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_HUGETLB, MAP_HUGETLB));
    deny_if(filter, EPERM, "memfd_create", SCMP_A1(SCMP_CMP_MASKED_EQ, MFD_HUGETLB, MFD_HUGETLB));
    deny_if(filter, EPERM, "shmget", SCMP_A2(SCMP_CMP_MASKED_EQ, SHM_HUGETLB, SHM_HUGETLB));
}

/*
 * dormouse-init sets this limit to 1, which also keeps the kernel from starting the host's core dump handler; 0 would
 * start it. There are no core dumps either way, so programs that switch them off are told that they have.
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
    /* TIOCSTI puts keystrokes into a terminal, TIOCLINUX into the console: ways out of a PTY. */
    deny_if(filter, EPERM, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_WORD, TIOCSTI));
    deny_if(filter, EPERM, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_WORD, TIOCLINUX));
    /* Line disciplines other than a terminal's are drivers that this call loads. */
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
 * One instruction that loads a constant, in front of the program and without effect on it. It tells the host which of
 * the filters in a dump is the one that a restore brings along anyway.
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
