#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/random.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "gate.h"
#include "guest-volume.h"
#include "link.h"

/*
 * Programs begin in a cgroup below, and the one above is what they see as the root. Kernel rule: a cgroup gives its
 * controllers to those below it only while it has no processes itself. Containers inside need them for their limits.
 */
#define PROGRAMS "programs"
#define PROGRAMS_CGROUP CGROUP "/" PROGRAMS
#define SEEN_CGROUP "/sys/fs/cgroup"
/* For an agent that answers while everything else stands still. */
#define READER_CGROUP "/sys/fs/cgroup/reader"
#define SEED_MAX 256

int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd == -1)
        return -1;
    ssize_t written = write(fd, text, strlen(text));
    close(fd);
    return written == -1 ? -1 : 0;
}

long long read_number(const char *path, const char *key)
{
    char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return 0;
    ssize_t count = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (count <= 0)
        return 0;
    text[count] = 0;
    const char *at = key ? strstr(text, key) : text;
    return at ? atoll(at + (key ? strlen(key) : 0)) : 0;
}

static pid_t the_agent;

static void give_controllers(const char *cgroup)
{
    const char *names[] = {"+memory", "+pids", "+cpu"};
    char path[64];
    snprintf(path, sizeof(path), "%s/cgroup.subtree_control", cgroup);
    for (int i = 0; i < 3; i++)
        write_text(path, names[i]);
}

void make_cgroup(void)
{
    give_controllers("/sys/fs/cgroup");
    mkdir(CGROUP, 0755);
    mkdir(PROGRAMS_CGROUP, 0755);
}

void control_belongs_to(pid_t agent)
{
    the_agent = agent;
}

void join_cgroup(void)
{
    write_text(CGROUP "/cgroup.procs", "0");
}

void join_programs_cgroup(void)
{
    write_text(SEEN_CGROUP "/" PROGRAMS "/cgroup.procs", "0");
    give_controllers(SEEN_CGROUP);
}

static void answer(const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    link_send(FRAME_CONTROL, 0, text, (size_t)length);
}

static void answer_outcome(int outcome)
{
    if (outcome == 0)
        answer("ok");
    else
        answer("error %s", strerror(errno));
}

static int read_hex(const char *hex, unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned int byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
            return errno = EINVAL, -1;
        bytes[i] = (unsigned char)byte;
    }
    return 0;
}

/* Mixes bytes of the host into the kernel's generator and makes it use them at once. */
static int seed(const char *hex)
{
    struct {
        struct rand_pool_info info;
        unsigned char bytes[SEED_MAX];
    } pool;
    size_t count = strlen(hex) / 2;
    if (count > SEED_MAX)
        count = SEED_MAX;
    if (read_hex(hex, pool.bytes, count) == -1)
        return -1;
    pool.info.entropy_count = (int)count * 8;
    pool.info.buf_size = (int)count;
    int fd = open("/dev/random", O_WRONLY | O_CLOEXEC);
    if (fd == -1)
        return -1;
    int outcome = ioctl(fd, RNDADDENTROPY, &pool);
    if (outcome == 0)
        outcome = ioctl(fd, RNDRESEEDCRNG);
    close(fd);
    return outcome;
}

static int set_time(long long ns)
{
    struct timespec now = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return clock_settime(CLOCK_REALTIME, &now);
}

static int write_limit(const char *path, long long limit)
{
    char value[32];
    snprintf(value, sizeof(value), "%lld", limit);
    return write_text(path, limit == 0 ? "max" : value);
}

/* `limits MEMORY PIDS PAUSE`: above PAUSE bytes programs nearly stand still (0: never), above MEMORY one is ended. */
static int set_limits(const char *text)
{
    long long memory, pids, pause = 0;
    if (sscanf(text, "%lld %lld %lld", &memory, &pids, &pause) < 2)
        return errno = EINVAL, -1;
    if (write_limit(CGROUP "/memory.max", memory) == -1 || write_limit(CGROUP "/memory.high", pause) == -1)
        return -1;
    /* Some programs look for limits in their own cgroup only. Root of the sandbox may have removed it. */
    write_limit(PROGRAMS_CGROUP "/memory.max", memory);
    write_limit(PROGRAMS_CGROUP "/pids.max", pids);
    return write_limit(CGROUP "/pids.max", pids);
}

