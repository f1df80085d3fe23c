/*
 * dormouse-quota DIRECTORY
 *
 * Limits directories below DIRECTORY with project quotas, which the kernel enforces. Reads lines and prints one for
 * each:
 *
 *   new NAME BYTES FILES     gives an empty directory a project of its own with these limits
 *   limit NAME BYTES FILES   changes the limits of its project
 *   use NAME                 shows what its project uses
 *   free NAME                removes the limits of its project
 *
 * Prints `hard BYTES FILES` with what is used, or `measured` if the kernel enforces nothing for this directory. FILES
 * does not count the directory itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/quota.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report.h"

#define PROJECT_QUOTA 2
#define BLOCK_BYTES 1024
/* Above the numbers that administrators write into /etc/projects. */
#define FIRST_PROJECT (1u << 30)
#define TRIES 100
#define NAME_MAX_CHARACTERS 255

static int quota(int fd, int command, uint32_t project, void *argument)
{
    return (int)syscall(SYS_quotactl_fd, fd, QCMD(command, PROJECT_QUOTA), project, argument);
}

/* Accounting alone refuses nothing. */
static bool is_enforced(int fd)
{
    struct fs_quota_statv state = {.qs_version = FS_QSTATV_VERSION1};
    return quota(fd, Q_XGETQSTATV, 0, &state) == 0 && state.qs_flags & FS_QUOTA_PDQ_ENFD;
}

/* 0 if the directory has none. */
static uint32_t project_of(int fd)
{
    struct fsxattr attributes;
    if (ioctl(fd, FS_IOC_FSGETXATTR, &attributes))
        return 0;
    return attributes.fsx_xflags & FS_XFLAG_PROJINHERIT ? attributes.fsx_projid : 0;
}

static bool set_limits(int fd, uint32_t project, uint64_t bytes, uint64_t files)
{
    struct dqblk limits = {
        .dqb_bhardlimit = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES,
        .dqb_ihardlimit = files ? files + 1 : 0,
        .dqb_valid = QIF_LIMITS,
    };
    return quota(fd, Q_SETQUOTA, project, &limits) == 0;
}

static bool get_use(int fd, uint32_t project, struct dqblk *use)
{
    memset(use, 0, sizeof(*use));
    /* XFS has no record of a project that was never used. */
    return quota(fd, Q_GETQUOTA, project, use) == 0 || errno == ENOENT;
}

/* A number that no directory of this file system has; 0 if none was found. */
static uint32_t free_project(int fd)
{
    for (int i = 0; i < TRIES; i++) {
        uint32_t number;
        struct dqblk use;
        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
            fail("random");
        number |= FIRST_PROJECT;
        if (number != UINT32_MAX && get_use(fd, number, &use) && !use.dqb_curspace && !use.dqb_curinodes &&
            !use.dqb_bhardlimit && !use.dqb_ihardlimit)
            return number;
    }
    return 0;
}

/* The limits come first: what is written to the directory from then on counts. */
static bool give_project(int fd, uint64_t bytes, uint64_t files)
{
    struct fsxattr attributes;
    uint32_t project = is_enforced(fd) ? free_project(fd) : 0;
    if (!project || ioctl(fd, FS_IOC_FSGETXATTR, &attributes) || !set_limits(fd, project, bytes, files))
        return false;
    attributes.fsx_projid = project;
    attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    if (ioctl(fd, FS_IOC_FSSETXATTR, &attributes) == 0)
        return true;
    set_limits(fd, project, 0, 0);
    return false;
}

static void answer(int fd, bool is_hard)
{
    struct dqblk use;
    uint32_t project = is_hard ? project_of(fd) : 0;
    if (project && is_enforced(fd) && get_use(fd, project, &use))
        printf("hard %" PRIu64 " %" PRIu64 "\n", (uint64_t)use.dqb_curspace,
               (uint64_t)use.dqb_curinodes - (use.dqb_curinodes > 0));
    else
        printf("measured\n");
}

static void obey(int root, const char *line)
{
    char verb[8], name[NAME_MAX_CHARACTERS + 1];
    uint64_t bytes = 0, files = 0;
    int count = sscanf(line, "%7s %255s %" SCNu64 " %" SCNu64, verb, name, &bytes, &files);
    bool limits = count == 4 && bytes > 0;
    if (count < 2 || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
        refuse("not a command: %s", line);
    int fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    uint32_t project = fd == -1 ? 0 : project_of(fd);
    if (!strcmp(verb, "new") && limits)
        answer(fd, fd != -1 && !project && give_project(fd, bytes, files));
    else if (!strcmp(verb, "limit") && limits)
        answer(fd, project && set_limits(fd, project, bytes, files));
    else if (!strcmp(verb, "free") && count == 2)
        answer(fd, project && set_limits(fd, project, 0, 0));
    else if (!strcmp(verb, "use") && count == 2)
        answer(fd, true);
    else
        refuse("not a command: %s", line);
    if (fd != -1)
        close(fd);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        refuse("usage: dormouse-quota DIRECTORY");
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
    int root = CHECK(open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open %s", argv[1]);
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) != -1)
        obey(root, line);
    if (ferror(stdin) || fflush(stdout))
        fail("input");
    return 0;
}
