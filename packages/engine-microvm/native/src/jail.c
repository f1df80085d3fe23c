/*
 * Starts a program that may serve a hostile guest: in namespaces of its own, in cgroups, in a root that has only what
 * is bound into it, as a uid that owns nothing else, with seccomp filters, without capabilities and without a way to get
 * any.
 *
 * dormouse-jail [--cgroup DIRECTORY]… --root EMPTY_DIRECTORY --uid UID --filter FILE… [--ro SOURCE TARGET]…
 *   [--rw SOURCE TARGET]… [--device PATH]… [--dir TARGET]… [--env NAME=VALUE]… [--tap DESCRIPTOR] [--later]
 *   -- PROGRAM ARGUMENT…
 * With --device the program gets a device file of its own for a device below /dev, whatever the rights of the host's file.
 * With --tap the program gets the host's end of a network card at this descriptor.
 * Writes `pid N` when the program has been started, or `error …`. The program outlives the caller.
 * With --later it then reads what else the program may read, when that is known: lines `SOURCE<tab>TARGET` and an empty
 * line. It binds them, read-only, and writes `bound`. The targets are files in directories that --dir made.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bind-later.h"
#include "filters.h"
#include "join-cgroup.h"
#include "network.h"
#include "report.h"
#include "tap.h"

#define ENTRIES_MAX 700

struct entry {
    /* r: read-only, w: writable, d: an empty directory that root can fill later, v: device */
    char kind;
    const char *source, *target;
};

static struct entry entries[ENTRIES_MAX];
static size_t entry_count;
static const char *root_directory;
static uid_t uid;
static char *environment[32] = {NULL};
static size_t environment_count;
static char **program;
static int tap_fd = -1;
static bool binds_later;

static void add_entry(char kind, const char *source, const char *target)
{
    if (entry_count == ENTRIES_MAX || target[0] != '/')
        refuse("too many entries, or a target without /");
    entries[entry_count++] = (struct entry){kind, source, target + 1};
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i < argc;) {
        const char *option = argv[i];
        int left = argc - i - 1;
        if (strcmp(option, "--") == 0 && left > 0) {
            program = argv + i + 1;
            break;
        } else if (strcmp(option, "--cgroup") == 0 && left > 0) {
            if (!join_cgroup(argv[i + 1]))
                fail("cgroup");
            i += 2;
        } else if (strcmp(option, "--root") == 0 && left > 0) {
            root_directory = argv[i + 1];
            i += 2;
        } else if (strcmp(option, "--uid") == 0 && left > 0) {
            uid = (uid_t)strtoul(argv[i + 1], NULL, 10);
            i += 2;
        } else if (strcmp(option, "--filter") == 0 && left > 0) {
            filters_add(argv[i + 1]);
            i += 2;
        } else if (strcmp(option, "--tap") == 0 && left > 0) {
            tap_fd = atoi(argv[i + 1]);
            i += 2;
        } else if (strcmp(option, "--dir") == 0 && left > 0) {
            add_entry('d', "", argv[i + 1]);
            i += 2;
        } else if (strcmp(option, "--device") == 0 && left > 0) {
            add_entry('v', argv[i + 1], argv[i + 1]);
            i += 2;
        } else if (strcmp(option, "--later") == 0) {
            binds_later = true;
            i++;
        } else if (strcmp(option, "--env") == 0 && left > 0 && environment_count < 31) {
            environment[environment_count++] = argv[i + 1];
            i += 2;
        } else if ((strcmp(option, "--ro") == 0 || strcmp(option, "--rw") == 0) && left > 1) {
            add_entry(option[3] == 'o' ? 'r' : 'w', argv[i + 1], argv[i + 2]);
            i += 3;
        } else {
            refuse("bad option %s", option);
        }
    }
    if (!program || !root_directory || uid == 0 || filters_count() == 0)
        refuse("a program, a root, a uid and a filter are needed");
}

/* Makes the directories above a target, and the target itself: a directory, or a file to mount over. */
static void make_target(const char *target, bool is_directory)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", target);
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0755) == -1 && errno != EEXIST)
            fail("%s", path);
        *slash = '/';
    }
    if (is_directory ? mkdir(path, 0755) == -1 && errno != EEXIST : close(CHECK(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644), "%s", path)) == -1)
        fail("%s", path);
}

