/*
 * Merges several layers into one. The names come from the layers; what they mean comes from the kernel. A name that a
 * view of the whole chain does not show is deleted, and needs a whiteout if a view of the layers below shows it. Only
 * two of overlayfs' own marks are read, and two written: an opaque directory hides everything below. A renamed
 * directory would have to be followed under another path, so all of it is copied as the view shows it, and the copy is
 * opaque.
 */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "copy-file.h"
#include "layer-tree.h"
#include "report.h"

#define NOTHING (-1)

/* A directory of the result while it is being made. */
struct place {
    const int *sources; /* the same directory in the contributing layers, top first; none below a renamed one */
    size_t count;
    size_t current;     /* the source whose names are being visited */
    int view;           /* the directory as all layers together show it */
    int below;          /* the directory as the layers below show it, or NOTHING */
    int into;
};

struct linked {
    dev_t device;
    ino_t inode;
    char *path;
};

static int result;
static bool may_break_links;
/* Path of the entry being made, relative to the root of the result. Paths longer than PATH_MAX are refused. */
static char path[PATH_MAX];
static void *links;

static void visit(const char *name, void *context);

static int compare_linked(const void *one, const void *other)
{
    const struct linked *a = one, *b = other;
    if (a->inode != b->inode)
        return a->inode < b->inode ? -1 : 1;
    return a->device < b->device ? -1 : a->device > b->device;
}

/* Returns true when the file was already copied under another name; then it has linked that copy. */
static bool link_to_copy(const struct stat *status, int into, const char *name)
{
    if (status->st_nlink < 2)
        return false;
    struct linked *entry = malloc(sizeof(*entry));
    if (!entry)
        fail("links");
    *entry = (struct linked){.device = status->st_dev, .inode = status->st_ino};
    struct linked **found = tsearch(entry, &links, compare_linked);
    if (!found)
        fail("links");
    if (*found != entry) {
        free(entry);
        CHECK(linkat(result, (*found)->path, into, name, 0), "link %s", path);
        return true;
    }
    entry->path = strdup(path);
    if (!entry->path)
        fail("links");
    return false;
}

static void copy_symlink(int from, int into, const char *name, const struct stat *status)
{
    char target[PATH_MAX];
    ssize_t length = CHECK(readlinkat(from, name, target, sizeof(target) - 1), "read link %s", path);
    target[length] = '\0';
    CHECK(symlinkat(target, into, name), "make link %s", path);
    CHECK(fchownat(into, name, status->st_uid, status->st_gid, AT_SYMLINK_NOFOLLOW), "own %s", path);
}

static void copy_special(int into, const char *name, const struct stat *status)
{
    CHECK(mknodat(into, name, status->st_mode, status->st_rdev), "make %s", path);
    CHECK(fchownat(into, name, status->st_uid, status->st_gid, AT_SYMLINK_NOFOLLOW), "own %s", path);
    CHECK(fchmodat(into, name, status->st_mode & 07777, 0), "mode of %s", path);
}

/*
 * Copies anything except a directory. `from` is its directory in the layer that has it, where blocks can be shared, or
 * in the view.
 */
static void copy_entry(int from, int into, const char *name, const struct stat *status)
{
    if (link_to_copy(status, into, name))
        return;
    if (S_ISREG(status->st_mode)) {
        int source = CHECK(open_entry(from, name, O_RDONLY | O_NOATIME), "open %s", path);
        int target = CHECK(openat(into, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), "make %s", path);
        copy_content(source, target, path);
        copy_metadata(source, target, path, false);
        close(source);
        CHECK(close(target), "close %s", path);
        return;
    }
    if (S_ISLNK(status->st_mode))
        copy_symlink(from, into, name, status);
    else
        copy_special(into, name, status);
    const struct timespec times[] = {status->st_atim, status->st_mtim};
    CHECK(utimensat(into, name, times, AT_SYMLINK_NOFOLLOW), "times of %s", path);
}

/* The same directory in the sources from `current` down, as far as they are shown together. */
struct descent {
    int sources[LAYERS_MAX];
    size_t count;
    bool is_renamed;
    /* An entry in the layers hides the layers below. */
    bool is_cut;
};

