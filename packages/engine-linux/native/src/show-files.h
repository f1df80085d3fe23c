#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sys/stat.h>

/*
 * What dormouse-files and dormouse-volume print, see files.c. Call these only in a process that is confined to the files
 * it shows: paths follow links.
 */
noreturn void answer_error(int error);
/* A decimal number of the command line. */
uint64_t number(const char *text);
void print_entry(int directory, const char *name, const char *path, const struct stat *stat);
void show_stat(const char *path, bool follows);
/* The names in a directory, and how many there are. */
char **sorted_names(int fd, size_t *count);
/* In name order, directories before their contents, at most `entries_max`. Closes `fd`. */
void list_entries(int fd, const char *path, long depth, long entries_max);
/* Prints `ok` and the record of a regular file, then its bytes. */
void print_file(const char *path, uint64_t offset, uint64_t length);
/*
 * Prints `ok`, the accounts, and the record of a path. `list` prints those of the entries below it instead: `numbers` are
 * the depth and the most entries.
 */
void show_path(const char *action, char *path, char **numbers, const char *const accounts[2]);
/* Limits memory and CPU time, and forbids more processes. */
void bound_self(unsigned cpu_seconds);
