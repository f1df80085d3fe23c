/*
 * Preloaded into a server of the tests: the wall clock of its process is the system's, plus the seconds in a file that
 * the test writes. A time namespace would not do: it leaves the wall clock alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *offset;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
  real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  const char *path = getenv("DORMOUSE_TEST_CLOCK");
  int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    void *found = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (found != MAP_FAILED) offset = found;
    close(fd);
  }
  /* Programs that the server starts have the real clock. */
  unsetenv("LD_PRELOAD");
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = real_clock_gettime(clock, now);
  if (result == 0 && offset != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += *offset;
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec at;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &at) != 0) return -1;
  now->tv_sec = at.tv_sec;
  now->tv_usec = at.tv_nsec / 1000;
  return 0;
}
