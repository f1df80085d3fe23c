/*
 * libdormouse-guard.so, preloaded into every program of a sandbox. It replaces the libc functions that act differently
 * on restored memory than on anonymous memory, those that return a file's device (guard-stat.c), and those that describe
 * the machine (guard-limits.c). A process that never slept pays for one load and one branch.
 *
 * Not replaced, because no change is needed:
 * - munmap, mprotect: the same on both kinds of memory. A private mapping of a read-only file may become writable
 *   (VM_MAYWRITE), and executable as long as its mount is not noexec.
 * - brk: the heap grows with anonymous memory.
 * - posix_madvise(POSIX_MADV_DONTNEED): does nothing in glibc and musl. process_madvise: seccomp forbids it.
 * - libc's own calls, which the guard cannot see: glibc discards stacks of ended threads and free parts of the heap,
 *   and never relies on zeros there afterwards (its calloc clears everything below a heap's mprotect_size); realloc
 *   promises no zeros.
 * - fork: the child inherits the table and the mappings. exec: the program starts with a new table and no restored
 *   memory.
 *
 * Out of reach: programs that make the system call themselves, take madvise from dlopen("libc.so.6") or use
 * RTLD_DEEPBIND.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "guard.h"
#include "guard-syscalls.h"

/* The engine overwrites the table page by page in the process image, so its pages hold nothing else. */
__attribute__((aligned(PAGE_BYTES))) struct guard_table dormouse_guard_table = {
    .magic = GUARD_MAGIC,
    .version = 1,
    .capacity = GUARD_RANGES,
};
_Static_assert(sizeof(struct guard_table) == 4 * PAGE_BYTES, "the table fills its pages");

/*
 * Once written, the pages are private copies, and every process image contains those. Unwritten pages would belong to
 * the library file and be missing.
 */
__attribute__((constructor)) static void own_table_pages(void)
{
    for (uintptr_t offset = 0; offset < sizeof dormouse_guard_table; offset += PAGE_BYTES) {
        volatile char *byte = (volatile char *)&dormouse_guard_table + offset;
        *byte = *byte;
    }
}

/*
 * glibc and musl both have this function. Memory and file calls take no other from them. Weak, so that the
 * guard also loads without a libc.
 */
extern int *__errno_location(void) __attribute__((weak));

long to_libc(long result)
{
    if (LIKELY(!is_error(result)))
        return result;
    if (__errno_location)
        *__errno_location() = (int)-result;
    return -1;
}

static inline long advise(uintptr_t start, uintptr_t length, int advice)
{
    if (LIKELY(dormouse_guard_table.count == 0))
        return kernel_madvise(start, length, advice);
    return advise_restored(start, length, advice);
}

static inline long remap(uintptr_t old, uintptr_t old_length, uintptr_t new_length, int flags, uintptr_t fixed)
{
    if (LIKELY(dormouse_guard_table.count == 0))
        return call_kernel(SYS_mremap, (long)old, (long)old_length, (long)new_length, flags, (long)fixed, 0);
    struct remap wanted = {.old = old, .old_length = old_length, .new_length = new_length, .fixed = fixed, .flags = flags};
    return remap_restored(wanted);
}

EXPORT int madvise(void *start, size_t length, int advice)
{
    return (int)to_libc(advise((uintptr_t)start, length, advice));
}

/*
 * These two functions are variadic in libc's headers. On x86-64 the calling convention for integer arguments is the
 * same. Arguments that the caller left out are garbage, which the kernel ignores, exactly as in libc.
 */
EXPORT void *guard_mremap(void *old, size_t old_length, size_t new_length, int flags, void *fixed) __asm__("mremap");
EXPORT void *guard_mremap(void *old, size_t old_length, size_t new_length, int flags, void *fixed)
{
    return (void *)to_libc(remap((uintptr_t)old, old_length, new_length, flags, (uintptr_t)fixed));
}

EXPORT long guard_syscall(long number, long a, long b, long c, long d, long e, long f) __asm__("syscall");
EXPORT long guard_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_madvise)
        return to_libc(advise((uintptr_t)a, (uintptr_t)b, (int)c));
    if (number == SYS_mremap)
        return to_libc(remap((uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (int)d, (uintptr_t)e));
    if (is_stat(number))
        return to_libc(stat_by_number(number, a, b, c, d, e));
    if (is_limits(number))
        return to_libc(limits_by_number(number, a, b, c));
    return to_libc(call_kernel(number, a, b, c, d, e, f));
}
