#include "move-live.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
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
#include "live-status.h"
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
#define REST_MAX_NS 50000000
/* Whatever happens to this process while a burrow is stopped, the burrow continues after this time. */
#define STOPPED_MAX_S 5

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
    /* How long the burrow was stopped last. */
    uint64_t pause_us;
};

enum outcome { DONE, AGAIN, NOT_STOPPED, GIVE_UP };

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
        if (mover->copy.bytes > 0 && mover->copy.bytes + (piece->end - piece->start) > full)
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
    return wait_for_copy(&mover->copy) ? DONE : GIVE_UP;
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
        if (task->process != mover->process || !is_member(&mover->tasks, task))
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

/*
 * Kernels before 6.12 remove the old mapping first and may then fail for lack of memory. A process that has lost memory
 * is killed, as for any other lack of memory: it must not continue.
 */
static bool is_still_mapped(struct mover *mover, const struct range *range)
{
    if (!read_areas(mover->process, "maps", &mover->areas))
        return false;
    const struct area *area = area_at(&mover->areas, range->start);
    return area && area->end >= range->end;
}

static bool map_range(struct mover *mover, struct live_calls *calls, const struct range *range, long fd)
{
    int flags = MAP_PRIVATE | MAP_FIXED | (range->has_no_reserve ? MAP_NORESERVE : 0);
    const uint64_t arguments[6] = {range->start,    range->end - range->start, (uint64_t)range->protection,
                                   (uint64_t)flags, (uint64_t)fd,              range->offset};
    if (call_inside(calls, SYS_mmap, arguments) == (long)range->start)
        return true;
    if (!is_still_mapped(mover, range) && call_inside(calls, SYS_mmap, arguments) != (long)range->start)
        kill(mover->process, SIGKILL);
    return false;
}

static bool map_ranges(struct mover *mover, struct live_calls *calls, long fd)
{
    for (size_t i = 0; i < mover->count; i++) {
        const struct range *range = &mover->ranges[i];
        /* First the table: a range in it that is still anonymous does no harm. */
        if (!guard_range(mover->process, mover->guard + mover->burrow->table, range->start, range->end))
            return false;
        /* Also if mapping fails: it may have worked at the second try. */
        mover->file.is_mapped = true;
        if (!map_range(mover, calls, range, fd))
            return false;
    }
    return true;
}

/*
 * Opens the file in the process. Its root inside owns the file and may read it. For other users it is made readable;
 * no other process of the burrow runs now. O_NONBLOCK: the process may have another root, with a pipe at this path.
 */
static long open_inside(struct mover *mover, struct live_calls *calls, uid_t user)
{
    const uint64_t arguments[6] = {(uint64_t)AT_FDCWD, path_inside(calls), O_RDONLY | O_CLOEXEC | O_NONBLOCK};
    bool is_owner = user == mover->burrow->owner;
    if (!is_owner)
        CHECK(fchmod(mover->file.fd, 0444), "mode of a memory file");
    long fd = call_inside(calls, SYS_openat, arguments);
    if (!is_owner)
        CHECK(fchmod(mover->file.fd, 0400), "mode of a memory file");
    return fd;
}

/* Puts the file over the ranges, in one step each. What was copied but is not mapped is only space in the file. */
static enum outcome map_pieces(struct mover *mover, struct live_calls *calls, uid_t user)
{
    char path[256];
    snprintf(path, sizeof(path), "%s%s", MEMORY_DIRECTORY, mover->file.name);
    if (!begin_calls(calls, path))
        return GIVE_UP;
    long fd = open_inside(mover, calls, user);
    bool is_mapped = fd >= 0 && is_our_file(mover, fd) && map_ranges(mover, calls, fd);
    if (fd >= 0)
        call_inside(calls, SYS_close, (uint64_t[6]){(uint64_t)fd});
    if (!end_calls(calls))
        refuse("process %d does not behave", mover->process);
    return is_mapped ? DONE : GIVE_UP;
}

/*
 * While a burrow that is awake is stopped, its callers wait for this process, so it is urgent; a failure only makes
 * pauses longer on a busy host. And it must not hang: a timer kills it.
 */
static void watch_pause(const struct burrow *burrow, bool is_paused)
{
    static timer_t timer;
    static bool has_timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    if (!has_timer)
        CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer), "timer");
    has_timer = true;
    struct itimerspec deadline = {.it_value.tv_sec = is_paused ? STOPPED_MAX_S : 0};
    CHECK(timer_settime(timer, 0, &deadline, NULL), "timer");
    bool is_urgent = burrow->is_urgent && is_paused;
    struct sched_param priority = {.sched_priority = is_urgent ? 1 : 0};
    (void)sched_setscheduler(0, is_urgent ? SCHED_RR : SCHED_OTHER, &priority);
}

