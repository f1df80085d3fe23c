/*
 * madvise calls that discard pages, on memory that may be mapped from a memory file. There MADV_DONTNEED would bring
 * back the file's bytes, and the kernel refuses MADV_FREE. The guard replaces the pages by new anonymous ones, so the
 * program sees what it would see on anonymous memory.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "guard.h"
#include "guard-syscalls.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13. It discards: after MADV_GUARD_REMOVE the pages read as zeros. */
#endif

/*
 * Memory that was discarded once is anonymous from then on. Up to this size it is cheaper to try MADV_FREE, which fails
 * on a file mapping, than to read the maps.
 */
#define PROBE_BYTES (16 * PAGE_BYTES)

static int is_in_table(uintptr_t start, uintptr_t end)
{
    const struct guard_table *table = &dormouse_guard_table;
    uint32_t low = 0, high = table->count < GUARD_RANGES ? table->count : GUARD_RANGES;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (table->ranges[middle].end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->count && low < GUARD_RANGES && table->ranges[low].start < end;
}

/*
 * There is no cheap way to read whether a mapping is locked. MADV_COLD changes no byte, and since Linux 5.4 the kernel
 * refuses it on locked mappings.
 */
int is_locked(uintptr_t page)
{
    return kernel_madvise(page, PAGE_BYTES, MADV_COLD) == -EINVAL;
}

void zero_by_hand(uintptr_t start, uintptr_t end)
{
    uintptr_t words = (end - start) / 8;
    __asm__ volatile("rep stosq" : "+D"(start), "+c"(words) : "a"(0L) : "memory");
}

/*
 * MAP_FIXED swaps the pages in one step: other threads see old bytes or zeros, never the file's bytes. MAP_NORESERVE:
 * heuristic overcommit would refuse a large range otherwise, and discarding anonymous memory never fails for lack of
 * memory.
 */
long map_anonymous(const struct memory_mapping *piece, int locked)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE | (locked ? MAP_LOCKED : 0);
    long result = kernel_mmap(piece->start, piece->end - piece->start, piece->protection, flags);
    return is_error(result) ? result : 0;
}

/*
 * A refused swap (too many mappings, a sealed one) changes nothing. Then writing zeros gives the program the bytes it
 * expects, but frees no memory.
 */
static long replace_or_zero(const struct memory_mapping *piece, int locked)
{
    long result = map_anonymous(piece, locked);
    if (result == 0 || !(piece->protection & PROT_WRITE))
        return result;
    zero_by_hand(piece->start, piece->end);
    return 0;
}

static long discard_mapped(const struct memory_mapping *piece, int advice)
{
    uintptr_t length = piece->end - piece->start;
    int locked = is_locked(piece->start);
    if (advice == MADV_GUARD_INSTALL) {
        /* First try the advice alone, to learn whether this kernel knows it. The swap removes the markers again. */
        long known = kernel_madvise(piece->start, length, advice);
        if (known != 0)
            return known;
        long swapped = map_anonymous(piece, locked);
        return swapped != 0 ? swapped : kernel_madvise(piece->start, length, advice);
    }
    if (locked && advice != MADV_DONTNEED_LOCKED) {
        long refused = kernel_madvise(piece->start, length, advice);
        if (refused != 0)
            return refused;
        locked = 0; /* Not locked: an older kernel does not know MADV_COLD. */
    }
    return replace_or_zero(piece, locked);
}

/*
 * For when no file descriptor is left, or there is no /proc: the guard cannot see what is mapped in the ranges of the
 * table. MADV_DONTNEED alone could bring back stale bytes where the program expects zeros. Writing zeros could destroy
 * a file that is mapped there by now. So the call fails with ENOMEM and changes nothing: allocators retry EAGAIN for
 * ever, and after any other error they remember that the pages are dirty. Memory that is all anonymous is safe:
 * MADV_FREE succeeds only there, and it affects only pages that are about to be discarded.
 */
static long discard_blindly(uintptr_t start, uintptr_t length, int advice)
{
    if (!is_in_table(start, start + length))
        return kernel_madvise(start, length, advice);
    if (advice == MADV_FREE)
        return -EINVAL; /* The kernel's own error; every user of MADV_FREE expects it from older kernels. */
    if (advice == MADV_GUARD_INSTALL)
        return -ENOMEM;
    long anonymous = kernel_madvise(start, length, MADV_FREE);
    return anonymous == 0 || anonymous == -ENOMEM ? kernel_madvise(start, length, advice) : -ENOMEM;
}

/*
 * Splits the range as the kernel does: it continues after holes and returns -ENOMEM at the end, and stops at any other
 * error with the part before it done.
 */
static long discard(int maps, uintptr_t start, uintptr_t end, int advice)
{
    struct memory_mapping piece;
    long holes = 0;
    while (start < end) {
        enum search search = find_memory_mapping(maps, start, end, &piece);
        if (search == BLIND)
            return discard_blindly(start, end - start, advice);
        uintptr_t others_end = search == FOUND ? piece.start : end;
        if (others_end > start) {
            long result = kernel_madvise(start, others_end - start, advice);
            if (result == -ENOMEM)
                holes = result;
            else if (result != 0)
                return result;
        }
        if (search == NONE)
            break;
        long result = discard_mapped(&piece, advice);
        if (result != 0)
            return result;
        start = piece.end;
    }
    return holes;
}

/*
 * Reading the maps takes a few microseconds, so the table decides when to do it: restored memory lies only inside its
 * ranges, unless mremap has moved or grown it. After one such mremap every discard reads the maps. The guard cannot see
 * mremap calls inside libc's realloc: if realloc moves a block out of restored memory and the program then discards
 * pages of that block itself, it reads old bytes.
 */
long advise_restored(uintptr_t start, uintptr_t length, int advice)
{
    if (advice != MADV_DONTNEED && advice != MADV_FREE && advice != MADV_DONTNEED_LOCKED && advice != MADV_GUARD_INSTALL)
        return kernel_madvise(start, length, advice);
    uintptr_t rounded = page_up(length);
    if (start % PAGE_BYTES || rounded < length || rounded == 0 || start + rounded < start)
        return kernel_madvise(start, length, advice); /* Invalid: the kernel returns the right error. */

    if (!restored_memory_moved && !is_in_table(start, start + rounded))
        return kernel_madvise(start, rounded, advice);
    if (advice == MADV_FREE || (advice == MADV_DONTNEED && rounded <= PROBE_BYTES)) {
        /*
         * The kernel refuses it on anything but anonymous memory, so success needs no look at the maps. Discarding the
         * first part twice is harmless.
         */
        long anonymous = kernel_madvise(start, rounded, MADV_FREE);
        if (advice == MADV_FREE && anonymous != -EINVAL)
            return anonymous;
        if (anonymous == 0 || anonymous == -ENOMEM)
            return kernel_madvise(start, rounded, advice);
    }
    int maps = open_maps();
    if (maps < 0)
        return discard_blindly(start, rounded, advice);
    long result = discard(maps, start, start + rounded, advice);
    kernel_close(maps);
    return result;
}
