#include "layer-tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "overlay.h"
#include "report.h"

#define OPAQUE "trusted.overlay.opaque"
#define REDIRECT "trusted.overlay.redirect"

static void append(FILE *options, const struct names *names, bool *has_any)
{
    for (size_t i = 0; i < names->count; i++) {
        fprintf(options, "%s%s", *has_any ? ":" : "", names->items[i]);
        *has_any = true;
    }
}

int open_view(const char *mount_point, const struct names *upper, const struct names *lower)
{
    const char *place = mount_point;
    /* The kernel refuses an overlay of a single directory. */
    if (upper->count + lower->count == 1) {
        place = upper->count ? upper->items[0] : lower->items[0];
    } else {
        char *text = NULL;
        size_t length = 0;
        FILE *options = open_memstream(&text, &length);
        if (!options)
            fail("options");
        bool has_any = false;
        fputs("lowerdir=", options);
        append(options, upper, &has_any);
        append(options, lower, &has_any);
        /* xino=off: inode numbers are those of the files in the layers. */
        fputs(",redirect_dir=follow,index=off,metacopy=off,xino=off", options);
        if (fclose(options))
            fail("options");
        mount_overlay(mount_point, text);
        free(text);
    }
    return CHECK(open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open view");
}

int open_entry(int directory, const char *name, int flags)
{
    return openat(directory, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

bool find_entry(int directory, const char *name, struct stat *status)
{
    if (fstatat(directory, name, status, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    if (errno != ENOENT && errno != ENOTDIR)
        fail("stat %s", name);
    return false;
}

bool is_whiteout(const struct stat *status)
{
    return S_ISCHR(status->st_mode) && status->st_rdev == makedev(0, 0);
}

bool is_opaque(int directory)
{
    char value;
    return fgetxattr(directory, OPAQUE, &value, 1) == 1 && value == 'y';
}

bool is_redirected(int directory)
{
    return fgetxattr(directory, REDIRECT, NULL, 0) > 0;
}

void each_entry(int directory, void (*visit)(const char *name, void *context), void *context)
{
    int own = CHECK(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open directory");
    DIR *stream = fdopendir(own);
    if (!stream)
        fail("read directory");
    errno = 0;
    for (struct dirent *entry; (entry = readdir(stream)); errno = 0)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            visit(entry->d_name, context);
    if (errno)
        fail("read directory");
    closedir(stream);
}
