#pragma once

#include <stddef.h>
#include <sys/types.h>

/* A list of file ranges and the directories that its names are in. All strings belong to the struct. */
struct read_ahead {
    /*
     * Lines: `m NAME` for a memory file, `f PATH` for a file of the template, then `OFFSET LENGTH` for each of its
     * ranges, in the order in which to read them. A file may be named more than once. The list may be missing or
     * damaged: then less is read.
     */
    char *list;
    char *memory;
    char *images;
    char *root;
};

/*
 * Reads a snapshot into the page cache: first its images and the listed ranges, then the rest of its memory files. Does
 * nothing when the first part is in the page cache already. Frees `work`.
 */
void read_ahead(struct read_ahead *work);

/*
 * Appends a line `PID START END w` for each range of addresses at which the process has written pages, and then a line
 * `PID START END` for each at which it has any in memory. The kernel maps pages around those that a process reads, so
 * only the first are known to be needed. PID is the process's pid in its own namespace. Returns the new length of the
 * text, at most `capacity`.
 */
size_t list_touched(pid_t pid, char *text, size_t length, size_t capacity);
