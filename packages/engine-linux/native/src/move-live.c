#include "move-live.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "live-calls.h"
#include "live-copy.h"
#include "live-file.h"
#include "live-table.h"
#include "live-tasks.h"
#include "report.h"

#define MEMORY_DIRECTORY "/.dormouse/memory/"
/* Each is one system call in the process. */
#define RANGES_MAX 32
/* How often in a row to try to stop a burrow. A thread may be between vfork and exec, for example. */
#define TRIES_MAX 20
/* The sandbox runs at least this long between two steps. */
#define REST_NS 500000

/* A piece as it is mapped in a step. */
struct range {
    uint64_t start, end, offset;
    int protection;
    bool has_no_reserve;
};

struct mover {
    const struct burrow *burrow;
    pid_t process;
    struct areas areas;
    struct pieces pieces;
    size_t next;
    struct tasks tasks;
    struct live_file file;
    struct live_copy copy;
    struct range ranges[RANGES_MAX];
    size_t count;
    uint64_t guard;
};

enum outcome { DONE, AGAIN, GIVE_UP };

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void rest(long ns)
{
    struct timespec pause = {.tv_nsec = ns};
    nanosleep(&pause, NULL);
}

/* Whether the range is still what it was when the piece was planned. */
static const struct area *find_unchanged(const struct mover *mover, const struct piece *piece)
{
    const struct area *area = area_at(&mover->areas, piece->start);
    if (!area || area->end < piece->end || !is_movable(area))
        return NULL;
    return area->protection == piece->protection && area->is_memory_file == piece->is_memory_file ? area : NULL;
}

/* Copies the next pieces into the file, up to the size of a step. */
static enum outcome copy_pieces(struct mover *mover)
{
    mover->count = 0;
    while (mover->next < mover->pieces.count && mover->count < RANGES_MAX) {
        const struct piece *piece = &mover->pieces.items[mover->next];
        uint64_t full = mover->burrow->piece_bytes;
        if (mover->copy.used_bytes > 0 && mover->copy.used_bytes + (piece->end - piece->start) > full)
            break;
        mover->next++;
        const struct area *area = find_unchanged(mover, piece);
        if (!area)
            continue;
        uint64_t offset = place_in_file(&mover->file, piece->start, piece->end, area->end);
        if (offset == 0)
            return GIVE_UP;
        struct range range = {piece->start, piece->end, offset, piece->protection, piece->has_no_reserve};
        /* Too much of it is new: it stays as it is. */
        if (!copy_range(&mover->copy, piece->start, piece->end, offset, piece->is_memory_file))
            continue;
        mover->ranges[mover->count++] = range;
    }
    return write_copy(&mover->copy, &mover->file) ? DONE : GIVE_UP;
}

/*
 * A thread inside the guard may already have decided what to do, by the table as it was. It is let run on. Returns the
 * thread to make calls in, 0 when there is none now.
 */
static pid_t choose_thread(const struct mover *mover)
{
    pid_t chosen = 0;
    for (size_t i = 0; i < mover->tasks.count; i++) {
        const struct task *task = &mover->tasks.items[i];
        struct user_regs_struct regs;
        if (task->process != mover->process || !task->thread)
            continue;
        if (ptrace(PTRACE_GETREGS, task->thread, 0, &regs) == -1)
            return 0;
        if (is_code_of(&mover->areas, mover->burrow->guard_inode, regs.rip))
            return 0;
        if (!chosen || task->thread == mover->process)
            chosen = task->thread;
    }
    return chosen;
}

/* Whether the descriptor of the process is our file: the process may have another root. */
static bool is_our_file(const struct mover *mover, long fd)
{
    char path[64];
    struct stat theirs, ours;
    snprintf(path, sizeof(path), "/proc/%d/fd/%ld", mover->process, fd);
    return stat(path, &theirs) == 0 && fstat(mover->file.fd, &ours) == 0 && theirs.st_ino == ours.st_ino &&
           theirs.st_dev == ours.st_dev;
}

static bool map_ranges(struct mover *mover, struct live_calls *calls, long fd)
{
    for (size_t i = 0; i < mover->count; i++) {
        const struct range *range = &mover->ranges[i];
        int flags = MAP_PRIVATE | MAP_FIXED | (range->has_no_reserve ? MAP_NORESERVE : 0);
        /* First the table: a range in it that is still anonymous does no harm. */
        if (!guard_range(mover->process, mover->guard + mover->burrow->table, range->start, range->end))
            return false;
        long result = call_inside(calls, SYS_mmap,
                                  (uint64_t[]){range->start, range->end - range->start, (uint64_t)range->protection,
                                               (uint64_t)flags, (uint64_t)fd, range->offset});
        if (result != (long)range->start)
            return false;
        mover->file.is_mapped = true;
    }
    return true;
}

