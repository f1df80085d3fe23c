#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The capabilities of root in a burrow, and the most that any process in it has. src/snapshot/inspect-processes.ts
 * checks this.
 */
uint64_t burrow_capabilities(void);
uint64_t capability_mask(const int *capabilities, size_t count);
/* Drops all other capabilities for good, also from the bounding set. Returns false with errno set. */
bool keep_capabilities(uint64_t mask);
