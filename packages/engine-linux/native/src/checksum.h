#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PAGE_BYTES 4096u

/*
 * The checksum of a file: XXH64 of each of its pages, seeded with the page's number, added up. Pages of zeros count for
 * nothing, so a hole and the zeros it stands for are the same. Pages may come in any order, which is how memory is
 * moved. It finds accidents. Whoever can forge it can write the manifest as well.
 */
/* XXH64. */
uint64_t bytes_checksum(const char *at, uint64_t length, uint64_t seed);
bool is_zero_page(const char *page);
/* `length` is PAGE_BYTES but for the last page of a file. */
uint64_t page_checksum(const char *page, uint64_t length, uint64_t number);
uint64_t file_checksum(int fd, const char *path);