/* Puts the file over the ranges, in one step each. What was copied but is not mapped is only space in the file. */
static enum outcome map_pieces(struct mover *mover, pid_t thread)
{
    const struct burrow *burrow = mover->burrow;
    char path[256];
    snprintf(path, sizeof(path), "%s%s", MEMORY_DIRECTORY, mover->file.name);
    struct live_calls calls = {
        .thread = thread, .enter = mover->guard + burrow->enter, .frame = mover->guard + burrow->frame};
    if (!begin_calls(&calls, path))
        return AGAIN;
    /* Users other than root may not open the file, and nobody else runs now. */
    CHECK(fchmod(mover->file.fd, 0444), "mode of a memory file");
    const uint64_t open_arguments[6] = {(uint64_t)AT_FDCWD, path_inside(&calls), O_RDONLY | O_CLOEXEC};
    long fd = call_inside(&calls, SYS_openat, open_arguments);
    CHECK(fchmod(mover->file.fd, 0400), "mode of a memory file");
    bool is_mapped = fd >= 0 && is_our_file(mover, fd) && map_ranges(mover, &calls, fd);
    if (fd >= 0)
        call_inside(&calls, SYS_close, (uint64_t[6]){(uint64_t)fd});
    if (!end_calls(&calls))
        refuse("process %d does not behave", mover->process);
    return is_mapped ? DONE : GIVE_UP;
}

/* One step: stops the burrow, moves about `piece_bytes`, and lets it continue. */
static enum outcome move_step(struct mover *mover)
{
    uint64_t began = now_us();
    if (!stop_tasks(&mover->tasks, mover->burrow->cgroup, mover->burrow->first))
        return AGAIN;
    enum outcome outcome = GIVE_UP;
    pid_t thread = 0;
    if (read_areas(mover->process, "maps", &mover->areas)) {
        thread = choose_thread(mover);
        outcome = thread ? copy_pieces(mover) : AGAIN;
    }
    uint64_t copied = now_us(), bytes = mover->copy.used_bytes;
    if (outcome == DONE && mover->count > 0)
        outcome = map_pieces(mover, thread);
    continue_tasks(&mover->tasks);
    uint64_t ended = now_us();
    finish_copy(&mover->copy, &mover->file);
    if (bytes > 0)
        printf("step %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", bytes, ended - began, copied - began);
    return outcome;
}

/* Waits until writing does not make this process wait for the disk: it must not while the burrow is stopped. */
static void wait_for_writeback(bool (*is_over)(void))
{
    for (;;) {
        static char text[1 << 16];
        int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
        ssize_t length = fd == -1 ? -1 : read(fd, text, sizeof(text) - 1);
        if (fd != -1)
            close(fd);
        if (length <= 0)
            return;
        text[length] = '\0';
        static const char *const NAMES[] = {"\nnr_dirty ", "\nnr_writeback ", "\nnr_dirty_threshold ",
                                            "\nnr_dirty_background_threshold "};
        uint64_t values[4] = {0};
        for (size_t i = 0; i < 4; i++) {
            const char *found = strstr(text, NAMES[i]);
            values[i] = found ? strtoull(found + strlen(NAMES[i]), NULL, 10) : UINT64_MAX / 4;
        }
        /* The kernel begins to slow writers down half way between the two thresholds. */
        if (values[0] + values[1] < (values[2] + values[3]) / 2 * 9 / 10 || is_over())
            return;
        rest(10000000);
    }
}

static uint64_t find_guard(struct mover *mover)
{
    return read_areas(mover->process, "maps", &mover->areas) ? mapped_at(&mover->areas, mover->burrow->guard_inode) : 0;
}

uint64_t move_process(const struct burrow *burrow, pid_t process, bool (*is_over)(void))
{
    struct mover mover = {.burrow = burrow, .process = process, .file.fd = -1};
    char name[128];
    snprintf(name, sizeof(name), "%s-%d", burrow->name, process);
    mover.guard = find_guard(&mover);
    if (mover.guard != 0)
        plan_pieces(process, &mover.areas, burrow->piece_bytes, &mover.pieces);
    if (mover.pieces.count > 0 && open_live_file(&mover.file, burrow->directory, name, burrow->owner)) {
        open_live_copy(&mover.copy, process, 2 * burrow->piece_bytes);
        for (int tries = 0; mover.next < mover.pieces.count && tries < TRIES_MAX && !is_over();) {
            wait_for_writeback(is_over);
            size_t next = mover.next;
            enum outcome outcome = move_step(&mover);
            if (outcome == GIVE_UP)
                break;
            if (outcome == AGAIN)
                mover.next = next;
            tries = outcome == AGAIN ? tries + 1 : 0;
            rest(outcome == AGAIN ? REST_NS * 4 : REST_NS);
        }
        close_live_copy(&mover.copy);
        seal_live_file(&mover.file);
    }
    uint64_t bytes = mover.file.moved_bytes;
    if (mover.file.fd != -1)
        close_live_file(&mover.file, burrow->directory);
    free(mover.areas.items);
    free(mover.pieces.items);
    free(mover.tasks.items);
    return bytes;
}
