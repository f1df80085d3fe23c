#ifndef DORMOUSE_VOLUME_NODES_H
#define DORMOUSE_VOLUME_NODES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * The files of a volume that a guest knows, by the numbers that its kernel uses for them. A node is found again by its
 * path, so that it has a meaning after a sleep, too. Other sandboxes may have put another file there: `inode` and `born`
 * tell.
 */

/* A guest of 1 GB cannot remember more files than this. */
#define NODES_MAX (1u << 20)

struct handle;

struct node {
    struct node *next_by_id, *next_by_inode;
    uint64_t id;
    uint64_t inode;
    /* Nanoseconds; file systems use an inode number again. */
    int64_t born;
    /* How often the guest's kernel was told this number, less those that it forgot. */
    uint64_t lookups;
    struct node *parent;
    char *name;
    uint32_t child_count;
    /* Its open files. They are the file also when the path is not. */
    struct handle *handles;
    /*
     * No path leads to it, and no look-up finds it: the file was removed while the guest slept, or before. Then `ghost`
     * is a file in memory that takes its place.
     */
    bool is_gone;
    int ghost;
};

struct identity {
    uint64_t inode;
    int64_t born;
};

/* The directory of the volume becomes the root. */
void nodes_open(int root_fd);
int nodes_root_fd(void);
/* Numbers of a server that knows nothing of an earlier one must not be those that the guest has from it. */
void nodes_begin_at(uint64_t id);
uint64_t nodes_next_id(void);
struct node *node_find(uint64_t id);
/* The node of the file with this name. Makes one if there is none. Null when there are too many. */
struct node *node_at(struct node *parent, const char *name, struct identity identity);
struct node *node_with(struct identity identity);
/* For nodes of a saved volume. Null when the number is taken. */
struct node *node_restore(uint64_t id, const char *name, struct identity identity);
void node_move(struct node *node, struct node *parent, const char *name);
void node_identify(struct node *node, struct identity identity);
/* After this no look-up finds it. */
void node_lose(struct node *node);
void node_forget(struct node *node, uint64_t count);
/* Frees it if nothing refers to it. */
void node_release(struct node *node);
void nodes_each(void (*visit)(struct node *node, void *context), void *context);

/* The path from the root, without a slash at the beginning; `.` for the root. Returns false with errno set. */
bool node_path(const struct node *node, char path[PATH_MAX]);
/* Opens its file by path, without following links. Returns -1 with errno set: ESTALE when another file is there. */
int node_open(const struct node *node, int flags);
/* The same, whatever file is there. */
int node_open_any(const struct node *node, int flags);
/* Opens the directory that it is in. Pre: it is not the root. */
int node_open_parent(const struct node *node);

bool file_describe(int fd, struct statx *stat);
struct identity identity_of(const struct statx *stat);

#endif
