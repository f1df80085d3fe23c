/*
 * allocator: fills and frees blocks around a wake. Run it on jemalloc with immediate purging: that discards what was
 * freed and hands it out again as zeros, without clearing it a second time.
 */
#include "restored.h"

#define MIN_PAGES 64
#define BLOCKS 64
#define BLOCK_BYTES (256UL << 10)
#define MAX_RANGES 512

static struct range { uintptr_t start, end; } ranges[MAX_RANGES];
static size_t range_count;

/* Parses one line of /proc/self/maps: private anonymous writable memory, large enough, no stack. */
static void note_range(char *line)
{
    char permissions[5], name[128] = "";
    unsigned long start, end, inode;
    MUST(sscanf(line, "%lx-%lx %4s %*s %*s %lu %127s", &start, &end, permissions, &inode, name) >= 4);
    if (strcmp(permissions, "rw-p") != 0 || inode != 0 || (name[0] != 0 && strcmp(name, "[heap]") != 0))
        return;
    if (end - start < MIN_PAGES * PAGE)
        return;
    MUST(range_count < MAX_RANGES);
    ranges[range_count++] = (struct range){start, end};
}

static void list_ranges(void)
{
    static char text[65536];
    size_t length = 0;
    ssize_t count;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    MUST(maps >= 0);
    while ((count = read(maps, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)count;
    MUST(count == 0 && length < sizeof text - 1);
    close(maps);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        note_range(line);
}

/*
 * As the engine does it: each range with its bytes at an offset of its own and a hole behind. Nothing here may
 * allocate.
 */
static void fall_asleep_and_wake(void)
{
    const char *path = "/.dormouse/memory/allocator";
    int writer = open(path, O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0444), reader = open(path, O_RDONLY | O_CLOEXEC);
    MUST(writer >= 0 && reader >= 0);
    off_t offset = 0;
    for (size_t i = 0; i < range_count; i++) {
        size_t bytes = ranges[i].end - ranges[i].start;
        void *start = (void *)ranges[i].start;
        MUST(pwrite(writer, start, bytes, offset) == (ssize_t)bytes);
        MUST(ftruncate(writer, offset + (off_t)(2 * bytes)) == 0);
        MUST(mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, reader, offset) == start);
        offset += (off_t)(2 * bytes);
    }
    for (size_t i = 0; i < range_count; i++)
        tell_guard((void *)ranges[i].start, ranges[i].end - ranges[i].start);
    close(writer);
    close(reader);
}

int main(void)
{
    static unsigned char *blocks[BLOCKS], *kept[BLOCKS];
    MUST(dlsym(RTLD_DEFAULT, "mallctl")); /* it is jemalloc */
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        kept[i] = malloc(BLOCK_BYTES / 3);
        MUST(blocks[i] && kept[i]);
        memset(blocks[i], 0xaa, BLOCK_BYTES);
        memset(kept[i], (int)i, BLOCK_BYTES / 3);
    }
    list_ranges();
    MUST(range_count > 0);
    fall_asleep_and_wake();

    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = calloc(1, BLOCK_BYTES);
            CHECK(blocks[i] && all(blocks[i], BLOCK_BYTES, 0));
            memset(blocks[i], 0xbb, BLOCK_BYTES);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(all(kept[i], BLOCK_BYTES / 3, (unsigned char)i));
    return 0;
}
