#include "volume-handles.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static struct handle *handles[HANDLES_MAX];
static uint64_t next_id = 1;

/* The slot of a handle is its number modulo the size of the table, so a number is found at once. */
static struct handle *place(uint64_t id, struct node *node, int fd, uint32_t flags)
{
    struct handle *handle = handles[id % HANDLES_MAX] ? NULL : calloc(1, sizeof(*handle));
    if (!handle) {
        close(fd);
        errno = ENFILE;
        return NULL;
    }
    handle->id = id;
    handle->fd = fd;
    handle->node = node;
    handle->flags = flags;
    handle->next_of_node = node->handles;
    node->handles = handle;
    handles[id % HANDLES_MAX] = handle;
    return handle;
}

struct handle *handle_open(struct node *node, int fd, uint32_t flags, bool is_directory)
{
    for (int tried = 0; tried < HANDLES_MAX && handles[next_id % HANDLES_MAX]; tried++)
        next_id++;
    struct handle *handle = place(next_id, node, fd, flags);
    if (handle) {
        handle->is_directory = is_directory;
        next_id++;
    }
    return handle;
}

struct handle *handle_restore(uint64_t id, struct node *node, int fd, uint32_t flags, bool is_directory)
{
    struct handle *handle = place(id, node, fd, flags);
    if (handle)
        handle->is_directory = is_directory;
    return handle;
}

struct handle *handle_find(uint64_t id)
{
    struct handle *handle = handles[id % HANDLES_MAX];
    return handle && handle->id == id ? handle : NULL;
}

void handle_close(struct handle *handle)
{
    struct node *node = handle->node;
    for (struct handle **at = &node->handles; *at; at = &(*at)->next_of_node)
        if (*at == handle) {
            *at = handle->next_of_node;
            break;
        }
    handles[handle->id % HANDLES_MAX] = NULL;
    close(handle->fd);
    free(handle);
    node_release(node);
}

void handles_begin_at(uint64_t id)
{
    next_id = id;
}

uint64_t handles_next_id(void)
{
    return next_id;
}

void handles_each(void (*visit)(struct handle *handle, void *context), void *context)
{
    for (size_t i = 0; i < HANDLES_MAX; i++)
        if (handles[i])
            visit(handles[i], context);
}
