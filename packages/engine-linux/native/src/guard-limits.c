/*
 * Shows the limits of a sandbox where the kernel would describe the host: the number of CPUs, the memory, and the size
 * of the root file system. The engine keeps the numbers in a file. Where that is missing, as in a sandbox that an
 * older dormouse-init started, programs see what the kernel says.
 *
 * Affinity is shown, not set: pinned sandboxes would compete for some CPUs while others are idle. Programs that make
 * the system call themselves (Go) see the CPUs of the host.
 */
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "guard.h"
#include "guard-syscalls.h"

#define NUMBERS_FILE "/dev/.limits/numbers"
#define NUMBERS_MAX_BYTES 256
/* Only the root of a sandbox is an overlay. */
#define OVERLAY_MAGIC 0x794c7630
#define MASK_MAX_BYTES 1024
/* A flag of the kernel's statfs that statvfs does not have. */
#define STATFS_FLAGS_ARE_VALID 0x20

/* In the order of the file. The disk is unknown (0) until the server has said what it allows. */
struct numbers {
    uint64_t cpus, memory_bytes, free_bytes, disk_bytes, used_bytes, files, used_files;
};
#define NUMBERS_COUNT (sizeof(struct numbers) / sizeof(uint64_t))

static int read_numbers(struct numbers *numbers)
{
    char text[NUMBERS_MAX_BYTES];
    int fd = (int)kernel_open(NUMBERS_FILE, 02000000 /* O_CLOEXEC */);
    if (fd < 0)
        return 0;
    long length = kernel_read(fd, text, sizeof text);
    kernel_close(fd);
    uint64_t *next = (uint64_t *)numbers;
    size_t found = 0;
    uint64_t value = 0;
    for (long i = 0; i < length && found < NUMBERS_COUNT; i++) {
        if (text[i] >= '0' && text[i] <= '9') {
            value = value * 10 + (uint64_t)(text[i] - '0');
            continue;
        }
        next[found++] = value;
        value = 0;
    }
    return found == NUMBERS_COUNT && numbers->cpus > 0;
}

/* Keeps the first CPUs of a mask, as many as the sandbox may use at once. Returns how many are left. */
static unsigned long keep_cpus(unsigned char *mask, long bytes)
{
    struct numbers numbers;
    uint64_t most = read_numbers(&numbers) ? numbers.cpus : UINT64_MAX;
    unsigned long kept = 0;
    for (long i = 0; i < bytes * 8; i++) {
        unsigned char bit = (unsigned char)(1 << (i % 8));
        if (!(mask[i / 8] & bit))
            continue;
        if (kept < most)
            kept++;
        else
            mask[i / 8] &= (unsigned char)~bit;
    }
    return kept;
}

static long show_affinity(long pid, long bytes, unsigned char *mask)
{
    long result = call_kernel(SYS_sched_getaffinity, pid, bytes, (long)mask, 0, 0, 0);
    if (!is_error(result))
        keep_cpus(mask, result);
    return result;
}

static long count_cpus(void)
{
    unsigned char mask[MASK_MAX_BYTES];
    long bytes = call_kernel(SYS_sched_getaffinity, 0, sizeof mask, (long)mask, 0, 0, 0);
    return is_error(bytes) ? 1 : (long)keep_cpus(mask, bytes);
}

/* The number of pages in that many bytes. Never 0, by which callers divide. */
static long to_pages(uint64_t bytes)
{
    return bytes < PAGE_BYTES ? 1 : (long)(bytes / PAGE_BYTES);
}

static long show_sysinfo(struct sysinfo *info)
{
    struct numbers numbers;
    long result = call_kernel(SYS_sysinfo, (long)info, 0, 0, 0, 0, 0);
    if (result != 0 || !read_numbers(&numbers))
        return result;
    info->mem_unit = 1;
    info->totalram = numbers.memory_bytes;
    info->freeram = numbers.free_bytes;
    info->sharedram = info->bufferram = info->totalswap = info->freeswap = info->totalhigh = info->freehigh = 0;
    return 0;
}

static uint64_t below(uint64_t limit, uint64_t used)
{
    return used < limit ? limit - used : 0;
}

static void show_disk(struct statfs *status)
{
    struct numbers numbers;
    uint64_t unit = (uint64_t)(status->f_frsize ? status->f_frsize : status->f_bsize);
    if (unit == 0 || !read_numbers(&numbers) || numbers.disk_bytes == 0)
        return;
    uint64_t free = below(numbers.disk_bytes / unit, (numbers.used_bytes + unit - 1) / unit);
    status->f_blocks = numbers.disk_bytes / unit;
    status->f_bfree = free;
    /* The host may have less left than the limit promises. */
    if (status->f_bavail > free)
        status->f_bavail = free;
    status->f_files = numbers.files;
    status->f_ffree = below(numbers.files, numbers.used_files);
}

static long show_statfs(long number, long file, struct statfs *status)
{
    long result = call_kernel(number, file, (long)status, 0, 0, 0, 0);
    if (result == 0 && status->f_type == OVERLAY_MAGIC)
        show_disk(status);
    return result;
}

