#pragma once

#include <stddef.h>

/* Nobody waits for this process from now on: whatever else the host has to do comes first. */
void be_idle(void);
/*
 * To be told of what was written. An idle process stays close behind the disk: others who sync would have to wait for
 * the rest.
 */
void wrote(int fd, size_t bytes);
