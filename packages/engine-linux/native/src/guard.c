/*
 * libdormouse-guard.so, preloaded into every program of a sandbox: the libc entry points whose effect on restored
 * memory differs from that on anonymous memory, and those that tell of a file's device (guard-stat.c). A process that
 * never slept pays one load and one branch.
 *
 * Not here, because nothing is needed:
 * - munmap, mprotect: the same on both kinds. A private mapping of a read-only file may become writable (VM_MAYWRITE),
 *   and
 *   executable as long as its mount is not noexec.
 * - brk: growth past a mapped heap is anonymous.
 * - posix_madvise(POSIX_MADV_DONTNEED): nothing at all in glibc and musl. process_madvise: seccomp forbids it.
 * - libc's own calls, which cannot be seen from here: glibc discards stacks of dead threads and free heap parts, and
 *   never takes
 *   them for zeros afterwards (its calloc clears everything below a heap's mprotect_size); realloc promises no zeros.
 * - fork: children inherit table and mappings alike. exec: starts with a table of its own, and no restored memory.
 *
 * Out of reach: programs that make the system call themselves, take madvise from dlopen("libc.so.6") or use
 * RTLD_DEEPBIND.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "guard.h"
#include "guard-syscalls.h"

/* The engine overwrites it page by page in the process image, so these pages hold nothing else. */
__attribute__((aligned(PAGE_BYTES))) struct guard_table dormouse_guard_table = {
    .magic = GUARD_MAGIC,
    .version = 1,
    .capacity = GUARD_RANGES,
};
_Static_assert(sizeof(struct guard_table) == 4 * PAGE_BYTES, "the table fills its pages");

/*
 * Written once, the pages are private copies, and those are in every process image. Unwritten they would be the
 * library's.
 */
__attribute__((constructor)) static void own_table_pages(void)
{
    for (uintptr_t offset = 0; offset < sizeof dormouse_guard_table; offset += PAGE_BYTES) {
        volatile char *byte = (volatile char *)&dormouse_guard_table + offset;
        *byte = *byte;
    }
}

/* The same name in glibc and musl, and the only one taken from them; weak, so that the guard loads without any libc. */
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
 * These two are variadic in libc's headers. On x86-64 integer arguments travel the same way in both kinds of functions;
 * those that the caller left out are garbage that the kernel does not look at, exactly as in libc.
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
    return to_libc(call_kernel(number, a, b, c, d, e, f));
}
