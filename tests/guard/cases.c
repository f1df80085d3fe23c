/*
 * cases NAME: one behaviour of discarded or grown memory. Exit code 0: as on anonymous memory; 1: not, and why; 2: no
 * verdict.
 */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "hide-procmap-query.h"
#include "restored.h"

#define OLD_BYTE 0x11
#define RW (PROT_READ | PROT_WRITE)

static void dontneed_reads_zeros(void)
{
    unsigned char *memory = restored(100);
    memset(memory, OLD_BYTE, 50 * PAGE);
    errno = 77;
    CHECK(madvise(memory, 100 * PAGE, MADV_DONTNEED) == 0);
    CHECK(errno == 77);
    CHECK(all(memory, 100 * PAGE, 0));
    memset(memory, 5, 100 * PAGE);
    CHECK(all(memory, 100 * PAGE, 5));
}

static void dontneed_by_number_reads_zeros(void)
{
    unsigned char *memory = restored(100);
    CHECK(syscall(SYS_madvise, memory, 100 * PAGE, MADV_DONTNEED) == 0);
    CHECK(all(memory, 100 * PAGE, 0));
    CHECK(syscall(SYS_madvise, memory + 1, PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_getpid) == getpid());
}

static void free_reads_no_file_byte(void)
{
    unsigned char *memory = restored(100);
    memset(memory, OLD_BYTE, 50 * PAGE);
    CHECK(madvise(memory, 100 * PAGE, MADV_FREE) == 0);
    for (size_t i = 0; i < 50 * PAGE; i++)
        CHECK(memory[i] == 0 || memory[i] == OLD_BYTE);
    for (size_t i = 50 * PAGE; i < 100 * PAGE; i++)
        CHECK(memory[i] == 0 || memory[i] == FILE_BYTE); /* never written since the wake: the file's bytes are its own */
    memset(memory, 7, 100 * PAGE);
    CHECK(all(memory, 100 * PAGE, 7));
}

static void part_of_a_range(void)
{
    unsigned char *memory = restored(100);
    memset(memory + 30 * PAGE, OLD_BYTE, 2 * PAGE);
    CHECK(madvise(memory + 31 * PAGE, 10 * PAGE - 100, MADV_DONTNEED) == 0); /* the length is rounded up */
    CHECK(all(memory + 31 * PAGE, 10 * PAGE, 0));
    CHECK(all(memory, 30 * PAGE, FILE_BYTE));
    CHECK(all(memory + 30 * PAGE, PAGE, OLD_BYTE));
    CHECK(all(memory + 41 * PAGE, 59 * PAGE, FILE_BYTE));
}

/* anonymous | restored | hole | restored | a file of the program's own | restored */
static void mixed_range(int advice)
{
    unsigned char *memory = mmap(NULL, 60 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(memory != MAP_FAILED);
    int file = memory_file("/.dormouse/memory/mixed", 60), own = memory_file("/tmp/guard-own-file", 10);
    map_at(memory + 10 * PAGE, 10, RW, file);
    map_at(memory + 30 * PAGE, 10, RW, file);
    map_at(memory + 40 * PAGE, 10, RW, own);
    map_at(memory + 50 * PAGE, 10, RW, file);
    tell_guard(memory + 10 * PAGE, 10 * PAGE);
    tell_guard(memory + 30 * PAGE, 30 * PAGE);
    memset(memory, OLD_BYTE, 60 * PAGE);
    MUST(munmap(memory + 20 * PAGE, 10 * PAGE) == 0);

    errno = 0;
    int result = madvise(memory, 60 * PAGE, advice);
    int error = errno;
    CHECK(all(memory + 10 * PAGE, 10 * PAGE, 0));
    CHECK(all(memory + 30 * PAGE, 10 * PAGE, 0));
    if (advice == MADV_FREE) {
        CHECK(result == -1 && error == EINVAL); /* the kernel stops at the file */
        CHECK(all(memory + 40 * PAGE, 20 * PAGE, OLD_BYTE));
        return;
    }
    CHECK(result == -1 && error == ENOMEM); /* the kernel goes on behind the hole and mentions it at the end */
    CHECK(all(memory, 10 * PAGE, 0));
    CHECK(all(memory + 40 * PAGE, 10 * PAGE, FILE_BYTE)); /* the program's own file comes back, as it does anywhere */
    CHECK(all(memory + 50 * PAGE, 10 * PAGE, 0));
}

static void mixed_range_dontneed(void) { mixed_range(MADV_DONTNEED); }
static void mixed_range_free(void) { mixed_range(MADV_FREE); }

static int protection_of(const void *address)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    MUST(maps);
    char line[512], r, w, x;
    uintptr_t start, end, wanted = (uintptr_t)address;
    while (fgets(line, sizeof line, maps)) {
        MUST(sscanf(line, "%lx-%lx %c%c%c", &start, &end, &r, &w, &x) == 5);
        if (start <= wanted && wanted < end) {
            fclose(maps);
            return (r == 'r' ? PROT_READ : 0) | (w == 'w' ? PROT_WRITE : 0) | (x == 'x' ? PROT_EXEC : 0);
        }
    }
    return -1;
}

