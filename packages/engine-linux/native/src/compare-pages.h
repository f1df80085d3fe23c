#pragma once

#include <stdint.h>

#include "move-pages.h"

/* Prints `same FROM LENGTH` for every run of pages from `from` that is equal to the base's pages from `at`. */
void tell_same(const struct source *source, const struct source *base, uint64_t from, uint64_t at, uint64_t length);
