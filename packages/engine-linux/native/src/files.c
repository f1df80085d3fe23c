/*
 * dormouse-files BASE COUNT LAYERS MOUNT_POINT USER stat|link PATH
 * dormouse-files BASE COUNT LAYERS MOUNT_POINT USER list PATH DEPTH ENTRIES_MAX
 * dormouse-files BASE COUNT LAYERS MOUNT_POINT USER read PATH OFFSET LENGTH
 *
 * Shows files of a snapshot that no burrow runs on. Standard input names its layers, top first, each with a NUL after
 * it, relative to the directory LAYERS or absolute. MOUNT_POINT is an empty directory to mount them on, in a mount
 * namespace of this process. A relative PATH starts at the home directory of USER.
 *
 * A sandbox made these files. The process that looks at them is root of a user namespace whose ids start at BASE, its
 * root is the view of the layers, it has no network, and the only capability it keeps is to read everything there. So a
 * link leads nowhere but into the snapshot. It opens directories and regular files only, and the mount has no devices.
 *
 * Prints records of strings that end with a NUL: `ok`, the beginnings of /etc/passwd and /etc/group, then for each file
 * `TYPE MODE UID GID SIZE MODIFIED_MS`, its path, and the target of a link. After the record of `read` come the bytes.
 * A failure prints `error ERRNO` instead of `ok`.
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
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "enter-view.h"
#include "layer-tree.h"
#include "report.h"
#include "show-files.h"

/* What names of users and groups are taken from. */
#define ACCOUNTS_BYTES (256 * 1024)
#define CPU_SECONDS 20

static struct names read_layers(void)
{
    struct names layers = {0};
    char *record = NULL;
    size_t capacity = 0;
    while (getdelim(&record, &capacity, '\0', stdin) != -1) {
        layers.items = reallocarray(layers.items, layers.count + 1, sizeof(*layers.items));
        char *copy = strdup(record);
        if (!layers.items || !copy)
            fail("input");
        layers.items[layers.count++] = copy;
    }
    free(record);
    if (ferror(stdin) || layers.count == 0)
        refuse("input: no layers");
    return layers;
}

/* The beginning of a file as text, empty when there is none. */
static char *read_start(const char *path)
{
    char *text = calloc(1, ACCOUNTS_BYTES + 1);
    if (!text)
        fail("memory");
    struct stat stat;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd == -1)
        return text;
    size_t length = 0;
    if (!fstat(fd, &stat) && S_ISREG(stat.st_mode))
        for (ssize_t count; length < ACCOUNTS_BYTES; length += (size_t)count)
            if ((count = read(fd, text + length, ACCOUNTS_BYTES - length)) <= 0)
                break;
    close(fd);
    for (size_t i = 0; i < length; i++)
        if (!text[i])
            text[i] = '\n';
    return text;
}

/* The sixth field of the user's line. */
static void find_home(const char *passwd, const char *user, char home[PATH_MAX])
{
    size_t length = strlen(user);
    strcpy(home, "/");
    for (const char *line = passwd; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        if (strncmp(line, user, length) || line[length] != ':')
            continue;
        const char *field = line;
        for (int i = 0; i < 5 && field; i++)
            field = (field = strpbrk(field, ":\n")) && *field == ':' ? field + 1 : NULL;
        size_t size = field ? strcspn(field, ":\n") : 0;
        if (size > 0 && size < PATH_MAX && *field == '/')
            snprintf(home, PATH_MAX, "%.*s", (int)size, field);
        return;
    }
}

static void look(int argc, char **argv)
{
    const char *user = argv[5], *action = argv[6];
    char *passwd = read_start("/etc/passwd"), *group = read_start("/etc/group");
    char home[PATH_MAX], path[2 * PATH_MAX];
    find_home(passwd, user, home);
    if (strlen(argv[7]) >= PATH_MAX)
        answer_error(ENAMETOOLONG);
    snprintf(path, sizeof(path), "%s%s%s", argv[7][0] == '/' ? "" : home, argv[7][0] == '/' ? "" : "/", argv[7]);
    if (!strcmp(action, "read") && argc == 10) {
        print_file(path, number(argv[8]), number(argv[9]));
        return;
    }
    show_path(action, path, argv + 8, (const char *[]){passwd, group});
}

int main(int argc, char **argv)
{
    if (argc < 8)
        refuse("usage: dormouse-files BASE COUNT LAYERS MOUNT_POINT USER stat|link|list|read PATH [NUMBER NUMBER]");
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
    struct names layers = read_layers(), none = {0};
    CHECK(unshare(CLONE_NEWNS), "new mount namespace");
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "make mounts private");
    CHECK(chdir(argv[3]), "enter layers");
    static const int KEPT[] = {CAP_DAC_READ_SEARCH};
    enter_view(&(struct view){
        .directory = open_view(argv[4], &layers, &none),
        .base = argv[1],
        .count = argv[2],
        .kept = KEPT,
        .kept_count = 1,
        .cpu_seconds = CPU_SECONDS,
    });
    look(argc, argv);
    if (fflush(stdout))
        fail("write");
    return 0;
}
