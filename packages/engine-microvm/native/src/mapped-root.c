/*
 * Runs a program as root of a user namespace: dormouse-mapped-root UID_BASE UID_COUNT LOWER MOUNT_POINT PROGRAM ARGUMENT…
 * The program sees the directories LOWER, top first and with colons between, as one at MOUNT_POINT, read-only.
 * Files of a template belong to shifted uids on the host; the program sees them with the uids of the sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what)
{
    fprintf(stderr, "dormouse-mapped-root: %s: %s\n", what, strerror(errno));
    _exit(125);
}

static void write_map(pid_t pid, const char *name, const char *base, const char *count)
{
    char path[64], text[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    int length = snprintf(text, sizeof(text), "0 %s %s\n", base, count);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd == -1 || write(fd, text, (size_t)length) != length)
        fail(path);
    close(fd);
}

/* In a mount namespace of our own: it ends with us. */
static void stack_directories(const char *lower, const char *mount_point)
{
    char options[4096];
    bool is_one = !strchr(lower, ':');
    if (snprintf(options, sizeof(options), "lowerdir=%s", lower) >= (int)sizeof(options))
        errno = ENAMETOOLONG, fail("too many layers");
    if (unshare(CLONE_NEWNS) == -1 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == -1)
        fail("mount namespace");
    /* overlayfs wants two directories or more. */
    if (is_one ? mount(lower, mount_point, NULL, MS_BIND, NULL) == -1
               : mount("overlay", mount_point, "overlay", MS_RDONLY | MS_NODEV | MS_NOSUID, options) == -1)
        fail("layers");
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        errno = EINVAL;
        fail("usage");
    }
    stack_directories(argv[3], argv[4]);
    int made[2], mapped[2];
    if (pipe2(made, O_CLOEXEC) == -1 || pipe2(mapped, O_CLOEXEC) == -1)
        fail("pipe");
    pid_t pid = fork();
    if (pid == -1)
        fail("fork");
    char byte = 0;
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER) == -1)
            fail("user namespace");
        if (write(made[1], &byte, 1) != 1 || read(mapped[0], &byte, 1) != 1)
            fail("mapping");
        if (setgroups(0, NULL) == -1 || setresgid(0, 0, 0) == -1 || setresuid(0, 0, 0) == -1)
            fail("root");
        execvp(argv[5], argv + 5);
        fail(argv[5]);
    }
    close(made[1]);
    if (read(made[0], &byte, 1) == 1) {
        write_map(pid, "uid_map", argv[1], argv[2]);
        write_map(pid, "gid_map", argv[1], argv[2]);
        if (write(mapped[1], &byte, 1) != 1)
            fail("mapping");
    }
    close(mapped[1]);
    int status;
    if (waitpid(pid, &status, 0) == -1)
        fail("wait");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 124;
}
