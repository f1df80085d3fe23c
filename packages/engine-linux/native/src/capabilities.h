#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What root of a burrow has, and so every process in it. src/snapshot/inspect-processes.ts checks it. */
uint64_t burrow_capabilities(void);
uint64_t capability_mask(const int *capabilities, size_t count);
/* Drops all others, for good: from the bounding set too. false with errno set. */
bool keep_capabilities(uint64_t mask);
