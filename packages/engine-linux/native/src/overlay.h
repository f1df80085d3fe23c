#pragma once

/*
 * Mounts an overlay with these options, without devices. `lowerdir` may name up to 500 layers, the limit of overlayfs.
 * On kernels before 6.7 the options have to fit into one page.
 */
void mount_overlay(const char *target, const char *options);
