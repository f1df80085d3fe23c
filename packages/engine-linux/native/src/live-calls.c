/*
 * System calls in a stopped thread. The kernel's rules that this relies on:
 * - A thread that PTRACE_INTERRUPT stops in a system call has -ERESTART… in rax and the call's number in orig_rax. When
 *   it continues from that stop, the kernel restarts the call, or returns EINTR if a signal came meanwhile. So the
 *   registers are put back unchanged, and the thread stops once more the same way before it is let go.
 * - With orig_rax -1 the kernel restarts nothing.
 * - A blocked signal waits; PTRACE_SETSIGMASK blocks all of them meanwhile.
 * If this process is killed at any point, the thread continues by itself: see guard-call.h.
 */
#include "live-calls.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "live-tasks.h"

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif
#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif
#define SYSCALL_BYTES 2
#define CODE_SEGMENT_64 0x33
#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516
#define NUMBER_OF_RESTART 219

bool read_inside(pid_t process, uint64_t address, void *bytes, size_t length)
{
    struct iovec here = {bytes, length}, there = {(void *)address, length};
    return process_vm_readv(process, &here, 1, &there, 1, 0) == (ssize_t)length;
}

bool write_inside(pid_t process, uint64_t address, const void *bytes, size_t length)
{
    struct iovec here = {(void *)bytes, length}, there = {(void *)address, length};
    return process_vm_writev(process, &here, 1, &there, 1, 0) == (ssize_t)length;
}

/*
 * In a restartable sequence, the kernel would notice a change of rip as the end of the sequence, and the thread would
 * not start it again.
 */
static bool is_in_sequence(pid_t thread)
{
    struct {
        uint64_t address;
        uint32_t size, signature, flags, pad;
    } rseq;
    uint64_t sequence = 0;
    if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, thread, sizeof(rseq), &rseq) <= 0 || rseq.address == 0)
        return false;
    return !read_inside(thread, rseq.address + 8, &sequence, sizeof(sequence)) || sequence != 0;
}

/* A thread may have asked to get SIGSYS for system calls that a part of its code makes, as Wine does. */
static bool has_dispatch(pid_t thread)
{
    struct {
        uint64_t mode, selector, offset, length;
    } config = {0};
    return ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, thread, sizeof(config), &config) == 0 && config.mode != 0;
}

/* Where the thread would continue without help from the kernel. */
static void describe_return(const struct user_regs_struct *regs, struct guard_call *frame)
{
    frame->rip = regs->rip;
    frame->rax = regs->rax;
    if ((long)regs->orig_rax < 0)
        return;
    long error = -(long)regs->rax;
    if (error == ERESTARTSYS || error == ERESTARTNOINTR || error == ERESTARTNOHAND)
        frame->rax = regs->orig_rax;
    else if (error == ERESTART_RESTARTBLOCK)
        frame->rax = NUMBER_OF_RESTART;
    else
        return;
    frame->rip -= SYSCALL_BYTES;
}

bool can_call(struct live_calls *calls)
{
    pid_t thread = calls->thread;
    struct guard_call frame;
    struct user_regs_struct *before = &calls->before;
    unsigned char code[SYSCALL_BYTES];
    if (ptrace(PTRACE_GETREGS, thread, 0, before) == -1 || before->cs != CODE_SEGMENT_64)
        return false;
    if (ptrace(PTRACE_GETSIGMASK, thread, sizeof(calls->signal_mask), &calls->signal_mask) == -1)
        return false;
    if (is_in_sequence(thread) || has_dispatch(thread))
        return false;
    if (!read_inside(thread, calls->enter, code, sizeof(code)) || code[0] != 0x0f || code[1] != 0x05)
        return false;
    return read_inside(thread, calls->frame, &frame, sizeof(frame)) && frame.in_use == 0;
}

bool begin_calls(struct live_calls *calls, const char *path)
{
    const struct user_regs_struct *before = &calls->before;
    struct guard_call frame = {
        .in_use = 1,
        .flags = before->eflags,
        .rsp = before->rsp,
        .rdi = before->rdi,
        .rsi = before->rsi,
        .rdx = before->rdx,
        .r10 = before->r10,
        .r8 = before->r8,
        .r9 = before->r9,
        .rcx = before->rcx,
        .r11 = before->r11,
        .signal_mask = calls->signal_mask,
    };
    describe_return(before, &frame);
    if (strlen(path) >= sizeof(frame.path))
        return false;
    strcpy(frame.path, path);
    return write_inside(calls->thread, calls->frame, &frame, sizeof(frame));
}

uint64_t path_inside(const struct live_calls *calls)
{
    return calls->frame + offsetof(struct guard_call, path);
}

long call_inside(struct live_calls *calls, long number, const uint64_t arguments[6])
{
    pid_t thread = calls->thread;
    const uint64_t all_signals = ~0ul;
    struct user_regs_struct regs = calls->before;
    regs.rip = calls->enter;
    regs.rax = (uint64_t)number;
    regs.orig_rax = (uint64_t)-1;
    regs.rdi = arguments[0];
    regs.rsi = arguments[1];
    regs.rdx = arguments[2];
    regs.r10 = arguments[3];
    regs.r8 = arguments[4];
    regs.r9 = arguments[5];
    /* In this order: if this process is killed in between, the thread sets its own mask again. */
    if (ptrace(PTRACE_SETREGS, thread, 0, &regs) == -1)
        return -EIO;
    if (ptrace(PTRACE_SETSIGMASK, thread, sizeof(all_signals), &all_signals) == -1)
        return -EIO;
    if (ptrace(PTRACE_SYSCALL, thread, 0, 0) == -1 || wait_for_stop(thread) != STOP_SYSTEM_CALL)
        return -EIO;
    if (ptrace(PTRACE_GETREGS, thread, 0, &regs) == -1 || regs.rip != calls->enter + SYSCALL_BYTES ||
        regs.orig_rax != (uint64_t)number)
        return -EIO;
    if (ptrace(PTRACE_SYSCALL, thread, 0, 0) == -1 || wait_for_stop(thread) != STOP_SYSTEM_CALL)
        return -EIO;
    if (ptrace(PTRACE_GETREGS, thread, 0, &regs) == -1)
        return -EIO;
    return (long)regs.rax;
}

bool end_calls(struct live_calls *calls)
{
    pid_t thread = calls->thread;
    const uint64_t not_in_use = 0;
    /* The thread is on its way out of a call. It stops again before it runs a single instruction. */
    ptrace(PTRACE_INTERRUPT, thread, 0, 0);
    bool is_back = ptrace(PTRACE_SETSIGMASK, thread, sizeof(calls->signal_mask), &calls->signal_mask) == 0 &&
                   ptrace(PTRACE_SETREGS, thread, 0, &calls->before) == 0 && ptrace(PTRACE_CONT, thread, 0, 0) == 0 &&
                   wait_for_stop(thread) == STOP_EVENT;
    return write_inside(thread, calls->frame, &not_in_use, sizeof(not_in_use)) && is_back;
}
