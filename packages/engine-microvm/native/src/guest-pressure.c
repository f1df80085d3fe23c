#include "guest-pressure.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "control.h"

#define ROUND_MS 2000
/* In a round, pages of programs that had to be read from the disk. A program that starts has as many for one round. */
#define FAULTS_MIN 20
#define ROUNDS_BEFORE_END 4
/* What is left for pages that can be taken back: this part of the limit, and no more than this. */
#define ROOM_PART 64
#define ROOM_MAX_BYTES (16ll << 20)

/* Kernel rule: it has an event when the limit is reached, and until it is read again there is no other. */
static int limit_reached = -1;
static bool is_watching;
static long long next_ms, faults;
static int rounds;

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

static void wait_for_limit(void)
{
    char text[512];
    ssize_t count = pread(limit_reached, text, sizeof(text), 0);
    (void)count;
    is_watching = false;
    rounds = 0;
}

void watch_pressure(void)
{
    limit_reached = open(CGROUP "/memory.events", O_RDONLY | O_CLOEXEC);
    if (limit_reached != -1)
        wait_for_limit();
}

int pressure_fd(void)
{
    return is_watching ? -1 : limit_reached;
}

int pressure_wait_ms(void)
{
    if (!is_watching)
        return -1;
    long long left = next_ms - now_ms();
    return left < 0 ? 0 : (int)left;
}

/* With `memory.high` programs wait at their limit on purpose. */
static bool is_full(void)
{
    long long limit = read_number(CGROUP "/memory.max", NULL);
    long long room = limit / ROOM_PART < ROOM_MAX_BYTES ? limit / ROOM_PART : ROOM_MAX_BYTES;
    bool is_pausing = read_number(CGROUP "/memory.high", NULL) != 0;
    return limit > 0 && !is_pausing && limit - held_bytes() < room;
}

static void start_round(void)
{
    is_watching = true;
    faults = read_number(CGROUP "/memory.stat", "pgmajfault ");
    next_ms = now_ms() + ROUND_MS;
}

void relieve_pressure(bool has_event)
{
    if (!is_watching) {
        if (has_event)
            start_round();
        return;
    }
    if (now_ms() < next_ms)
        return;
    bool stands_still = is_full() && read_number(CGROUP "/memory.stat", "pgmajfault ") - faults >= FAULTS_MIN;
    if (!stands_still) {
        wait_for_limit();
        return;
    }
    start_round();
    if (++rounds < ROUNDS_BEFORE_END)
        return;
    rounds = 0;
    /* The kernel chooses a program as it would have later, and counts it. */
    write_text("/proc/sysrq-trigger", "f");
}
