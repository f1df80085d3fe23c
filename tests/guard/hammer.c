/*
 * hammer: threads discard, write and check pages of one restored mapping, while a signal handler discards in between
 * and children are forked in the middle of it. Every thread knows what each of its pages has to hold.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "restored.h"

#define THREADS 4
#define PAGES 64
#define ROUNDS 20000
#define FORKS 50

static unsigned char *memory; /* THREADS + 1 slices of PAGES; the last belongs to the handler and to the children */

static void check_page(const unsigned char *page, unsigned char expected)
{
    CHECK(page[0] == expected && page[PAGE / 2] == expected && page[PAGE - 1] == expected);
}

static void *hammer(void *argument)
{
    unsigned char *slice = memory + (size_t)argument * PAGES * PAGE;
    unsigned seed = (unsigned)(size_t)argument;
    unsigned char expected[PAGES];
    memset(expected, FILE_BYTE, sizeof expected);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned first = (unsigned)rand_r(&seed) % PAGES, count = 1 + (unsigned)rand_r(&seed) % (PAGES - first);
        unsigned char *start = slice + first * PAGE;
        switch (rand_r(&seed) % 4) {
        case 0:
            CHECK(madvise(start, count * PAGE, MADV_DONTNEED) == 0);
            memset(expected + first, 0, count);
            break;
        case 1: /* old bytes or zeros; then known ones again, since the kernel may take its time */
            CHECK(madvise(start, count * PAGE, MADV_FREE) == 0);
            for (unsigned page = first; page < first + count; page++) {
                unsigned char now = slice[page * PAGE];
                CHECK(now == 0 || now == expected[page]);
                expected[page] = (unsigned char)(round % 200 + 1);
                memset(slice + page * PAGE, expected[page], PAGE);
            }
            break;
        case 2:
            expected[first] = (unsigned char)(round % 200 + 1);
            memset(start, expected[first], PAGE);
            break;
        default:
            for (unsigned page = 0; page < PAGES; page++)
                check_page(slice + page * PAGE, expected[page]);
        }
    }
    return NULL;
}

static void discard_in_handler(int number)
{
    (void)number;
    int saved = errno;
    unsigned char *page = memory + THREADS * PAGES * PAGE;
    CHECK(madvise(page, PAGE, MADV_DONTNEED) == 0);
    check_page(page, 0);
    errno = saved;
}

int main(void)
{
    memory = restored((THREADS + 1) * PAGES);
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = discard_in_handler, .sa_flags = SA_RESTART};
    struct itimerval every_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    MUST(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every_ms, NULL) == 0);
    for (size_t i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, hammer, (void *)i) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            unsigned char *slice = memory + (THREADS * PAGES + 1) * PAGE;
            CHECK(madvise(slice, (PAGES - 1) * PAGE, MADV_DONTNEED) == 0 && all(slice, (PAGES - 1) * PAGE, 0));
            _exit(0);
        }
        int status;
        MUST(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    MUST(setitimer(ITIMER_REAL, &never, NULL) == 0);
    return 0;
}
