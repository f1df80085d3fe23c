/*
 * dormouse-move CGROUP FIRST DIRECTORY NAME OWNER PIECE_BYTES WRITES_AHEAD GUARD TABLE FRAME ENTER
 * Moves the memory of a live burrow into memory files. It stops all processes, copies a piece of one into a file, maps
 * the file privately over it in place, and lets them continue; then the next piece. A program inside notices only the
 * pauses.
 *   CGROUP       a cgroup directory whose members are the processes of the burrow
 *   FIRST        its PID 1, as the host sees it, which is left alone
 *   DIRECTORY    receives the files; processes see it as /.dormouse/memory
 *   NAME         the files are called NAME-PID
 *   OWNER        the user and group that owns them
 *   PIECE_BYTES  about how much to move at once
 *   WRITES_AHEAD 1: the disk starts writing at once; 0: no caller waits for the disk
 *   GUARD        the guard library; only processes that have it loaded are touched
 *   TABLE, FRAME, ENTER   offsets of its symbols
 * It ends when all is moved, or when standard input is closed, after the piece it is at. Lines on standard output:
 * `step BYTES PAUSE_US COPY_US`, and `moved BYTES` at the end. If it is killed, no process stays stopped or is harmed.
 */
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "live-status.h"
#include "move-live.h"
#include "report.h"

#define PROCESSES_MAX 4096
/* With larger pieces no call reaches the burrow, and the CPUs belong to others as well. */
#define URGENT_MAX_BYTES (8u << 20)

static bool is_over(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) != 0;
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    if (end == text || *end)
        refuse("not a number: %s", text);
    return value;
}

static size_t list_members(const struct burrow *burrow, pid_t *members)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/cgroup.procs", burrow->cgroup);
    FILE *list = fopen(path, "re");
    if (!list)
        return 0; /* The burrow has ended. */
    size_t count = 0;
    int process;
    while (count < PROCESSES_MAX && fscanf(list, "%d", &process) == 1)
        if (process != burrow->first)
            members[count++] = process;
    fclose(list);
    return count;
}

/* Every process has the filters of the burrow. Those with more have added their own. */
static unsigned least_filters(const pid_t *members, size_t count)
{
    unsigned least = UINT_MAX;
    struct live_status status;
    for (size_t i = 0; i < count; i++)
        if (read_status(members[i], members[i], &status) && status.filters < least)
            least = status.filters;
    return least;
}

int main(int count, char **words)
{
    if (count != 12)
        refuse("usage: dormouse-move CGROUP FIRST DIRECTORY NAME OWNER PIECE_BYTES WRITES_AHEAD GUARD TABLE FRAME ENTER");
    struct stat guard;
    CHECK(stat(words[8], &guard), "stat %s", words[8]);
    struct burrow burrow = {
        .cgroup = words[1],
        .first = (pid_t)number(words[2]),
        .directory = words[3],
        .name = words[4],
        .owner = (uid_t)number(words[5]),
        .piece_bytes = number(words[6]),
        .writes_ahead = number(words[7]) != 0,
        .is_urgent = number(words[6]) <= URGENT_MAX_BYTES,
        .guard_inode = guard.st_ino,
        .table = number(words[9]),
        .frame = number(words[10]),
        .enter = number(words[11]),
    };
    setlinebuf(stdout);
    static pid_t members[PROCESSES_MAX];
    size_t processes = list_members(&burrow, members);
    burrow.filters = least_filters(members, processes);
    uint64_t bytes = 0;
    bool can_stop = true;
    for (size_t i = 0; i < processes && can_stop && !is_over(); i++)
        can_stop = move_process(&burrow, members[i], is_over, &bytes);
    printf("moved %" PRIu64 "\n", bytes);
    return fflush(stdout) ? 1 : 0;
}
