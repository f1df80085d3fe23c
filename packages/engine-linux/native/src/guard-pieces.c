/*
 * mremap of memory that is one mapping to the program but several to the kernel, which fails with EFAULT. Memory gets
 * into this state when it is restored and then discarded in parts, or restored again after that. It grows in place when
 * there is room after it. Otherwise each piece moves on its own, without a copy.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "guard.h"
#include "guard-syscalls.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Returns the protection of the range; negative when it was not one mapping before the sleep either. */
static int protection_of(int maps, uintptr_t start, uintptr_t end)
{
    struct memory_mapping piece;
    int protection = -1;
    for (uintptr_t at = start; at < end; at = piece.end) {
        if (find_any_mapping(maps, at, end, &piece) != FOUND || piece.start != at || piece.shared)
            return -1;
        if (piece.path[0] == '/' && !is_memory_file(piece.path))
            return -1;
        if (at != start && piece.protection != protection)
            return -1;
        protection = piece.protection;
    }
    return protection;
}

/*
 * Keeps the old and the new range mapped until the move cannot fail any more, so that no other thread can take either.
 * Returns where it stopped.
 */
static uintptr_t move_pieces(int maps, uintptr_t start, uintptr_t end, uintptr_t target)
{
    struct memory_mapping piece;
    for (uintptr_t at = start; at < end; at = piece.end) {
        if (find_any_mapping(maps, at, end, &piece) != FOUND || piece.start != at)
            return at;
        uintptr_t bytes = piece.end - at;
        int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
        if (is_error(call_kernel(SYS_mremap, (long)at, (long)bytes, (long)bytes, flags, (long)(target + (at - start)), 0)))
            return at;
    }
    return end;
}

/* The old range still has the same pieces. */
static void move_back(int maps, uintptr_t start, uintptr_t end, uintptr_t target)
{
    struct memory_mapping piece;
    for (uintptr_t at = start; at < end; at = piece.end) {
        if (find_any_mapping(maps, at, end, &piece) != FOUND)
            return;
        uintptr_t bytes = piece.end - at;
        int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
        call_kernel(SYS_mremap, (long)(target + (at - start)), (long)bytes, (long)bytes, flags, (long)at, 0);
    }
}

static long move(int maps, struct remap wanted, int protection, int map_flags)
{
    uintptr_t old_bytes = page_up(wanted.old_length), new_bytes = page_up(wanted.new_length);
    uintptr_t kept_end = wanted.old + (old_bytes < new_bytes ? old_bytes : new_bytes);
    int is_fixed = (wanted.flags & MREMAP_FIXED) != 0;
    long target = kernel_mmap(is_fixed ? wanted.fixed : 0, new_bytes, protection, map_flags | (is_fixed ? MAP_FIXED : 0));
    if (is_error(target))
        return target;
    uintptr_t stopped = move_pieces(maps, wanted.old, kept_end, (uintptr_t)target);
    if (stopped != kept_end) {
        move_back(maps, wanted.old, stopped, (uintptr_t)target);
        kernel_munmap((uintptr_t)target, new_bytes);
        return -ENOMEM;
    }
    if (!(wanted.flags & MREMAP_DONTUNMAP))
        kernel_munmap(wanted.old, old_bytes);
    return target;
}

/*
 * Pre: the kernel accepted flags, alignment and overlaps, and returned EFAULT. New memory is anonymous, so it reads as
 * zeros.
 */
long remap_pieces(struct remap wanted)
{
    uintptr_t old_bytes = page_up(wanted.old_length), new_bytes = page_up(wanted.new_length);
    uintptr_t old_end = wanted.old + old_bytes;
    int maps = open_maps();
    if (maps < 0)
        return -EFAULT;
    long result = -EFAULT;
    int protection = protection_of(maps, wanted.old, wanted.old + (old_bytes < new_bytes ? old_bytes : new_bytes));
    if (protection >= 0) {
        int map_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (is_locked(wanted.old) ? MAP_LOCKED : 0);
        result = -ENOMEM;
        if (!(wanted.flags & MREMAP_FIXED) && new_bytes > old_bytes &&
            kernel_mmap(old_end, new_bytes - old_bytes, protection, map_flags | MAP_FIXED_NOREPLACE) == (long)old_end)
            result = (long)wanted.old;
        else if (wanted.flags & MREMAP_MAYMOVE)
            result = move(maps, wanted, protection, map_flags);
    }
    kernel_close(maps);
    return result;
}
