/*
 * dormouse-volume BASE COUNT VOLUME stat|link PATH
 * dormouse-volume BASE COUNT VOLUME list PATH DEPTH ENTRIES_MAX
 * dormouse-volume BASE COUNT VOLUME read PATH OFFSET LENGTH
 * dormouse-volume BASE COUNT VOLUME write PATH MODE PARENTS APPEND BYTES_MAX
 * dormouse-volume BASE COUNT VOLUME mkdir PATH MODE PARENTS
 * dormouse-volume BASE COUNT VOLUME remove PATH RECURSIVE
 * dormouse-volume BASE COUNT VOLUME move FROM TO OVERWRITE
 * dormouse-volume BASE COUNT VOLUME sync /
 * dormouse-volume BASE COUNT VOLUME clone TARGET
 *
 * Shows and changes files of the volume in the directory VOLUME, which sandboxes may change at the same time. `write` takes
 * the content from standard input. MODE is a decimal number, or `-`. The others are 0 or 1.
 *
 * Sandboxes made these files. The process that works on them is root of a user namespace whose ids start at BASE, its
 * root is the volume, and it has no network. So a link leads only into the volume, even if it changes.
 *
 * Prints what dormouse-files prints, without names of users. `clone` prints `ok` when it has copied everything, and then
 * syncs it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "enter-view.h"
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

static void done(const char *path)
{
    printf("ok%c%c%c", 0, 0, 0);
    if (path)
        show_stat(path, false);
}

static void act(int argc, char **argv, int target)
{
    static const char *const NO_ACCOUNTS[] = {"", ""};
    char *action = argv[4], *path = argv[5];
    bool is_path = strcmp(action, "clone") != 0;
    if (is_path && (path[0] != '/' || strlen(path) >= PATH_MAX))
        answer_error(path[0] == '/' ? ENAMETOOLONG : EINVAL);
    if ((!strcmp(action, "stat") || !strcmp(action, "link")) && argc == 6) {
        show_path(action, path, NULL, NO_ACCOUNTS);
    } else if (!strcmp(action, "list") && argc == 8) {
        show_path(action, path, argv + 6, NO_ACCOUNTS);
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
    } else if (!strcmp(action, "sync") && argc == 6) {
        sync_volume(AT_FDCWD);
        done(NULL);
    } else if (!is_path && argc == 6) {
        clone_volume(target);
        done(NULL);
        /* Processes that waited for the copy can continue. */
        if (fflush(stdout))
            fail("write");
        sync_volume(target);
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
    raise_open_files();
    static const int KEPT[] = {CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE, CAP_CHOWN, CAP_FOWNER, CAP_FSETID};
    bool looks = !strcmp(argv[4], "stat") || !strcmp(argv[4], "link") || !strcmp(argv[4], "list") ||
                 !strcmp(argv[4], "read") || !strcmp(argv[4], "sync");
    enter_view(&(struct view){
        .directory = view,
        .base = argv[1],
        .count = argv[2],
        .kept = KEPT,
        .kept_count = looks ? 1 : sizeof(KEPT) / sizeof(*KEPT),
        .cpu_seconds = clones ? CLONE_CPU_SECONDS : CPU_SECONDS,
        .cleans_up = true,
    });
    umask(0);
    act(argc, argv, target);
    if (fflush(stdout))
        fail("write");
    return 0;
}
