#ifndef DORMOUSE_VOLUME_HANDLES_H
#define DORMOUSE_VOLUME_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "volume-nodes.h"

/* Files and directories that a guest has open. Each has a descriptor here. */
#define HANDLES_MAX 4096

struct handle {
    struct handle *next_of_node;
    uint64_t id;
    int fd;
    struct node *node;
    /* As they were opened with, and will be after a sleep. */
    uint32_t flags;
    bool is_directory;
    /* LOCK_SH, LOCK_EX or 0. */
    int flock;
};

/* Takes the descriptor. Null with errno set, and the descriptor is closed, when too many are open. */
struct handle *handle_open(struct node *node, int fd, uint32_t flags, bool is_directory);
/* For open files of a saved volume. */
struct handle *handle_restore(uint64_t id, struct node *node, int fd, uint32_t flags, bool is_directory);
struct handle *handle_find(uint64_t id);
void handle_close(struct handle *handle);
void handles_begin_at(uint64_t id);
uint64_t handles_next_id(void);
void handles_each(void (*visit)(struct handle *handle, void *context), void *context);

#endif
