#pragma once

#include <linux/filter.h>
#include <stdbool.h>

/* Reads a seccomp program that export-filters wrote. false with errno set. */
bool filter_read(const char *path, struct sock_fprog *program);
/* Pre: no_new_privs. Everything that this process becomes or starts keeps the filter. false with errno set. */
bool filter_load(const struct sock_fprog *program);