/* Kernel rule: the rights of a device are those of the file it is opened by. /dev/kvm often belongs to root alone. */
static void make_device(const struct entry *entry)
{
    struct stat source;
    CHECK(stat(entry->source, &source), "%s", entry->source);
    if (!S_ISCHR(source.st_mode))
        refuse("%s is not a character device", entry->source);
    CHECK(mknod(entry->target, S_IFCHR | 0600, source.st_rdev), "%s", entry->target);
    CHECK(chown(entry->target, uid, uid), "%s", entry->target);
}

/* A file system of its own: that of the root allows no devices. */
static void make_devices(void)
{
    CHECK(mkdir("dev", 0755), "dev");
    CHECK(mount("tmpfs", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k"), "dev");
    for (size_t i = 0; i < entry_count; i++)
        if (entries[i].kind == 'v')
            make_device(&entries[i]);
    CHECK(mount(NULL, "dev", NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC | MS_RDONLY, NULL), "dev");
}

static void bind_entry(const struct entry *entry)
{
    if (entry->kind == 'v')
        return;
    if (entry->kind == 'd') {
        CHECK(mkdir(entry->target, 0755), "%s", entry->target);
        CHECK(mount("tmpfs", entry->target, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755,size=1m"), "%s", entry->target);
        return;
    }
    struct stat source;
    CHECK(stat(entry->source, &source), "%s", entry->source);
    make_target(entry->target, S_ISDIR(source.st_mode));
    CHECK(mount(entry->source, entry->target, NULL, MS_BIND, NULL), "binding %s", entry->target);
    unsigned long flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | (entry->kind == 'r' ? MS_RDONLY : 0);
    CHECK(mount(NULL, entry->target, NULL, flags, NULL), "%s", entry->target);
}

static void make_root(void)
{
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
    CHECK(mount("tmpfs", root_directory, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m"), "root");
    CHECK(chdir(root_directory), "root");
    for (size_t i = 0; i < entry_count; i++)
        bind_entry(&entries[i]);
    make_devices();
    CHECK(mkdir("proc", 0555), "proc");
    CHECK(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "proc");
    network_up();
    /* Not close-on-exec: QEMU inherits it. */
    if (tap_fd != -1)
        CHECK(dup2(tap_up(), tap_fd), "tap");
    CHECK(umount2("proc", MNT_DETACH), "proc");
    CHECK(mount(NULL, ".", NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_RDONLY, NULL), "read-only root");
    CHECK(syscall(SYS_pivot_root, ".", "."), "pivot_root");
    CHECK(umount2(".", MNT_DETACH), "old root");
    CHECK(chdir("/"), "/");
}

static void drop_privileges(void)
{
    /* Huge pages would copy 2 MiB for one changed byte. */
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), "huge pages");
    CHECK(setgroups(0, NULL), "groups");
    CHECK(setresgid(uid, uid, uid), "gid");
    /* Before the uid: afterwards the bounding set can no longer be changed. */
    CHECK(prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0), "capabilities");
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
        CHECK(prctl(PR_CAPBSET_DROP, capability), "bounding set");
    /* Kernel rule: when no uid is 0 any more, all capabilities are gone. */
    CHECK(setresuid(uid, uid, uid), "uid");
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
}

static void keep_only_standard_streams(int also)
{
    int null = CHECK(open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null");
    CHECK(dup2(null, 0), "stdin");
    CHECK(dup2(null, 1), "stdout");
    for (int fd = 3; fd < 1024; fd++)
        if (fd != also && fd != tap_fd)
            close(fd);
}

int main(int argc, char **argv)
{
    report_to(STDOUT_FILENO);
    parse(argc, argv);
    CHECK(unshare(CLONE_NEWPID), "namespaces");
    int started[2];
    CHECK(pipe2(started, O_CLOEXEC), "pipe");
    pid_t pid = CHECK(fork(), "fork");
    if (pid == 0) {
        report_to(started[1]);
        /* Here, not above: this process stays among the mounts of the host, to bind some of them later. */
        CHECK(unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS), "namespaces");
        CHECK(setsid(), "session");
        make_root();
        drop_privileges();
        keep_only_standard_streams(started[1]);
        filters_load();
        execve(program[0], program, environment);
        fail("%s", program[0]);
    }
    close(started[1]);
    char line[512];
    ssize_t count = read(started[0], line, sizeof(line) - 1);
    if (count > 0) {
        line[count] = 0;
        waitpid(pid, NULL, 0);
        report("%.*s", (int)strcspn(line, "\n"), line);
        return 1;
    }
    report("pid %d", pid);
    if (binds_later) {
        /* A program that ends meanwhile leaves nothing behind. */
        signal(SIGCHLD, SIG_IGN);
        bind_later(pid);
    }
    return 0;
}
