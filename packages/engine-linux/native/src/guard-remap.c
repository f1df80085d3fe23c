/*
 * mremap on memory that is mapped from a memory file. Growth shows the bytes that follow in the file. After the end
 * that the mapping had when the sandbox fell asleep there is a hole, which reads as zeros. But after a shrink, or past
 * the end of the hole, there are old bytes.
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

/*
 * Set once, never cleared, read without a lock: a thread that moves or grows memory must tell other threads the new
 * address anyway, which orders the two.
 */
int restored_memory_moved;

/*
 * Writes zeros where the file has data, and only there: touching a hole fills page cache. Returns 0 when everything
 * reads as zeros.
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
    return is_error(data) && data != -ENXIO ? -1 : 0; /* -ENXIO: only a hole up to the end of the file. */
}

static void clear_growth(uintptr_t start, uintptr_t end)
{
    struct memory_mapping grown;
    int maps = open_maps();
    if (maps < 0)
        return; /* Almost always a hole. Without /proc the guard cannot check, and mremap itself has succeeded. */
    enum search search = find_memory_mapping(maps, start, end, &grown);
    kernel_close(maps);
    /* Zeros keep it a single mapping, which later mremap calls need. Only memory that cannot be written is replaced. */
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
    /*
     * The old range stays mapped and must be empty. Anonymous memory reads as zeros then, but a file mapping shows the
     * file.
     */
    if (wanted.flags & MREMAP_DONTUNMAP)
        advise_restored(wanted.old, wanted.old_length, MADV_DONTNEED);
    return moved;
}
