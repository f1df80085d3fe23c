#pragma once

#include <stdint.h>
#include <sys/syscall.h>

#ifndef __x86_64__
#error "the guard makes its system calls itself, so far in x86-64 only"
#endif

/*
 * System calls without libc: the guard runs below allocators, in signal handlers and under any libc (glibc, musl), so
 * it must not call one. Failures are -errno, as the kernel returns them.
 */
static inline long call_kernel(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline int is_error(long result)
{
    return (unsigned long)result > -4096UL;
}

static inline long kernel_madvise(uintptr_t start, uintptr_t length, int advice)
{
    return call_kernel(SYS_madvise, (long)start, (long)length, advice, 0, 0, 0);
}

static inline long kernel_mmap(uintptr_t start, uintptr_t length, int protection, int flags)
{
    return call_kernel(SYS_mmap, (long)start, (long)length, protection, flags, -1, 0);
}

static inline void kernel_munmap(uintptr_t start, uintptr_t length)
{
    call_kernel(SYS_munmap, (long)start, (long)length, 0, 0, 0, 0);
}

static inline long kernel_open(const char *path, int flags)
{
    return call_kernel(SYS_open, (long)path, flags, 0, 0, 0, 0);
}

static inline long kernel_read(int fd, char *buffer, unsigned long bytes)
{
    return call_kernel(SYS_read, fd, (long)buffer, (long)bytes, 0, 0, 0);
}

static inline void kernel_close(int fd)
{
    call_kernel(SYS_close, fd, 0, 0, 0, 0, 0);
}