static void protection_is_kept(void)
{
    unsigned char *memory = restored(40);
    MUST(mprotect(memory + 10 * PAGE, 10 * PAGE, PROT_READ) == 0);
    MUST(mprotect(memory + 20 * PAGE, 10 * PAGE, PROT_NONE) == 0);
    MUST(mprotect(memory + 30 * PAGE, 10 * PAGE, PROT_READ | PROT_EXEC) == 0);
    CHECK(madvise(memory, 40 * PAGE, MADV_DONTNEED) == 0);
    CHECK(protection_of(memory) == RW);
    CHECK(protection_of(memory + 10 * PAGE) == PROT_READ);
    CHECK(protection_of(memory + 20 * PAGE) == PROT_NONE);
    CHECK(protection_of(memory + 30 * PAGE) == (PROT_READ | PROT_EXEC));
    MUST(mprotect(memory, 40 * PAGE, RW) == 0);
    CHECK(all(memory, 40 * PAGE, 0));
}

/* Moved by the mremap inside libc's realloc, restored memory lies where no table points. */
static void moved_memory(void)
{
    unsigned char *memory = restored(100);
    unsigned char *place = mmap(NULL, 100 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(place != MAP_FAILED);
    MUST(mremap(memory, 100 * PAGE, 100 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
    CHECK(madvise(place, 100 * PAGE, MADV_DONTNEED) == 0);
    CHECK(all(place, 100 * PAGE, 0));
}

static void locked_memory(void)
{
    unsigned char *memory = restored(20);
    memset(memory, OLD_BYTE, 20 * PAGE);
    MUST(mlock(memory, 20 * PAGE) == 0);
    CHECK(madvise(memory, 20 * PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
    CHECK(madvise(memory, 20 * PAGE, MADV_FREE) == -1 && errno == EINVAL);
    CHECK(all(memory, 20 * PAGE, OLD_BYTE));
}

static void locked_memory_on_request(void)
{
    unsigned char *memory = restored(20);
    MUST(mlock(memory, 20 * PAGE) == 0);
    CHECK(madvise(memory, 20 * PAGE, 24 /* MADV_DONTNEED_LOCKED */) == 0);
    CHECK(all(memory, 20 * PAGE, 0));
    CHECK(madvise(memory, 20 * PAGE, MADV_DONTNEED) == -1 && errno == EINVAL); /* still locked */
}

static void guard_pages(void)
{
    unsigned char *memory = restored(20);
    CHECK(madvise(memory, 20 * PAGE, 102 /* MADV_GUARD_INSTALL */) == 0);
    int ends[2];
    MUST(pipe(ends) == 0);
    CHECK(write(ends[1], memory, 1) == -1 && errno == EFAULT);
    CHECK(madvise(memory, 20 * PAGE, 103 /* MADV_GUARD_REMOVE */) == 0);
    CHECK(all(memory, 20 * PAGE, 0));
}

/* What the table names was unmapped, and something else lives there: the table is only a hint. */
static void stale_table(void)
{
    unsigned char *memory = restored(30);
    MUST(munmap(memory, 30 * PAGE) == 0);
    int own = memory_file("/tmp/guard-own-file", 10), shared = open("/tmp/guard-shared-file", O_CREAT | O_RDWR | O_TRUNC, 0600);
    map_at(memory, 10, RW, own);
    MUST(shared >= 0 && ftruncate(shared, 10 * PAGE) == 0);
    MUST(mmap(memory + 10 * PAGE, 10 * PAGE, RW, MAP_SHARED | MAP_FIXED, shared, 0) == memory + 10 * PAGE);
    memset(memory, OLD_BYTE, 20 * PAGE);
    CHECK(madvise(memory, 20 * PAGE, MADV_DONTNEED) == 0);
    CHECK(all(memory, 10 * PAGE, FILE_BYTE));
    CHECK(all(memory + 10 * PAGE, 10 * PAGE, OLD_BYTE));
    CHECK(madvise(memory, PAGE, MADV_FREE) == -1 && errno == EINVAL);
    CHECK(madvise(memory + 20 * PAGE, PAGE, MADV_DONTNEED) == -1 && errno == ENOMEM);
    memory[10 * PAGE] = 0x22;
    unsigned char byte = 0;
    CHECK(pread(shared, &byte, 1, 0) == 1 && byte == 0x22); /* still the file, still shared */
}

static void bad_arguments(void)
{
    unsigned char *memory = restored(10);
    CHECK(madvise(memory + 1, PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
    CHECK(madvise(memory, SIZE_MAX, MADV_DONTNEED) == -1 && errno == EINVAL);
    CHECK(madvise(memory, 0, MADV_DONTNEED) == 0);
    CHECK(madvise(memory, PAGE, 12345) == -1 && errno == EINVAL);
    CHECK(madvise(memory, 10 * PAGE, MADV_NOHUGEPAGE) == 0);
    CHECK(madvise(memory, 10 * PAGE, MADV_WILLNEED) == 0);
    CHECK(all(memory, 10 * PAGE, FILE_BYTE));
}

/* Without a descriptor nothing can be verified: it fails and leaves the bytes, instead of bringing stale ones back. */
static void no_descriptor_left(void)
{
    unsigned char *memory = restored(20);
    MUST(mmap(memory + 10 * PAGE, 10 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    memset(memory, OLD_BYTE, 20 * PAGE);
    struct rlimit none = {3, 3};
    MUST(setrlimit(RLIMIT_NOFILE, &none) == 0 && dup(0) == -1);
    CHECK(madvise(memory, 10 * PAGE, MADV_DONTNEED) == -1 && errno == ENOMEM);
    CHECK(all(memory, 10 * PAGE, OLD_BYTE));
    CHECK(madvise(memory, 10 * PAGE, MADV_FREE) == -1 && errno == EINVAL);
    CHECK(madvise(memory + 10 * PAGE, 10 * PAGE, MADV_DONTNEED) == 0); /* anonymous, whatever the table says */
    CHECK(all(memory + 10 * PAGE, 10 * PAGE, 0));
}

static void no_descriptor_is_kept(void)
{
    unsigned char *memory = restored(20);
    int before = dup(0);
    CHECK(madvise(memory, 10 * PAGE, MADV_DONTNEED) == 0 && all(memory, 10 * PAGE, 0));
    int after = dup(0);
    CHECK(after == before + 1);
}

/* No mapping can be split any more (vm.max_map_count): zeros are written by hand, or nothing is done at all. */
static void too_many_mappings(void)
{
    unsigned char *memory = restored(30);
    MUST(mprotect(memory + 20 * PAGE, 10 * PAGE, PROT_READ) == 0);
    size_t pages = 1 << 20;
    unsigned char *filler = mmap(NULL, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MUST(filler != MAP_FAILED);
    for (size_t page = 0; page < pages && mprotect(filler + page * PAGE, PAGE, PROT_READ) == 0;)
        page += 2;
    MUST(mprotect(memory + 5 * PAGE, PAGE, PROT_NONE) == -1 && errno == ENOMEM);
    CHECK(madvise(memory + 5 * PAGE, 2 * PAGE, MADV_DONTNEED) == 0);
    CHECK(all(memory + 5 * PAGE, 2 * PAGE, 0));
    CHECK(all(memory, 5 * PAGE, FILE_BYTE) && all(memory + 7 * PAGE, 13 * PAGE, FILE_BYTE));
    CHECK(madvise(memory + 25 * PAGE, 2 * PAGE, MADV_DONTNEED) == -1 && errno == ENOMEM);
}

static void first_thread_gone_part(unsigned char *memory)
{
    usleep(50000);
    CHECK(madvise(memory, 10 * PAGE, MADV_DONTNEED) == 0);
    CHECK(all(memory, 10 * PAGE, 0));
    _exit(0);
}

static void *first_thread_gone_thread(void *memory) { return first_thread_gone_part(memory), NULL; }

static void first_thread_gone(void)
{
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, first_thread_gone_thread, restored(10)) == 0);
    pthread_exit(NULL);
}

static void after_fork(void)
{
    unsigned char *memory = restored(40);
    memset(memory, OLD_BYTE, 40 * PAGE);
    pid_t child = fork();
    if (child == 0) {
        CHECK(madvise(memory, 20 * PAGE, MADV_DONTNEED) == 0);
        CHECK(all(memory, 20 * PAGE, 0) && all(memory + 20 * PAGE, 20 * PAGE, OLD_BYTE));
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(all(memory, 40 * PAGE, OLD_BYTE));
    CHECK(madvise(memory, 40 * PAGE, MADV_DONTNEED) == 0 && all(memory, 40 * PAGE, 0));
}

static void growth_into_the_hole(void)
{
    unsigned char *memory = restored(20);
    unsigned char *grown = mremap(memory, 20 * PAGE, 500 * PAGE, MREMAP_MAYMOVE);
    CHECK(grown != MAP_FAILED);
    CHECK(all(grown, 20 * PAGE, FILE_BYTE) && all(grown + 20 * PAGE, 480 * PAGE, 0));
    memset(grown, 9, 500 * PAGE);
    CHECK(madvise(grown, 500 * PAGE, MADV_DONTNEED) == 0);
    CHECK(all(grown, 500 * PAGE, 0));
}

static void growth_after_shrinking(void)
{
    unsigned char *memory = restored(100);
    MUST(mremap(memory, 100 * PAGE, 10 * PAGE, 0) == memory);
    unsigned char *grown = mremap(memory, 10 * PAGE, 200 * PAGE, MREMAP_MAYMOVE);
    CHECK(grown != MAP_FAILED);
    CHECK(all(grown, 10 * PAGE, FILE_BYTE));
    CHECK(all(grown + 10 * PAGE, 190 * PAGE, 0));
    unsigned char *again = mremap(grown, 200 * PAGE, 300 * PAGE, MREMAP_MAYMOVE); /* it is one mapping still */
    CHECK(again != MAP_FAILED && all(again + 10 * PAGE, 290 * PAGE, 0));
}

static void growth_of_read_only_memory(void)
{
    unsigned char *memory = restored(100);
    MUST(mprotect(memory, 100 * PAGE, PROT_READ) == 0);
    MUST(mremap(memory, 100 * PAGE, 10 * PAGE, 0) == memory);
    unsigned char *grown = mremap(memory, 10 * PAGE, 200 * PAGE, MREMAP_MAYMOVE);
    CHECK(grown != MAP_FAILED);
    CHECK(all(grown, 10 * PAGE, FILE_BYTE) && all(grown + 10 * PAGE, 190 * PAGE, 0));
    CHECK(protection_of(grown + 50 * PAGE) == PROT_READ);
}

static void moved_away_without_unmapping(void)
{
    unsigned char *memory = restored(10);
    unsigned char *moved = mremap(memory, 10 * PAGE, 10 * PAGE, MREMAP_MAYMOVE | 4 /* MREMAP_DONTUNMAP */, NULL);
    CHECK(moved != MAP_FAILED);
    CHECK(all(moved, 10 * PAGE, FILE_BYTE));
    CHECK(all(memory, 10 * PAGE, 0));
}

/* A process image holds only pages that differ from their file; /proc/self/pagemap tells private ones (bit 61 clear). */
static void table_is_in_the_image(void)
{
    char *table = dlsym(RTLD_DEFAULT, "dormouse_guard_table");
    CHECK(table != NULL && (uintptr_t)table % PAGE == 0 && sizeof(struct table) + 8 == 4 * PAGE);
    uint64_t pages[4];
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    MUST(pread(pagemap, pages, sizeof pages, (off_t)((uintptr_t)table / PAGE * 8)) == sizeof pages);
    for (int i = 0; i < 4; i++)
        CHECK(pages[i] >> 63 == 1 && (pages[i] >> 61 & 1) == 0);
}

#define CASE(name) {#name, name}
static const struct { const char *name; void (*run)(void); } cases[] = {
    CASE(dontneed_reads_zeros), CASE(dontneed_by_number_reads_zeros), CASE(free_reads_no_file_byte), CASE(part_of_a_range),
    CASE(mixed_range_dontneed), CASE(mixed_range_free), CASE(protection_is_kept), CASE(moved_memory), CASE(locked_memory),
    CASE(locked_memory_on_request), CASE(guard_pages), CASE(stale_table), CASE(bad_arguments), CASE(no_descriptor_left),
    CASE(no_descriptor_is_kept), CASE(too_many_mappings), CASE(first_thread_gone), CASE(after_fork),
    CASE(growth_into_the_hole), CASE(growth_after_shrinking), CASE(growth_of_read_only_memory),
    CASE(moved_away_without_unmapping), CASE(table_is_in_the_image),
};

int main(int argc, char **argv)
{
    MUST(argc >= 2);
    if (argc == 3 && strcmp(argv[2], "without-procmap-query") == 0)
        hide_procmap_query();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, argv[1]) == 0)
            return cases[i].run(), 0;
    MUST(!"a case of this name");
}
