#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A pages image. */
struct source {
    int fd;
    const char *bytes;
    uint64_t size;
};

/* A new pages image, or a memory file. */
struct target {
    int fd;
    uint64_t size;
    /* False once the file system said that it cannot share blocks between these files. */
    bool can_clone;
    bool is_memory;
    /* Pages went over other pages: only reading it tells the checksum. */
    bool is_layered;
    /* Of a memory file that is not. */
    uint64_t checksum;
};

void open_source(struct source *source, const char *path);
void close_source(struct source *source);

/* Post: it is new, and sparse. */
void open_pages(struct target *kept, const char *path);
void open_memory(struct target *memory, const char *path, uint64_t size);
void close_target(struct target *target);

/* Copies whole pages; pages of zeros become holes. */
void move_pages(const struct source *source, struct target *memory, uint64_t from, uint64_t to, uint64_t length);
/* The source is a memory file itself: its holes stay holes. */
void copy_base(const struct source *source, struct target *memory, uint64_t from, uint64_t to, uint64_t length);
/* As move_pages, but zero pages count: there may be other bytes in their place. */
void overwrite_pages(const struct source *source, struct target *memory, uint64_t from, uint64_t to, uint64_t length);
/* Appends them. */
void keep_pages(const struct source *source, struct target *kept, uint64_t from, uint64_t length);
