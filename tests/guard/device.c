/*
 * device CASE: a sandbox's root has one device number, whatever it is mounted from; other file systems have the kernel's.
 */
#include <pthread.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "restored.h"

static uint64_t *root_device;

/* What the engine does to a process image. */
static void forget(void)
{
    if (root_device)
        __atomic_store_n(root_device, 0, __ATOMIC_SEQ_CST);
}

static void find_root_device(void)
{
    char *table = dlsym(RTLD_DEFAULT, "dormouse_guard_table");
    root_device = table ? (uint64_t *)(table + sizeof(struct table)) : NULL;
}

/* Past the guard, as a static program asks. */
static dev_t kernels(const char *path)
{
    struct stat status;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_stat), "D"(path), "S"(&status) : "rcx", "r11", "memory");
    MUST(result == 0);
    return status.st_dev;
}

typedef int by_version(int version, const char *path, struct stat *status);
typedef int by_version_fd(int version, int fd, struct stat *status);
typedef int by_version_at(int version, int directory, const char *path, struct stat *status, int flags);

static void *old_name(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    MUST(function);
    return function;
}

#define SHOWS(call, wanted)                                             \
    do {                                                                \
        memset(&status, 0xff, sizeof status);                           \
        CHECK((call) == 0 && status.st_dev == (wanted) && status.st_ino == inode); \
    } while (0)

/* Whatever a program calls, and however often, it sees one number. */
static void all_show(const char *path, dev_t wanted)
{
    struct stat status;
    struct statx extended;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    MUST(fd >= 0);
    MUST(fstat(fd, &status) == 0);
    ino_t inode = status.st_ino;
    SHOWS(stat(path, &status), wanted);
    SHOWS(lstat(path, &status), wanted);
    SHOWS(fstat(fd, &status), wanted);
    SHOWS(fstatat(AT_FDCWD, path, &status, 0), wanted);
    SHOWS(fstatat(fd, "", &status, AT_EMPTY_PATH), wanted);
    SHOWS(stat64(path, (struct stat64 *)&status), wanted);
    SHOWS(lstat64(path, (struct stat64 *)&status), wanted);
    SHOWS(fstat64(fd, (struct stat64 *)&status), wanted);
    SHOWS(fstatat64(AT_FDCWD, path, (struct stat64 *)&status, 0), wanted);
    for (int version = 0; version < 2; version++) {
        SHOWS(((by_version *)old_name("__xstat"))(version, path, &status), wanted);
        SHOWS(((by_version *)old_name("__xstat64"))(version, path, &status), wanted);
        SHOWS(((by_version *)old_name("__lxstat"))(version, path, &status), wanted);
        SHOWS(((by_version *)old_name("__lxstat64"))(version, path, &status), wanted);
        SHOWS(((by_version_fd *)old_name("__fxstat"))(version, fd, &status), wanted);
        SHOWS(((by_version_fd *)old_name("__fxstat64"))(version, fd, &status), wanted);
        SHOWS(((by_version_at *)old_name("__fxstatat"))(version, AT_FDCWD, path, &status, 0), wanted);
        SHOWS(((by_version_at *)old_name("__fxstatat64"))(version, AT_FDCWD, path, &status, 0), wanted);
    }
    SHOWS(syscall(SYS_stat, path, &status), wanted);
    SHOWS(syscall(SYS_lstat, path, &status), wanted);
    SHOWS(syscall(SYS_fstat, fd, &status), wanted);
    SHOWS(syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0), wanted);
    CHECK(statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &extended) == 0 && extended.stx_ino == inode);
    CHECK(makedev(extended.stx_dev_major, extended.stx_dev_minor) == wanted);
    CHECK(syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &extended) == 0);
    CHECK(makedev(extended.stx_dev_major, extended.stx_dev_minor) == wanted);
    close(fd);
}

static dev_t shown(const char *path)
{
    struct stat status;
    MUST(stat(path, &status) == 0);
    return status.st_dev;
}

/* Another root, as after a wake: what was opened on the former one is not looked at any more. */
static void change_root(void)
{
    MUST(mkdir("/next", 0755) == 0 && mount("next", "/next", "tmpfs", 0, NULL) == 0);
    MUST(mkdir("/next/proc", 0755) == 0 && mount("/proc", "/next/proc", NULL, MS_BIND, NULL) == 0);
    MUST(mkdir("/next/dir", 0755) == 0 && chroot("/next") == 0 && chdir("/") == 0);
    forget();
}

static void one_number(void)
{
    dev_t root = shown("/");
    all_show("/", root);
    all_show("/etc/passwd", root);
    dev_t proc = shown("/proc"), first = kernels("/");
    CHECK(proc != root && proc == kernels("/proc"));
    change_root();
    MUST(kernels("/") != first);
    all_show("/dir", root);
    all_show("/", root);
    all_show("/proc", proc);
}

static void errors(void)
{
    struct stat status;
    errno = 0;
    CHECK(stat("/no such file", &status) == -1 && errno == ENOENT);
    CHECK(fstat(-1, &status) == -1 && errno == EBADF);
    CHECK(fstatat(-1, "relative", &status, 0) == -1 && errno == EBADF);
    CHECK(syscall(SYS_stat, "/", 8L) == -1 && errno == EFAULT);
    CHECK(((by_version *)old_name("__xstat"))(9, "/", &status) == -1 && errno == EINVAL);
    errno = 77;
    CHECK(stat("/", &status) == 0 && errno == 77);
}

static volatile int is_over;

static void *look(void *wanted)
{
    while (!is_over)
        CHECK(shown("/etc/passwd") == *(dev_t *)wanted && shown("/proc") != *(dev_t *)wanted);
    return NULL;
}

/* Sleeps at every possible moment, as far as the scheduler finds them. */
static void forgotten_any_time(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    dev_t root = shown("/");
    CHECK(root != kernels("/"));
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, look, &root) == 0);
    for (int i = 0; i < 200000; i++) {
        forget();
        if (i % 64 == 0)
            usleep(1);
    }
    is_over = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(shown("/") == root && *root_device == kernels("/"));
}

int main(int argc, char **argv)
{
    find_root_device();
    const char *name = argc == 2 ? argv[1] : "";
    if (strcmp(name, "one_number") == 0)
        one_number();
    else if (strcmp(name, "errors") == 0)
        errors();
    else if (strcmp(name, "forgotten_any_time") == 0)
        forgotten_any_time();
    else
        MUST(!"a case of that name");
    return 0;
}
