/*
 * Shows one device number for the root of a sandbox, for ever. Every wake mounts a new overlay, and the kernel gives it
 * any free number. But programs remember the device and inode numbers of files they have open. SQLite shares locks
 * between connections to the same device and inode: a connection from before a sleep and one from after it would both
 * write. Other programs would reopen logs or drop caches. Other file systems keep the kernel's number.
 *
 * The guard cannot change the number for programs that make the system call themselves, nor in libc's own calls (nftw,
 * fts, the dynamic loader).
 */
#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>

#include "guard.h"
#include "guard-syscalls.h"

/*
 * The kernel assigns the lowest free minor number under major 0, so it never gets this far. Positive as a 32-bit
 * integer too.
 */
#define SHOWN_MINOR 0x7ffffU
#define SHOWN_DEVICE to_device(SHOWN_MINOR)

/* Device numbers have 32 bits; a value with this bit set is not one. */
#define NO_DEVICE (1ULL << 63)

/* How the kernel encodes a device of major 0 for user space. */
static inline uint64_t to_device(uint32_t minor)
{
    return (minor & 0xff) | (uint64_t)(minor & ~0xffU) << 12;
}

static inline uint64_t known_root(void)
{
    return __atomic_load_n(&dormouse_guard_table.root_device, __ATOMIC_RELAXED);
}

/*
 * The engine resets the number whenever the process falls asleep, possibly between our system call and our store. So a
 * unique mark goes into the table first, and the number replaces it only if the mark is still there.
 */
static uint64_t ask_for_root(void)
{
    struct stat root;
    uint64_t mark = (uint64_t)(uintptr_t)&root | NO_DEVICE;
    __atomic_store_n(&dormouse_guard_table.root_device, mark, __ATOMIC_SEQ_CST);
    if (is_error(call_kernel(SYS_stat, (long)"/", (long)&root, 0, 0, 0, 0)))
        return NO_DEVICE;
    __atomic_compare_exchange_n(&dormouse_guard_table.root_device, &mark, root.st_dev, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return root.st_dev;
}

__attribute__((noinline)) static int is_current_root(uint64_t device)
{
    uint64_t root = known_root();
    if (root == 0 || root & NO_DEVICE)
        root = ask_for_root();
    return device == root;
}

/*
 * `root` is the number known before the call that returned `device`. If a sleep came in between, one of the two
 * comparisons is right.
 */
static inline int is_root(uint64_t device, uint64_t root)
{
    return __builtin_expect(device == root, 1) || is_current_root(device);
}

static inline long show_stat(long number, long a, long b, long c, long d, struct stat *status)
{
    uint64_t root = known_root();
    long result = call_kernel(number, a, b, c, d, 0, 0);
    if (result == 0 && is_root(status->st_dev, root))
        status->st_dev = SHOWN_DEVICE;
    return result;
}

static long show_statx(long directory, long path, long flags, long mask, struct statx *status)
{
    uint64_t root = known_root();
    long result = call_kernel(SYS_statx, directory, path, flags, mask, (long)status, 0);
    if (result == 0 && status->stx_dev_major == 0 && is_root(to_device(status->stx_dev_minor), root))
        status->stx_dev_minor = SHOWN_MINOR;
    return result;
}

int is_stat(long number)
{
    return number == SYS_stat || number == SYS_lstat || number == SYS_fstat || number == SYS_newfstatat || number == SYS_statx;
}

long stat_by_number(long number, long a, long b, long c, long d, long e)
{
    if (number == SYS_statx)
        return show_statx(a, b, c, d, (struct statx *)e);
    return show_stat(number, a, b, c, d, (struct stat *)(number == SYS_newfstatat ? c : b));
}

EXPORT int stat(const char *path, struct stat *status)
{
    return (int)to_libc(show_stat(SYS_stat, (long)path, (long)status, 0, 0, status));
}

EXPORT int lstat(const char *path, struct stat *status)
{
    return (int)to_libc(show_stat(SYS_lstat, (long)path, (long)status, 0, 0, status));
}

EXPORT int fstat(int fd, struct stat *status)
{
    return (int)to_libc(show_stat(SYS_fstat, fd, (long)status, 0, 0, status));
}

EXPORT int fstatat(int directory, const char *path, struct stat *status, int flags)
{
    return (int)to_libc(show_stat(SYS_newfstatat, directory, (long)path, (long)status, flags, status));
}

EXPORT int statx(int directory, const char *path, int flags, unsigned mask, struct statx *status)
{
    return (int)to_libc(show_statx(directory, (long)path, flags, mask, status));
}

/*
 * Programs built with glibc before 2.33 call these. Version 0 is the kernel's struct and 1 is glibc's; on x86-64 they
 * are the same.
 */
static inline int is_version(int version)
{
    return version == 0 || version == 1;
}

EXPORT int __xstat(int version, const char *path, struct stat *status)
{
    return is_version(version) ? stat(path, status) : (int)to_libc(-EINVAL);
}

EXPORT int __lxstat(int version, const char *path, struct stat *status)
{
    return is_version(version) ? lstat(path, status) : (int)to_libc(-EINVAL);
}

EXPORT int __fxstat(int version, int fd, struct stat *status)
{
    return is_version(version) ? fstat(fd, status) : (int)to_libc(-EINVAL);
}

EXPORT int __fxstatat(int version, int directory, const char *path, struct stat *status, int flags)
{
    return is_version(version) ? fstatat(directory, path, status, flags) : (int)to_libc(-EINVAL);
}

/*
 * On x86-64 struct stat is the same in the kernel, glibc and musl, and so are the 64-bit variants of these functions.
 */
#define ALSO_NAMED(function, name) \
    extern EXPORT __typeof__(function) function##_64 __asm__(name) __attribute__((alias(#function), copy(function)))
ALSO_NAMED(stat, "stat64");
ALSO_NAMED(lstat, "lstat64");
ALSO_NAMED(fstat, "fstat64");
ALSO_NAMED(fstatat, "fstatat64");
ALSO_NAMED(__xstat, "__xstat64");
ALSO_NAMED(__lxstat, "__lxstat64");
ALSO_NAMED(__fxstat, "__fxstat64");
ALSO_NAMED(__fxstatat, "__fxstatat64");
