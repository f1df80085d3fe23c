#pragma once

#include <linux/filter.h>
#include <stdbool.h>

/* Reads a seccomp program that export-filters wrote. Returns false with errno set. */
bool filter_read(const char *path, struct sock_fprog *program);
/* Loads a filter for good; children inherit it. Pre: no_new_privs is set. Returns false with errno set. */
bool filter_load(const struct sock_fprog *program);
