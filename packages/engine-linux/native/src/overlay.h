#pragma once

/*
 * Mounts an overlay with these options, without devices. `lowerdir` may name up to 500 layers, the limit of overlayfs.
 * On kernels before 6.7 the options have to fit into one page.
 */
void mount_overlay(const char *target, const char *options);
/* Makes such a mount that is not attached yet. Returns -1 where only mount(2) can make it. */
int new_overlay(const char *options);
