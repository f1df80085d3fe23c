#include "overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "report.h"

/* mount(2) reads one page of options and silently drops the rest. */
#define OPTIONS_MAX_BYTES 4095
/* fsconfig(2) takes strings up to this length. */
#define VALUE_MAX_BYTES 255

/* Returns false when only mount(2) can set this option. mount(2) also gives the better error for an invalid value. */
static bool set_option(int context, const char *key, const char *value)
{
    if (strlen(value) > VALUE_MAX_BYTES)
        return false;
    if (fsconfig(context, FSCONFIG_SET_STRING, key, value, 0) == 0)
        return true;
    if (errno != EINVAL)
        fail("overlay: %s", key);
    return false;
}

static bool set_options(int context, char *options)
{
    for (char *rest = options, *option; (option = strsep(&rest, ","));) {
        char *value = strchr(option, '=');
        if (!value)
            return false;
        *value++ = '\0';
        if (strcmp(option, "lowerdir")) {
            if (!set_option(context, option, value))
                return false;
            continue;
        }
        for (char *layer; (layer = strsep(&value, ":"));)
            if (!set_option(context, "lowerdir+", layer))
                return false;
    }
    return true;
}

int new_overlay(const char *options)
{
    int context = fsopen("overlay", FSOPEN_CLOEXEC), overlay = -1;
    if (context == -1)
        return -1;
    char *copy = strdup(options);
    if (!copy)
        fail("overlay");
    /* A backslash escapes a separator; only mount(2) understands that. */
    if (!strchr(options, '\\') && set_option(context, "source", "overlay") && set_options(context, copy)) {
        CHECK(fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0), "mount overlay");
        overlay = CHECK(fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV), "mount overlay");
    }
    free(copy);
    close(context);
    return overlay;
}

void mount_overlay(const char *target, const char *options)
{
    int overlay = new_overlay(options);
    if (overlay != -1) {
        CHECK(move_mount(overlay, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH), "mount overlay");
        close(overlay);
        return;
    }
    if (strlen(options) > OPTIONS_MAX_BYTES)
        refuse("mount overlay: more file layers than this kernel can mount");
    CHECK(mount("overlay", target, "overlay", MS_NODEV, options), "mount overlay");
}
