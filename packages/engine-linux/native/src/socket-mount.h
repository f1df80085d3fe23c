#pragma once

#include <stdint.h>

/*
 * Makes a file system for the agent's socket and returns its mount, not attached yet. `owner` can create one file in
 * it.
 */
int make_socket_mount(uint32_t owner);
