/*
 * Preloaded into a server of the tests: the process reads other files in place of /proc/cpuinfo and /proc/meminfo. A mount
 * over them would not do: the kernel then refuses a new /proc to the user namespaces of burrows.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static char *cpuinfo, *meminfo;

static char *path_in(const char *variable) {
  const char *path = getenv(variable);
  return path == NULL ? NULL : strdup(path);
}

__attribute__((constructor)) static void begin(void) {
  cpuinfo = path_in("DORMOUSE_TEST_CPUINFO");
  meminfo = path_in("DORMOUSE_TEST_MEMINFO");
  /* Programs that the server starts see the real machine. */
  unsetenv("LD_PRELOAD");
}

static int open_shown(const char *name, const char *path, int flags, mode_t mode) {
  int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, name);
  if (cpuinfo != NULL && strcmp(path, "/proc/cpuinfo") == 0) path = cpuinfo;
  if (meminfo != NULL && strcmp(path, "/proc/meminfo") == 0) path = meminfo;
  return real(path, flags, mode);
}

static mode_t mode_in(int flags, va_list rest) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
}

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return open_shown("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return open_shown("open64", path, flags, mode);
}