static enum outcome move_while_stopped(struct mover *mover, uint64_t *copied_us)
{
    const struct burrow *burrow = mover->burrow;
    /* It may have become another program, with the guard elsewhere. */
    if (!read_areas(mover->process, "maps", &mover->areas) ||
        mapped_at(&mover->areas, burrow->guard_inode) != mover->guard)
        return GIVE_UP;
    struct live_calls calls = {
        .thread = choose_thread(mover),
        .enter = mover->guard + burrow->enter,
        .frame = mover->guard + burrow->frame,
    };
    struct live_status status;
    if (!calls.thread || !can_call(&calls))
        return AGAIN;
    if (!read_status(mover->process, calls.thread, &status) || status.filters > burrow->filters)
        return GIVE_UP;
    enum outcome outcome = copy_pieces(mover);
    *copied_us = now_us();
    return outcome == DONE && mover->count > 0 ? map_pieces(mover, &calls, status.user) : outcome;
}

/* One step: stops the burrow, moves about `piece_bytes`, and lets it continue. */
static enum outcome move_step(struct mover *mover)
{
    uint64_t began = now_us(), copied = began;
    watch_pause(mover->burrow, true);
    enum outcome outcome = NOT_STOPPED;
    if (stop_tasks(&mover->tasks, mover->burrow->cgroup, mover->burrow->first)) {
        outcome = move_while_stopped(mover, &copied);
        continue_tasks(&mover->tasks);
    }
    watch_pause(mover->burrow, false);
    mover->pause_us = now_us() - began;
    uint64_t bytes = finish_copy(&mover->copy);
    if (bytes > 0)
        printf("step %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", bytes, mover->pause_us, copied - began);
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

/* A burrow that is awake runs at least as long as it was stopped, and so does the rest of the host. */
static long rest_after(const struct mover *mover, int tries)
{
    if (tries > 0)
        return REST_NS * 4 * tries;
    long pause_ns = (long)mover->pause_us * 1000;
    if (!mover->burrow->is_urgent || pause_ns < REST_NS)
        return REST_NS;
    return pause_ns < REST_MAX_NS ? pause_ns : REST_MAX_NS;
}

/* False when the burrow cannot be stopped. */
static bool move_pieces(struct mover *mover, bool (*is_over)(void))
{
    for (int tries = 0; mover->next < mover->pieces.count && !is_over();) {
        wait_for_writeback(is_over);
        size_t next = mover->next;
        enum outcome outcome = move_step(mover);
        if (mover->tasks.is_stuck)
            return false;
        if (outcome == GIVE_UP)
            break;
        bool is_done = outcome == DONE;
        if (!is_done)
            mover->next = next;
        tries = is_done ? 0 : tries + 1;
        if (tries == TRIES_MAX)
            return outcome != NOT_STOPPED;
        rest(rest_after(mover, tries));
    }
    return true;
}

bool move_process(const struct burrow *burrow, pid_t process, bool (*is_over)(void), uint64_t *bytes)
{
    struct mover mover = {.burrow = burrow, .process = process, .file.fd = -1};
    struct live_status status;
    char name[128];
    bool can_stop = true;
    snprintf(name, sizeof(name), "%s-%d", burrow->name, process);
    if (read_status(process, process, &status) && status.filters <= burrow->filters)
        mover.guard = find_guard(&mover);
    if (mover.guard != 0)
        plan_pieces(process, &mover.areas, burrow->piece_bytes, &mover.pieces, is_over);
    if (mover.pieces.count > 0 && open_live_file(&mover.file, burrow->directory, name, burrow->owner)) {
        mover.file.writes_ahead = burrow->writes_ahead;
        open_live_copy(&mover.copy, process, &mover.file, 2 * burrow->piece_bytes, burrow->is_urgent);
        can_stop = move_pieces(&mover, is_over);
        close_live_copy(&mover.copy);
        seal_live_file(&mover.file);
    }
    *bytes += mover.file.moved_bytes;
    if (mover.file.fd != -1)
        close_live_file(&mover.file, burrow->directory);
    free(mover.areas.items);
    free(mover.pieces.items);
    free(mover.tasks.items);
    return can_stop;
}
