/*
 * Finds which parts of a range are currently mapped from memory files. No allocation, no lock, little stack: callers
 * may hold an allocator's locks or run in a signal handler.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "guard.h"
#include "guard-syscalls.h"

/* linux/fs.h since 6.11. */
struct procmap_query {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};
#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)
#define VMA_READABLE 0x01
#define VMA_WRITABLE 0x02
#define VMA_EXECUTABLE 0x04
#define VMA_SHARED 0x08
#define COVERING_OR_NEXT_VMA 0x10
#define FILE_BACKED_VMA 0x20

struct mapping {
    uintptr_t start, end;
    uint64_t file_offset;
    int protection, shared;
};

int is_memory_file(const char *path)
{
    const char *directory = MEMORY_DIRECTORY;
    while (*directory && *directory == *path)
        directory++, path++;
    return *directory == 0;
}

static enum search cut_to_range(const struct mapping *mapping, uintptr_t start, uintptr_t end, struct memory_mapping *found)
{
    found->start = mapping->start > start ? mapping->start : start;
    found->end = mapping->end < end ? mapping->end : end;
    found->file_offset = mapping->file_offset + (found->start - mapping->start);
    found->protection = mapping->protection;
    found->shared = mapping->shared;
    return FOUND;
}

/* thread-self, not self: `self` is the main thread, which may have ended before the others. */
int open_maps(void)
{
    return (int)kernel_open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
}

/* Asks for the mapping at or after an address. -ENOENT: there is none. -ENOTTY: the kernel is older than Linux 6.11. */
static long query(int maps, uintptr_t address, uint64_t kind, struct procmap_query *answer, struct memory_mapping *found)
{
    char *path = found->path;
    *answer = (struct procmap_query){
        .size = sizeof *answer,
        .query_flags = COVERING_OR_NEXT_VMA | kind,
        .query_addr = address,
        .vma_name_addr = (uint64_t)path,
        .vma_name_size = sizeof found->path,
    };
    path[0] = 0;
    long result = call_kernel(SYS_ioctl, maps, (long)PROCMAP_QUERY, (long)answer, 0, 0, 0);
    if (result != -ENAMETOOLONG)
        return result;
    /* The path is longer than that of any memory file, so it is another file. */
    answer->vma_name_addr = 0;
    answer->vma_name_size = 0;
    path[0] = '/';
    path[1] = 0;
    return call_kernel(SYS_ioctl, maps, (long)PROCMAP_QUERY, (long)answer, 0, 0, 0);
}

enum kind { ANY, MEMORY_FILE };

static enum search find_by_query(int maps, uintptr_t start, uintptr_t end, enum kind kind, struct memory_mapping *found)
{
    struct procmap_query answer;
    for (uintptr_t address = start; address < end; address = answer.vma_end) {
        long result = query(maps, address, kind == ANY ? 0 : FILE_BACKED_VMA, &answer, found);
        if (result == -ENOENT)
            return NONE;
        if (result != 0)
            return BLIND;
        if (answer.vma_start >= end)
            return NONE;
        if (kind == MEMORY_FILE && (answer.vma_flags & VMA_SHARED || !is_memory_file(found->path)))
            continue;
        struct mapping mapping = {
            .start = answer.vma_start,
            .end = answer.vma_end,
            .file_offset = answer.vma_offset,
            .protection = (answer.vma_flags & VMA_READABLE ? PROT_READ : 0) |
                          (answer.vma_flags & VMA_WRITABLE ? PROT_WRITE : 0) |
                          (answer.vma_flags & VMA_EXECUTABLE ? PROT_EXEC : 0),
            .shared = (answer.vma_flags & VMA_SHARED) != 0,
        };
        return cut_to_range(&mapping, start, end, found);
    }
    return NONE;
}

struct reader {
    int fd;
    unsigned at, filled;
    char bytes[512];
};

/* Returns the next byte of the text, 0 at its end, negative on an error. */
static int next_byte(struct reader *text)
{
    if (text->at == text->filled) {
        long count = call_kernel(SYS_read, text->fd, (long)text->bytes, sizeof text->bytes, 0, 0, 0);
        if (count <= 0)
            return (int)count;
        text->at = 0;
        text->filled = (unsigned)count;
    }
    return (unsigned char)text->bytes[text->at++];
}

/* Reads a hexadecimal number and the byte after it. */
static uint64_t next_number(struct reader *text)
{
    uint64_t value = 0;
    for (;;) {
        int byte = next_byte(text);
        if (byte >= '0' && byte <= '9')
            value = value << 4 | (uint64_t)(byte - '0');
        else if (byte >= 'a' && byte <= 'f')
            value = value << 4 | (uint64_t)(byte - 'a' + 10);
        else
            return value;
    }
}

/*
 * Parses `7f00-7f01 rw-p 0000 fe:01 12   /path`. Returns 1 for a line, 0 at the end, negative on an error. A path that
 * does not fit into its buffer is cut off.
 */
static int next_line(struct reader *text, struct mapping *mapping, char *path, unsigned path_bytes)
{
    int byte = next_byte(text);
    if (byte <= 0)
        return byte;
    text->at--;
    mapping->start = next_number(text);
    mapping->end = next_number(text);
    mapping->protection = (next_byte(text) == 'r' ? PROT_READ : 0) | (next_byte(text) == 'w' ? PROT_WRITE : 0) |
                          (next_byte(text) == 'x' ? PROT_EXEC : 0);
    mapping->shared = next_byte(text) != 'p';
    next_byte(text);
    mapping->file_offset = next_number(text);

    unsigned length = 0;
    int in_path = 0;
    while ((byte = next_byte(text)) > 0 && byte != '\n') {
        in_path |= byte == '/';
        if (in_path && length < path_bytes - 1)
            path[length++] = (char)byte;
    }
    path[length] = 0;
    return byte < 0 ? byte : 1;
}

/* The text is sorted by address, and read(2) returns whole lines. */
static enum search find_by_text(int maps, uintptr_t start, uintptr_t end, enum kind kind, struct memory_mapping *found)
{
    struct reader text = {.fd = maps, .at = 0, .filled = 0};
    struct mapping mapping;
    int line;
    if (call_kernel(SYS_lseek, maps, 0, 0 /* SEEK_SET */, 0, 0, 0) != 0)
        return BLIND;
    while ((line = next_line(&text, &mapping, found->path, sizeof found->path)) > 0) {
        if (mapping.start >= end)
            return NONE;
        if (mapping.end > start && (kind == ANY || (!mapping.shared && is_memory_file(found->path))))
            return cut_to_range(&mapping, start, end, found);
    }
    return line == 0 ? NONE : BLIND;
}

static enum search find(int maps, uintptr_t start, uintptr_t end, enum kind kind, struct memory_mapping *found)
{
    enum search result = find_by_query(maps, start, end, kind, found);
    return result == BLIND ? find_by_text(maps, start, end, kind, found) : result;
}

enum search find_memory_mapping(int maps, uintptr_t start, uintptr_t end, struct memory_mapping *found)
{
    return find(maps, start, end, MEMORY_FILE, found);
}

enum search find_any_mapping(int maps, uintptr_t start, uintptr_t end, struct memory_mapping *found)
{
    return find(maps, start, end, ANY, found);
}