static void descend(const struct place *place, const char *name, struct descent *descent)
{
    descent->count = 0;
    descent->is_renamed = descent->is_cut = false;
    for (size_t i = place->current; i < place->count && !descent->is_cut; i++) {
        struct stat status;
        if (!find_entry(place->sources[i], name, &status))
            continue;
        if (!S_ISDIR(status.st_mode)) {
            descent->is_cut = true;
            break;
        }
        int source = CHECK(open_entry(place->sources[i], name, O_RDONLY | O_DIRECTORY), "open %s", path);
        descent->sources[descent->count++] = source;
        descent->is_renamed |= is_redirected(source);
        descent->is_cut = is_opaque(source);
    }
}

static void make_directory(const struct place *outer, const char *name)
{
    struct descent *descent = malloc(sizeof(*descent));
    if (!descent)
        fail("memory");
    descend(outer, name, descent);
    bool is_whole = outer->count == 0 || descent->is_renamed;
    CHECK(mkdirat(outer->into, name, 0700), "make %s", path);
    struct place inner = {
        .sources = descent->sources,
        .count = is_whole ? 0 : descent->count,
        .view = CHECK(open_entry(outer->view, name, O_RDONLY | O_DIRECTORY), "open %s", path),
        .below = NOTHING,
        .into = CHECK(open_entry(outer->into, name, O_RDONLY | O_DIRECTORY), "open %s", path),
    };
    bool is_opaque_now = descent->is_renamed || descent->is_cut;
    if (!is_whole && !is_opaque_now && outer->below != NOTHING) {
        inner.below = open_entry(outer->below, name, O_RDONLY | O_DIRECTORY);
        if (inner.below == -1 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
            fail("open %s below", path);
    }
    if (inner.count == 0)
        each_entry(inner.view, visit, &inner);
    for (; inner.current < inner.count; inner.current++)
        each_entry(inner.sources[inner.current], visit, &inner);
    if (is_opaque_now)
        CHECK(fsetxattr(inner.into, "trusted.overlay.opaque", "y", 1, 0), "mark %s", path);
    copy_metadata(inner.view, inner.into, path, false);
    if (inner.below != NOTHING)
        close(inner.below);
    close(inner.view);
    close(inner.into);
    for (size_t i = 0; i < descent->count; i++)
        close(descent->sources[i]);
    free(descent);
}

static void make_entry(const struct place *place, const char *name)
{
    struct stat status;
    for (size_t i = 0; i < place->current; i++)
        if (find_entry(place->sources[i], name, &status))
            return; /* A higher layer has already decided this name. */
    if (!find_entry(place->view, name, &status)) {
        if (place->below != NOTHING && find_entry(place->below, name, &status))
            CHECK(mknodat(place->into, name, S_IFCHR, makedev(0, 0)), "hide %s", path);
    } else if (S_ISDIR(status.st_mode)) {
        make_directory(place, name);
    } else {
        if (place->count == 0 && status.st_nlink > 1 && !may_break_links)
            refuse("hard links in a renamed directory");
        copy_entry(place->count > 0 ? place->sources[place->current] : place->view, place->into, name, &status);
    }
}

static void visit(const char *name, void *context)
{
    size_t length = strlen(path);
    int added = snprintf(path + length, sizeof(path) - length, "%s%s", length ? "/" : "", name);
    if ((size_t)added >= sizeof(path) - length)
        refuse("a path in the layers is too long");
    make_entry(context, name);
    path[length] = '\0';
}

void merge_layers(const struct chain *chain, const char *mount_point, const char *into, bool breaks_links)
{
    may_break_links = breaks_links;
    const struct names none = {0};
    int *sources = calloc(chain->layers.count, sizeof(*sources));
    if (!sources)
        fail("memory");
    for (size_t i = 0; i < chain->layers.count; i++)
        sources[i] = CHECK(open(chain->layers.items[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open layer");
    result = CHECK(open(into, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open target");
    struct place root = {
        .sources = sources,
        .count = chain->layers.count,
        .view = open_view(mount_point, &chain->layers, &chain->below),
        .below = open_view(mount_point, &none, &chain->below),
        .into = result,
    };
    for (; root.current < root.count; root.current++)
        each_entry(sources[root.current], visit, &root);
    copy_metadata(root.view, result, "the root", false);
}
