/*
 * Preloaded into QEMU. QEMU believes that the guest's memory is a shared file, so a snapshot of its devices leaves
 * memory out. In truth the memory is private: zero, with the memory files of a snapshot mapped over it. The first write
 * to a page copies it, and /proc/PID/pagemap tells which pages were written.
 *
 * QEMU may be started before it is known which snapshot it will continue. The memory files are mapped when it begins to
 * listen for the state of a snapshot, which is the last moment before it needs them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory-map.h"

#define EXPORT __attribute__((visibility("default")))

static void *real_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

static void give_up(const char *what)
{
    fprintf(stderr, "dormouse: the memory of the guest: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static bool is_memory(int fd)
{
    const char *path = getenv("DORMOUSE_VM_MEMORY");
    struct stat memory, this;
    return path && fstat(fd, &this) == 0 && stat(path, &memory) == 0 && this.st_ino == memory.st_ino &&
           this.st_dev == memory.st_dev;
}

static struct {
    char *base;
    size_t length;
    int protection;
} guest;

static void map_files(const char *path)
{
    char *base = guest.base;
    size_t length = guest.length;
    int protection = guest.protection;
    struct memory_map map;
    if (read_memory_map(path, &map) == -1)
        give_up(path);
    static int files[MAP_FILES_MAX + 1];
    for (size_t i = 0; i < map.file_count; i++)
        if ((files[i + 1] = open(map.files[i], O_RDONLY | O_CLOEXEC)) == -1)
            give_up(map.files[i]);
    for (size_t i = 0; i < map.extent_count; i++) {
        struct extent *extent = &map.extents[i];
        if (extent->file == 0)
            continue;
        if (extent->offset + extent->length > length)
            errno = EINVAL, give_up(path);
        void *mapped = real_mmap(base + extent->offset, extent->length, protection,
                                 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, files[extent->file], (off_t)extent->offset);
        if (mapped == MAP_FAILED)
            give_up(map.files[extent->file - 1]);
    }
    for (size_t i = 1; i <= map.file_count; i++)
        close(files[i]);
    for (size_t i = 0; i < map.file_count; i++)
        free(map.files[i]);
    free(map.extents);
}

EXPORT void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (fd < 0 || !(flags & MAP_SHARED) || !is_memory(fd))
        return real_mmap(address, length, protection, flags, fd, offset);
    int own = (flags & ~(MAP_SHARED | MAP_SHARED_VALIDATE)) | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *base = real_mmap(address, length, protection, own, -1, 0);
    if (base != MAP_FAILED) {
        guest.base = base;
        guest.length = length;
        guest.protection = protection;
    }
    return base;
}

EXPORT void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
    __attribute__((alias("mmap")));

/* QEMU listens for its control socket and the guest's link when it starts, and for a saved state when it is told to. */
EXPORT int listen(int fd, int backlog)
{
    const char *path = getenv("DORMOUSE_VM_MAP");
    if (guest.base && path && access(path, F_OK) == 0) {
        map_files(path);
        guest.base = NULL;
    }
    return (int)syscall(SYS_listen, fd, backlog);
}