/* Stops all programs of the sandbox but the agent, which still answers. For a machine whose files are read. */
static int hold_programs(void)
{
    char pid[16];
    mkdir(READER_CGROUP, 0755);
    snprintf(pid, sizeof(pid), "%d", the_agent);
    if (write_text(READER_CGROUP "/cgroup.procs", pid) == -1)
        return -1;
    return write_text(CGROUP "/cgroup.freeze", "1");
}

long long held_bytes(void)
{
    const char *stat = CGROUP "/memory.stat";
    return read_number(stat, "anon ") + read_number(stat, "shmem ") + read_number(stat, "kernel ") -
           read_number(stat, "slab_reclaimable ");
}

static long long used_inodes(void)
{
    struct statvfs root;
    return statvfs("/", &root) == -1 ? 0 : (long long)(root.f_files - root.f_ffree);
}

/* For gate-hangup.c, which reports failures this way. */
bool failed(struct failure *failure, const char *step)
{
    failure->step = step;
    failure->error = errno;
    return false;
}

/*
 * Ends the connections to the outside, except those in `hex` (gate-ends.h): a program that waits for one would wait for
 * ever.
 */
static int hang_up(const char *hex)
{
    static _Alignas(4) unsigned char kept[FRAME_MAX_BYTES / 2];
    size_t size = strlen(hex) / 2;
    int count;
    struct failure failure = {0};
    if (read_hex(hex, kept, size) == -1)
        return -1;
    if (hang_up_outside(kept, size, &count, &failure))
        return 0;
    errno = failure.error;
    return -1;
}

/* `volume NUMBER ro|rw PATH` and `no-volume NUMBER PATH`; the path is in hex. */
static int change_volume(const char *text, bool mounts)
{
    char mode[3] = "rw", hex[2 * PATH_MAX + 1], path[PATH_MAX + 1] = {0};
    int number;
    if (mounts ? sscanf(text, "%d %2s %8192s", &number, mode, hex) != 3 : sscanf(text, "%d %8192s", &number, hex) != 2)
        return errno = EINVAL, -1;
    if (read_hex(hex, (unsigned char *)path, strlen(hex) / 2) == -1)
        return -1;
    return mounts ? mount_volume(number, strcmp(mode, "rw") != 0, path) : unmount_volume(number, path);
}

void answer_control(const char *command, size_t length)
{
    static char text[FRAME_MAX_BYTES + 1];
    if (length >= sizeof(text)) {
        answer("error too long");
        return;
    }
    memcpy(text, command, length);
    text[length] = 0;
    if (strncmp(text, "time ", 5) == 0)
        answer_outcome(set_time(atoll(text + 5)));
    else if (strncmp(text, "seed ", 5) == 0)
        answer_outcome(seed(text + 5));
    else if (strncmp(text, "hostname ", 9) == 0)
        answer_outcome(sethostname(text + 9, strlen(text + 9)));
    else if (strncmp(text, "limits ", 7) == 0)
        answer_outcome(set_limits(text + 7));
    else if (strncmp(text, "hang-up ", 8) == 0)
        answer_outcome(hang_up(text + 8));
    else if (strncmp(text, "volume ", 7) == 0)
        answer_outcome(change_volume(text + 7, true));
    else if (strncmp(text, "no-volume ", 10) == 0)
        answer_outcome(change_volume(text + 10, false));
    else if (strcmp(text, "sync") == 0) {
        sync();
        answer("ok");
    } else if (strcmp(text, "hold") == 0)
        answer_outcome(hold_programs());
    else if (strcmp(text, "usage") == 0)
        answer("ok %lld %lld %lld %lld %lld", read_number(CGROUP "/memory.current", NULL),
               read_number(CGROUP "/pids.current", NULL), read_number(CGROUP "/memory.events", "oom_kill "), held_bytes(),
               used_inodes());
    else
        answer("error unknown command");
}
