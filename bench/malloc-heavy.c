/*
 * malloc-heavy allocates, grows and frees small and large blocks at random, as fast as it can. It prints its CPU time
 * (user and system) in nanoseconds. On jemalloc with immediate purging it also discards memory all the time, and the
 * guard intercepts every discard. With the argument `slept` the guard treats all memory as restored and checks every
 * discard with the kernel: the worst case after a wake.
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "guard.h"

#define SLOTS 4096
#define OPERATIONS 200000

static uint64_t state = 88172645463325252ULL;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Mostly small, one in 256 up to 64 KiB, one in 8192 up to 1 MiB. */
static size_t next_size(uint64_t random)
{
    if (random % 8192 == 0)
        return (random >> 20) % (1 << 20) + 1;
    if (random % 256 == 0)
        return (random >> 20) % (64 << 10) + 1;
    return (random >> 20) % 512 + 1;
}

static void claim_to_have_slept(void)
{
    struct guard_table *table = dlsym(RTLD_DEFAULT, "dormouse_guard_table");
    if (table) {
        table->ranges[0] = (struct guard_range){ .start = 0x1000, .end = 0x7ffffffff000 };
        table->count = 1;
    }
}

/* A move to another CPU would cost as much as the effect that we measure. */
static void stay_on_this_cpu(void)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(sched_getcpu(), &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "slept") == 0)
        claim_to_have_slept();
    stay_on_this_cpu();
    static char *slots[SLOTS];
    struct timespec begin, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (int i = 0; i < OPERATIONS; i++) {
        uint64_t random = next_random();
        char **slot = &slots[random % SLOTS];
        size_t bytes = next_size(random >> 12);
        if (*slot && random >> 60 == 0) {
            *slot = realloc(*slot, bytes);
        } else {
            free(*slot);
            *slot = random >> 63 ? malloc(bytes) : calloc(1, bytes);
        }
        if (*slot == NULL)
            return 1;
        memset(*slot, i, bytes < 64 ? bytes : 64);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    printf("%lld\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
    return 0;
}
