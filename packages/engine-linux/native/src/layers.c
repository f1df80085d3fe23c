/*
 * dormouse-layers scan LAYERS MOUNT_POINT
 * dormouse-layers merge|merge-links LAYERS MOUNT_POINT INTO
 *
 * Examines file layers, or merges several into one. LAYERS is the directory that contains them; names on standard input
 * are relative to it. MOUNT_POINT is an empty directory to mount overlays on, in a mount namespace of this process.
 * Input is a list of NUL-terminated records, top layer first: `layer=NAME`, then `below=PATH`; for scan also
 * `open=PATH` and `carried=PATH`.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "idle.h"
#include "layer-tree.h"
#include "report.h"

static void add(struct names *names, const char *value)
{
    names->items = reallocarray(names->items, names->count + 1, sizeof(*names->items));
    char *copy = strdup(value);
    if (!names->items || !copy)
        fail("input");
    names->items[names->count++] = copy;
}

static struct chain read_chain(void)
{
    struct chain chain = {0};
    const struct { const char *key; struct names *names; } lists[] = {
        {"layer=", &chain.layers}, {"below=", &chain.below}, {"open=", &chain.open}, {"carried=", &chain.carried},
    };
    char *record = NULL;
    size_t capacity = 0;
    while (getdelim(&record, &capacity, '\0', stdin) != -1) {
        size_t i = 0;
        while (i < 4 && strncmp(record, lists[i].key, strlen(lists[i].key)))
            i++;
        if (i == 4)
            refuse("input: unknown record %s", record);
        add(lists[i].names, record + strlen(lists[i].key));
    }
    if (ferror(stdin))
        fail("input");
    free(record);
    if (chain.layers.count == 0 || chain.below.count == 0 || chain.layers.count + chain.below.count > LAYERS_MAX)
        refuse("input: not a chain of layers");
    return chain;
}

/* Each level of directories needs one descriptor for each layer. */
static void use_all_descriptors(void)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit), "descriptors");
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit), "descriptors");
}

int main(int argc, char **argv)
{
    bool breaks_links = argc == 5 && !strcmp(argv[1], "merge-links");
    bool merges = breaks_links || (argc == 5 && !strcmp(argv[1], "merge"));
    if (!merges && (argc != 4 || strcmp(argv[1], "scan")))
        refuse("usage: dormouse-layers scan LAYERS MOUNT_POINT | merge|merge-links LAYERS MOUNT_POINT INTO");
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
    be_idle();
    use_all_descriptors();
    umask(0);
    struct chain chain = read_chain();
    CHECK(unshare(CLONE_NEWNS), "new mount namespace");
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "make mounts private");
    CHECK(chdir(argv[2]), "enter layers");
    if (merges)
        merge_layers(&chain, argv[3], argv[4], breaks_links);
    else
        scan_layers(&chain, argv[3]);
    return 0;
}
