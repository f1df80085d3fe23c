/*
 * dormouse-volume BASE COUNT VOLUME stat|link PATH
 * dormouse-volume BASE COUNT VOLUME list PATH DEPTH ENTRIES_MAX
 * dormouse-volume BASE COUNT VOLUME read PATH OFFSET LENGTH
 * dormouse-volume BASE COUNT VOLUME write PATH MODE PARENTS APPEND BYTES_MAX
 * dormouse-volume BASE COUNT VOLUME mkdir PATH MODE PARENTS
 * dormouse-volume BASE COUNT VOLUME remove PATH RECURSIVE
 * dormouse-volume BASE COUNT VOLUME move FROM TO OVERWRITE
 * dormouse-volume BASE COUNT VOLUME clone TARGET
 *
 * Shows and changes files of the volume in the directory VOLUME, which sandboxes may change at the same time. `write` takes
 * the content from standard input. MODE is a decimal number, or `-`. The others are 0 or 1.
 *
 * Sandboxes made these files. The process that works on them is root of a user namespace whose ids start at BASE, its
 * root is the volume, and it has no network. So a link leads only into the volume, even if it changes.
 *
 * Prints what dormouse-files prints, without names of users.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capabilities.h"
#include "namespaces.h"
#include "report.h"
#include "show-files.h"
#include "volume.h"

#define CPU_SECONDS 20
/* Gigabytes without shared blocks, and millions of files. */
#define CLONE_CPU_SECONDS 3600

static int mode_of(const char *text)
{
    return strcmp(text, "-") ? (int)number(text) : -1;
}

static void show(char **argv, const char *action, const char *path)
{
    int fd = -1;
    bool lists = !strcmp(action, "list"), follows = strcmp(action, "link");
    struct stat stat;
    if (fstatat(AT_FDCWD, path, &stat, follows ? 0 : AT_SYMLINK_NOFOLLOW))
        answer_error(errno);
    if (lists && (fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
        answer_error(errno);
    printf("ok%c%c%c", 0, 0, 0);
    if (lists)
        list_entries(fd, path, (long)number(argv[6]), (long)number(argv[7]));
    else
        show_stat(path, follows);
}

static void done(const char *path)
{
    printf("ok%c%c%c", 0, 0, 0);
    if (path)
        show_stat(path, false);
}

static void act(int argc, char **argv, int target)
{
    const char *action = argv[4], *path = argv[5];
    bool is_path = strcmp(action, "clone") != 0;
    if (is_path && (path[0] != '/' || strlen(path) >= PATH_MAX))
        answer_error(path[0] == '/' ? ENAMETOOLONG : EINVAL);
    if ((!strcmp(action, "stat") || !strcmp(action, "link")) && argc == 6) {
        show(argv, action, path);
    } else if (!strcmp(action, "list") && argc == 8) {
        show(argv, action, path);
    } else if (!strcmp(action, "read") && argc == 8) {
        print_file(path, number(argv[6]), number(argv[7]));
    } else if (!strcmp(action, "write") && argc == 10) {
        write_path(path, mode_of(argv[6]), number(argv[7]) == 1, number(argv[8]) == 1, number(argv[9]));
        done(path);
    } else if (!strcmp(action, "mkdir") && argc == 8) {
        make_directory(path, mode_of(argv[6]), number(argv[7]) == 1);
        done(path);
    } else if (!strcmp(action, "remove") && argc == 7) {
        remove_path(path, number(argv[6]) == 1);
        done(NULL);
    } else if (!strcmp(action, "move") && argc == 8) {
        if (argv[6][0] != '/')
            answer_error(EINVAL);
        move_path(path, argv[6], number(argv[7]) == 1);
        done(argv[6]);
    } else if (!is_path && argc == 6) {
        clone_volume(target);
        done(NULL);
    } else {
        refuse("unknown action: %s", action);
    }
}

/* A tree may be as deep as its maker likes, and each level is held open. */
static void raise_open_files(void)
{
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files), "limit of files");
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files), "limit of files");
}

int main(int argc, char **argv)
{
    if (argc < 6)
        refuse("usage: dormouse-volume BASE COUNT VOLUME ACTION PATH [ARGUMENTS]");
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
    bool clones = !strcmp(argv[4], "clone");
    int view = CHECK(open(argv[3], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), "open volume");
    int target = clones ? CHECK(open(argv[5], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), "open target") : -1;
    int mapped[2];
    CHECK(pipe2(mapped, O_CLOEXEC), "pipe");
    raise_open_files();
    pid_t child = fork_into(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS, 0);
    if (child > 0) {
        map_ids(child, (uint32_t)number(argv[1]), (uint32_t)number(argv[2]));
        CHECK(write(mapped[1], "1", 1), "start");
        /* The child has the only readers and writers of the streams. */
        close(STDIN_FILENO);
        int status;
        while (waitpid(child, &status, 0) == -1)
            if (errno != EINTR)
                fail("wait");
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    char go;
    close(mapped[1]);
    if (read(mapped[0], &go, 1) != 1)
        _exit(1);
    become_inner_root();
    /* Not SIGKILL: a write that is cut off removes what it has written. */
    CHECK(prctl(PR_SET_PDEATHSIG, SIGTERM), "pdeathsig");
    CHECK(fchdir(view), "enter volume");
    CHECK(chroot("."), "chroot");
    close(view);
    static const int KEPT[] = {CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE, CAP_CHOWN, CAP_FOWNER, CAP_FSETID};
    bool looks = !strcmp(argv[4], "stat") || !strcmp(argv[4], "link") || !strcmp(argv[4], "list") ||
                 !strcmp(argv[4], "read");
    if (!keep_capabilities(capability_mask(KEPT, looks ? 1 : sizeof(KEPT) / sizeof(*KEPT))))
        fail("drop capabilities");
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    umask(0);
    bound_self(clones ? CLONE_CPU_SECONDS : CPU_SECONDS);
    act(argc, argv, target);
    if (fflush(stdout))
        fail("write");
    return 0;
}
