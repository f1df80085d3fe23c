/*
 * dormouse-scrub: reads stored files and compares them with their recorded checksums, at idle priority.
 *
 *   dormouse-scrub RATE sum FILE...        prints `file SIZE CHECKSUM` or `unreadable REASON` for each, in order
 *   dormouse-scrub RATE make TREE SUMS     records the checksums of a tree in the file SUMS
 *   dormouse-scrub RATE check TREE SUMS    compares a tree with them
 *
 * RATE is in bytes per second. 0 means no limit and normal priority. The last line is `read BYTES`. For a tree, the
 * line before it is `entries COUNT`, or `damaged WHAT PATH`, or `unknown` when SUMS is missing or damaged.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "idle.h"
#include "report.h"
#include "sum-tree.h"

/*
 * Sandboxes control how many names there are. Each takes 16 bytes, and the names of one directory at a time are in
 * memory.
 */
#define MEMORY_MAX_BYTES (1ul << 30)

struct check {
    struct sums_table table;
    bool *is_seen;
    size_t count;
    bool is_damaged;
};

static void say_damaged(const char *what, const char *path)
{
    printf("damaged %s %s\n", what, path);
}

static bool add(struct entry_sums sums, const char *path, void *context)
{
    (void)path;
    add_sums(context, sums);
    return true;
}

/*
 * These errors mean that data is lost: EIO, or a damaged structure of the file system. Other errors say nothing about
 * the disk.
 */
static void refuse_unreadable(const char *path)
{
    if (errno != EIO && errno != EUCLEAN && errno != EBADMSG && errno != ENODATA)
        fail("read %s", path);
    say_damaged("unreadable", path);
}

static void cannot_add(const char *path, void *context)
{
    struct sums_table *table = context;
    refuse_unreadable(path);
    table->count = 0;
}

static bool compare(struct entry_sums sums, const char *path, void *context)
{
    struct check *check = context;
    ptrdiff_t at = find_sums(&check->table, sums.path);
    check->count++;
    if (at == -1) {
        say_damaged("added", path);
        check->is_damaged = true;
        return false;
    }
    check->is_seen[at] = true;
    if (check->table.entries[at].sum == sums.sum)
        return true;
    say_damaged("changed", path);
    check->is_damaged = true;
    return false;
}

static void cannot_compare(const char *path, void *context)
{
    struct check *check = context;
    refuse_unreadable(path);
    check->is_damaged = true;
}

static void make(const char *root, const char *sums, struct reading *reading)
{
    struct sums_table table = {0};
    sum_tree(root, reading, &(struct visitor){.visit = add, .unreadable = cannot_add, .context = &table});
    /* The root is always among them: none means that a file could not be read. */
    if (table.count == 0)
        return;
    write_sums(&table, sums);
    printf("entries %zu\n", table.count);
}

static void check_tree(const char *root, const char *sums, struct reading *reading)
{
    struct check check = {0};
    if (!read_sums(&check.table, sums)) {
        puts("unknown");
        return;
    }
    check.is_seen = calloc(check.table.count + 1, sizeof(*check.is_seen));
    if (!check.is_seen)
        fail("memory for %zu names", check.table.count);
    sum_tree(root, reading, &(struct visitor){.visit = compare, .unreadable = cannot_compare, .context = &check});
    if (check.is_damaged)
        return;
    size_t missing = 0;
    for (size_t at = 0; at < check.table.count; at++)
        missing += !check.is_seen[at];
    if (missing > 0)
        printf("damaged missing %zu\n", missing);
    else
        printf("entries %zu\n", check.count);
}

static void sum_files(char **paths, struct reading *reading)
{
    for (; *paths; paths++) {
        uint64_t size, sum;
        if (sum_file(AT_FDCWD, *paths, reading, &size, &sum))
            printf("file %" PRIu64 " %016" PRIx64 "\n", size, sum);
        else
            printf("unreadable %s\n", strerror(errno));
    }
}

int main(int argc, char **argv)
{
    char *end = NULL;
    uint64_t rate = argc > 1 ? strtoull(argv[1], &end, 10) : 0;
    if (argc < 4 || *end != '\0')
        refuse("usage: dormouse-scrub RATE sum FILE... | make TREE SUMS | check TREE SUMS");
    const char *action = argv[2];
    struct reading reading = {.is_direct = true, .bytes_per_second = rate};
    struct rlimit memory = {.rlim_cur = MEMORY_MAX_BYTES, .rlim_max = MEMORY_MAX_BYTES};
    CHECK(setrlimit(RLIMIT_AS, &memory), "limit memory");
    if (rate > 0)
        be_idle();
    if (!strcmp(action, "sum")) {
        sum_files(argv + 3, &reading);
    } else if (argc == 5 && !strcmp(action, "make")) {
        /* The page cache holds what we wrote. The next check reads the disk. */
        reading.is_direct = false;
        make(argv[3], argv[4], &reading);
    } else if (argc == 5 && !strcmp(action, "check")) {
        check_tree(argv[3], argv[4], &reading);
    } else {
        refuse("cannot %s", action);
    }
    printf("read %" PRIu64 "\n", reading.read_bytes);
    if (fflush(stdout))
        fail("answer");
    return 0;
}
