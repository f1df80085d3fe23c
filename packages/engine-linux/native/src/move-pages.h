#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A pages image, or a memory file. */
struct source {
    int fd;
    const char *bytes;
    uint64_t size;
};

/* A new pages image, or a memory file. */
struct target {
    int fd;
    uint64_t size;
    /* False once the file system has refused to share blocks between these files. */
    bool can_clone;
    bool is_memory;
    /* Checksum so far of a memory file. No page is written twice. */
    uint64_t checksum;
};

void open_source(struct source *source, const char *path);
void close_source(struct source *source);

/* Both create a new, sparse file. */
void open_pages(struct target *kept, const char *path);
void open_memory(struct target *memory, const char *path, uint64_t size);
void close_target(struct target *target);

/* Copies whole pages; zero pages become holes. */
void move_pages(const struct source *source, struct target *memory, uint64_t from, uint64_t to, uint64_t length);
/* Copies from another memory file; its holes stay holes. */
void copy_base(const struct source *source, struct target *memory, uint64_t from, uint64_t to, uint64_t length);
/* Returns how many bytes of a range are not holes. */
uint64_t count_data(const struct source *source, uint64_t from, uint64_t length);
/* Appends pages. */
void keep_pages(const struct source *source, struct target *kept, uint64_t from, uint64_t length);
