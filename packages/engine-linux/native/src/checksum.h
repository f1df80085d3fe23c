#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PAGE_BYTES 4096u

/*
 * The checksum of a file is the sum of the XXH64 of each page, seeded with the page's number. Zero pages count as 0, so
 * a hole has the same checksum as the zeros it stands for. Because it is a sum, pages can be added in any order, as
 * they are moved. It detects accidents, not attacks: an attacker who could forge it could also rewrite the manifest.
 */
/* XXH64. */
uint64_t bytes_checksum(const char *at, uint64_t length, uint64_t seed);
bool is_zero_page(const char *page);
/* `length` is PAGE_BYTES except for the last page of a file. */
uint64_t page_checksum(const char *page, uint64_t length, uint64_t number);
uint64_t file_checksum(int fd, const char *path);
