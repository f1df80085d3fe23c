#pragma once

#include <stdint.h>
#include <stdio.h>

#include "move-pages.h"

/*
 * A folded pages image holds what differs from the memory files that its pages are mapped from: see
 * docs/decisions/0118-folded-pages.md. All numbers are little-endian, as in memory. After the magic come records:
 *   'b' u16 LENGTH, NAME        the memory file that the following records refer to
 *   'd' u64 AT, u64 MAP[8], WORDS   one page: that of the file at AT, with other words where the map has a bit
 *   'r' 4096 bytes              one page
 *   'z'                         one page of zeros
 */
FILE *make_folded(const char *path);
void close_folded(FILE *folded, const char *path);
/* Pages from `from` of the source. `base`: the memory file that they are mapped from, at `at`; NULL for none. */
void fold_pages(FILE *folded, const struct source *source, const struct source *base, uint64_t from, uint64_t at, uint64_t length);
void fold_base(FILE *folded, const char *name);
/* Appends all pages of the folded image `source` to `kept`. Memory files are in the directory `memory`. */
void unfold_pages(const struct source *source, struct target *kept, const char *memory);
