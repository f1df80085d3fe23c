/*
 * madvise that discards, on memory that may be mapped from a memory file. There MADV_DONTNEED brings back the file's
 * bytes and MADV_FREE is refused; here the pages are replaced by fresh anonymous ones, as if they had been anonymous
 * all the time.
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
#define MADV_GUARD_INSTALL 102 /* Linux 6.13. It discards: what comes back after MADV_GUARD_REMOVE is zeros. */
#endif

/*
 * What was discarded once is anonymous from then on. Up to this size it is cheaper to try MADV_FREE, which says so,
 * than to look.
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
 * MADV_COLD changes no byte, and since Linux 5.4 it is refused on locked mappings: the lock is nowhere to be read
 * cheaply.
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
 * MAP_FIXED swaps the pages in one step: other threads see old bytes or zeros, never the file's. MAP_NORESERVE because
 * heuristic overcommit would refuse a large range otherwise, and a discard of anonymous memory cannot fail for want of
 * reserve.
 */
long map_anonymous(const struct memory_mapping *piece, int locked)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE | (locked ? MAP_LOCKED : 0);
    long result = kernel_mmap(piece->start, piece->end - piece->start, piece->protection, flags);
    return is_error(result) ? result : 0;
}

/*
 * A refused swap (too many mappings, a sealed one) changes nothing; zeros keep the promise then, and only save no
 * memory.
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
        /* First as it is, to hear whether this kernel knows it at all; the swap takes the markers away again. */
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
        locked = 0; /* It was the MADV_COLD that an older kernel does not know. */
    }
    return replace_or_zero(piece, locked);
}

/*
 * No file descriptor left, or no /proc: nobody can say what is mapped where the table points. MADV_DONTNEED as it is
 * would bring stale bytes back as if they were zeros; writing zeros could destroy a file that is mapped there by now.
 * So the call fails and changes nothing, with ENOMEM: allocators retry EAGAIN for ever, and keep track of dirty pages
 * after any other error. All that is anonymous needs no look: MADV_FREE takes nothing else, and it takes only what is
 * about to be discarded.
 */
static long discard_blindly(uintptr_t start, uintptr_t length, int advice)
{
    if (!is_in_table(start, start + length))
        return kernel_madvise(start, length, advice);
    if (advice == MADV_FREE)
        return -EINVAL; /* What the kernel said; every user of MADV_FREE knows it from older kernels. */
    if (advice == MADV_GUARD_INSTALL)
        return -ENOMEM;
    long anonymous = kernel_madvise(start, length, MADV_FREE);
    return anonymous == 0 || anonymous == -ENOMEM ? kernel_madvise(start, length, advice) : -ENOMEM;
}

/*
 * Splits the range as the kernel's own walk does: it goes on behind holes and says -ENOMEM at the end, and stops at any
 * other error with the part in front done.
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
 * Asking the kernel costs a few microseconds, so the table decides who asks: nothing restored lies outside its ranges,
 * unless mremap has moved or grown it. One that was seen makes every later discard ask. Not seen is the mremap inside
 * libc's realloc: a program that discards pages of a malloc block itself, after realloc has moved the block out of
 * restored memory, gets old bytes.
 */
long advise_restored(uintptr_t start, uintptr_t length, int advice)
{
    if (advice != MADV_DONTNEED && advice != MADV_FREE && advice != MADV_DONTNEED_LOCKED && advice != MADV_GUARD_INSTALL)
        return kernel_madvise(start, length, advice);
    uintptr_t rounded = page_up(length);
    if (start % PAGE_BYTES || rounded < length || rounded == 0 || start + rounded < start)
        return kernel_madvise(start, length, advice); /* The kernel knows what to say. */

    if (!restored_memory_moved && !is_in_table(start, start + rounded))
        return kernel_madvise(start, rounded, advice);
    if (advice == MADV_FREE || (advice == MADV_DONTNEED && rounded <= PROBE_BYTES)) {
        /*
         * Refused on anything but anonymous memory, so what succeeds needs no look. Doing the front part twice is
         * harmless.
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