static long show_statvfs(long number, long file, struct statvfs *shown)
{
    struct statfs status;
    long result = show_statfs(number, file, &status);
    if (result != 0)
        return result;
    char *bytes = (char *)shown;
    for (size_t i = 0; i < sizeof *shown; i++)
        bytes[i] = 0;
    shown->f_bsize = (unsigned long)status.f_bsize;
    shown->f_frsize = (unsigned long)(status.f_frsize ? status.f_frsize : status.f_bsize);
    shown->f_blocks = status.f_blocks;
    shown->f_bfree = status.f_bfree;
    shown->f_bavail = status.f_bavail;
    shown->f_files = status.f_files;
    shown->f_ffree = shown->f_favail = status.f_ffree;
    shown->f_fsid = (unsigned long)(uint32_t)status.f_fsid.__val[0] | (unsigned long)(uint32_t)status.f_fsid.__val[1] << 32;
    shown->f_flag = (unsigned long)status.f_flags & ~(unsigned long)STATFS_FLAGS_ARE_VALID;
    shown->f_namemax = (unsigned long)status.f_namelen;
    /* Behind it, newer versions of glibc and musl have the type, and older ones a spare field. */
    *(unsigned int *)(&shown->f_namemax + 1) = (unsigned int)status.f_type;
    return 0;
}

int is_limits(long number)
{
    return number == SYS_sched_getaffinity || number == SYS_sysinfo || number == SYS_statfs || number == SYS_fstatfs;
}

long limits_by_number(long number, long a, long b, long c)
{
    if (number == SYS_sched_getaffinity)
        return show_affinity(a, b, (unsigned char *)c);
    return number == SYS_sysinfo ? show_sysinfo((struct sysinfo *)a) : show_statfs(number, a, (struct statfs *)b);
}

EXPORT int statfs(const char *path, struct statfs *status)
{
    return (int)to_libc(show_statfs(SYS_statfs, (long)path, status));
}

EXPORT int fstatfs(int fd, struct statfs *status)
{
    return (int)to_libc(show_statfs(SYS_fstatfs, fd, status));
}

EXPORT int statvfs(const char *path, struct statvfs *status)
{
    return (int)to_libc(show_statvfs(SYS_statfs, (long)path, status));
}

EXPORT int fstatvfs(int fd, struct statvfs *status)
{
    return (int)to_libc(show_statvfs(SYS_fstatfs, fd, status));
}

EXPORT int sysinfo(struct sysinfo *info)
{
    return (int)to_libc(show_sysinfo(info));
}

/* libc clears what the kernel leaves of the mask, and returns 0. */
static long affinity_of(long pid, size_t bytes, unsigned char *mask)
{
    long result = show_affinity(pid, (long)bytes, mask);
    if (is_error(result))
        return result;
    for (size_t i = (size_t)result; i < bytes; i++)
        mask[i] = 0;
    return 0;
}

EXPORT int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *mask)
{
    return (int)to_libc(affinity_of(pid, bytes, (unsigned char *)mask));
}

/* Weak, like the guard's other references to libc. __sysconf is glibc's second name for sysconf; musl has none. */
extern void *dlsym(void *handle, const char *name) __attribute__((weak));
extern long __sysconf(int name) __attribute__((weak));
#define NEXT_LIBRARY ((void *)-1L)

/* Only libc knows the thread id behind another thread's handle. A thread's own handle is its thread pointer. */
EXPORT int guard_thread_affinity(unsigned long thread, size_t bytes, unsigned char *mask) __asm__("pthread_getaffinity_np");
EXPORT int guard_thread_affinity(unsigned long thread, size_t bytes, unsigned char *mask)
{
    if (thread == (unsigned long)__builtin_thread_pointer())
        return (int)-affinity_of(0, bytes, mask);
    int (*next)(unsigned long, size_t, unsigned char *) =
        dlsym ? (int (*)(unsigned long, size_t, unsigned char *))dlsym(NEXT_LIBRARY, "pthread_getaffinity_np") : NULL;
    if (!next)
        return ENOSYS;
    int error = next(thread, bytes, mask);
    if (error == 0)
        keep_cpus(mask, (long)bytes);
    return error;
}

static long next_sysconf(int name)
{
    /* Allocators ask while they start, when dlsym must not allocate: the direct way comes first. */
    if (__sysconf)
        return __sysconf(name);
    long (*next)(int) = dlsym ? (long (*)(int))dlsym(NEXT_LIBRARY, "sysconf") : NULL;
    return next ? next(name) : to_libc(-EINVAL);
}

EXPORT long sysconf(int name)
{
    struct numbers numbers;
    int is_shown = name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF || name == _SC_PHYS_PAGES ||
                   name == _SC_AVPHYS_PAGES;
    if (LIKELY(!is_shown) || !read_numbers(&numbers))
        return next_sysconf(name);
    if (name == _SC_PHYS_PAGES)
        return to_pages(numbers.memory_bytes);
    return name == _SC_AVPHYS_PAGES ? to_pages(numbers.free_bytes) : (long)numbers.cpus;
}

EXPORT int get_nprocs(void)
{
    return (int)count_cpus();
}

EXPORT int get_nprocs_conf(void)
{
    return (int)sysconf(_SC_NPROCESSORS_CONF);
}

EXPORT long get_phys_pages(void)
{
    return sysconf(_SC_PHYS_PAGES);
}

EXPORT long get_avphys_pages(void)
{
    return sysconf(_SC_AVPHYS_PAGES);
}

/* On x86-64 these structs are the same in the kernel, glibc and musl, and so are the 64-bit variants. */
#define ALSO_NAMED(function, name) \
    extern EXPORT __typeof__(function) function##_64 __asm__(name) __attribute__((alias(#function), copy(function)))
ALSO_NAMED(statfs, "statfs64");
ALSO_NAMED(fstatfs, "fstatfs64");
ALSO_NAMED(statvfs, "statvfs64");
ALSO_NAMED(fstatvfs, "fstatvfs64");
