/*
 * pieces CASE: memory that is one mapping to a program and several to the kernel, because parts of it were discarded
 * after a wake, grows and moves as one.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "hide-procmap-query.h"
#include "restored.h"

#define PAGES 30UL
#define OWN_BYTE 0x11

/*
 * Ten pages of the file's, ten discarded with one written again, ten of the file's. With the guard that is three
 * mappings.
 */
static unsigned char *torn(void)
{
    unsigned char *memory = restored(PAGES);
    MUST(madvise(memory + 10 * PAGE, 10 * PAGE, MADV_DONTNEED) == 0);
    memset(memory + 15 * PAGE, OWN_BYTE, PAGE);
    memory[29 * PAGE] = OWN_BYTE;
    return memory;
}

static int is_whole(const unsigned char *memory)
{
    return all(memory, 10 * PAGE, FILE_BYTE) && all(memory + 10 * PAGE, 5 * PAGE, 0) &&
           all(memory + 15 * PAGE, PAGE, OWN_BYTE) && all(memory + 16 * PAGE, 4 * PAGE, 0) &&
           all(memory + 20 * PAGE, 9 * PAGE, FILE_BYTE) && memory[29 * PAGE] == OWN_BYTE &&
           all(memory + 29 * PAGE + 1, PAGE - 1, FILE_BYTE);
}

static int is_mapped(const unsigned char *memory)
{
    return msync((void *)memory, PAGE, MS_ASYNC) == 0;
}

/* A mapping right behind: it can only move. */
static void block_growth(unsigned char *memory)
{
    unsigned char *end = memory + PAGES * PAGE;
    unsigned char *block = mmap(end, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    MUST(block == end || errno == EEXIST);
}

static void uses(unsigned char *memory, size_t pages)
{
    CHECK(is_whole(memory) && all(memory + PAGES * PAGE, (pages - PAGES) * PAGE, 0));
    memset(memory, 9, pages * PAGE);
    CHECK(madvise(memory, pages * PAGE, MADV_DONTNEED) == 0 && all(memory, pages * PAGE, 0));
}

static void grows_in_place(void)
{
    unsigned char *place = mmap(NULL, 100 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *memory = mremap(torn(), PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    CHECK(memory == place);
    MUST(munmap(memory + PAGES * PAGE, 70 * PAGE) == 0);
    errno = 77;
    CHECK(mremap(memory, PAGES * PAGE, 100 * PAGE, 0) == memory && errno == 77);
    uses(memory, 100);
}

static void grows_and_moves(void)
{
    unsigned char *memory = torn();
    block_growth(memory);
    CHECK(mremap(memory, PAGES * PAGE, 500 * PAGE, 0) == MAP_FAILED && errno == ENOMEM && is_whole(memory));
    unsigned char *grown = mremap(memory, PAGES * PAGE, 500 * PAGE, MREMAP_MAYMOVE);
    CHECK(grown != MAP_FAILED && grown != memory && !is_mapped(memory) && !is_mapped(memory + 29 * PAGE));
    uses(grown, 500);
}

static void grows_at_a_fixed_place(void)
{
    unsigned char *memory = torn(), *place = mmap(NULL, 100 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mremap(memory, PAGES * PAGE, 100 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place && !is_mapped(memory));
    uses(place, 100);
}

/* Fails the move of the third piece, which only the guard makes. */
static void refuse_third_move(const unsigned char *memory)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(uintptr_t)(memory + 20 * PAGE), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void a_failed_move_changes_nothing(void)
{
    unsigned char *memory = torn();
    block_growth(memory);
    refuse_third_move(memory);
    CHECK(mremap(memory, PAGES * PAGE, 500 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM);
    CHECK(is_whole(memory));
    memset(memory, 9, PAGES * PAGE);
    CHECK(madvise(memory, PAGES * PAGE, MADV_DONTNEED) == 0 && all(memory, PAGES * PAGE, 0));
}

static void what_was_never_one_mapping(void)
{
    unsigned char *memory = torn();
    MUST(mprotect(memory + 20 * PAGE, 10 * PAGE, PROT_READ) == 0);
    CHECK(mremap(memory, PAGES * PAGE, 500 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
    MUST(munmap(memory + 5 * PAGE, PAGE) == 0);
    CHECK(mremap(memory, 8 * PAGE, 50 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
    CHECK(all(memory, 5 * PAGE, FILE_BYTE));
}

#define CASE(name) {#name, name}
static const struct { const char *name; void (*run)(void); } cases[] = {
    CASE(grows_in_place), CASE(grows_and_moves), CASE(grows_at_a_fixed_place), CASE(a_failed_move_changes_nothing),
    CASE(what_was_never_one_mapping),
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
