/*
 * mremap on memory that is mapped from a memory file. Growth shows what follows in the file. That is a hole, thus
 * zeros, behind the end the mapping had when the sandbox fell asleep; but old bytes after a shrink (or past a hole that
 * was too small).
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guard.h"
#include "guard-syscalls.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* Set once, never cleared, read without a lock: whoever grew or moved memory also tells other threads where it is. */
int restored_memory_moved;

/*
 * Writes zeros over what the file has there, and only there: touching a hole costs page cache. 0 when all is zeros now.
 */
static int zero_file_bytes(const struct memory_mapping *grown)
{
    int file = (int)kernel_open(grown->path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    uint64_t offset = grown->file_offset, end = offset + (grown->end - grown->start);
    long data = 0;
    while (offset < end) {
        data = call_kernel(SYS_lseek, file, (long)offset, SEEK_DATA, 0, 0, 0);
        if (is_error(data) || (uint64_t)data >= end)
            break;
        long hole = call_kernel(SYS_lseek, file, data, SEEK_HOLE, 0, 0, 0);
        uint64_t data_end = is_error(hole) || (uint64_t)hole > end ? end : page_up((uint64_t)hole);
        uint64_t data_start = (uint64_t)data & ~(PAGE_BYTES - 1);
        zero_by_hand(grown->start + (data_start - grown->file_offset), grown->start + (data_end - grown->file_offset));
        offset = data_end;
    }
    kernel_close(file);
    return is_error(data) && data != -ENXIO ? -1 : 0; /* -ENXIO: nothing but a hole up to the end of the file. */
}

static void clear_growth(uintptr_t start, uintptr_t end)
{
    struct memory_mapping grown;
    int maps = open_maps();
    if (maps < 0)
        return; /* Almost always a hole; without /proc there is no way to tell, and mremap itself has succeeded. */
    enum search search = find_memory_mapping(maps, start, end, &grown);
    kernel_close(maps);
    /*
     * A whole mapping stays one mapping, because mremap refuses ranges over two; only what cannot be written is
     * swapped.
     */
    if (search == FOUND && !(grown.protection & PROT_WRITE && zero_file_bytes(&grown) == 0))
        map_anonymous(&grown, 0);
}

long remap_restored(struct remap wanted)
{
    uintptr_t old_bytes = page_up(wanted.old_length), new_bytes = page_up(wanted.new_length);
    long moved = call_kernel(SYS_mremap, (long)wanted.old, (long)wanted.old_length, (long)wanted.new_length, wanted.flags,
                             (long)wanted.fixed, 0);
    int in_pieces = moved == -EFAULT;
    if (in_pieces)
        moved = remap_pieces(wanted);
    if (is_error(moved))
        return moved;
    if ((uintptr_t)moved != wanted.old || new_bytes > old_bytes)
        restored_memory_moved = 1;
    if (new_bytes > old_bytes && !in_pieces)
        clear_growth((uintptr_t)moved + old_bytes, (uintptr_t)moved + new_bytes);
    /* The old place stays mapped and empty: zeros on anonymous memory, the file's bytes on this one. */
    if (wanted.flags & MREMAP_DONTUNMAP)
        advise_restored(wanted.old, wanted.old_length, MADV_DONTNEED);
    return moved;
}
