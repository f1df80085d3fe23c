#include "volume-nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BUCKETS 65536
#define DEPTH_MAX 1000

static struct node *by_id[BUCKETS], *by_inode[BUCKETS];
static struct node root = {.id = FUSE_ROOT_ID, .lookups = 1, .ghost = -1};
static uint64_t next_id = FUSE_ROOT_ID + 1;
static uint32_t node_count;
static int root_fd = -1;

static size_t bucket_of(uint64_t number)
{
    return (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 48) % BUCKETS;
}

static void insert_by_id(struct node *node)
{
    struct node **bucket = &by_id[bucket_of(node->id)];
    node->next_by_id = *bucket;
    *bucket = node;
}

static void insert_by_inode(struct node *node)
{
    struct node **bucket = &by_inode[bucket_of(node->inode)];
    node->next_by_inode = *bucket;
    *bucket = node;
}

static void remove_by_inode(struct node *node)
{
    for (struct node **at = &by_inode[bucket_of(node->inode)]; *at; at = &(*at)->next_by_inode)
        if (*at == node) {
            *at = node->next_by_inode;
            return;
        }
}

void nodes_open(int fd)
{
    root_fd = fd;
    insert_by_id(&root);
    struct statx stat;
    if (file_describe(fd, &stat)) {
        struct identity identity = identity_of(&stat);
        root.inode = identity.inode;
        root.born = identity.born;
    }
    insert_by_inode(&root);
}

int nodes_root_fd(void)
{
    return root_fd;
}

void nodes_begin_at(uint64_t id)
{
    next_id = id;
}

uint64_t nodes_next_id(void)
{
    return next_id;
}

struct node *node_find(uint64_t id)
{
    for (struct node *node = by_id[bucket_of(id)]; node; node = node->next_by_id)
        if (node->id == id)
            return node;
    return NULL;
}

struct node *node_with(struct identity identity)
{
    for (struct node *node = by_inode[bucket_of(identity.inode)]; node; node = node->next_by_inode)
        if (node->inode == identity.inode && node->born == identity.born && !node->is_gone)
            return node;
    return NULL;
}

static struct node *make_node(uint64_t id, const char *name, struct identity identity)
{
    if (node_count == NODES_MAX)
        return NULL;
    struct node *node = calloc(1, sizeof(*node));
    char *copy = node ? strdup(name) : NULL;
    if (!copy) {
        free(node);
        return NULL;
    }
    node->id = id;
    node->name = copy;
    node->inode = identity.inode;
    node->born = identity.born;
    node->ghost = -1;
    insert_by_id(node);
    insert_by_inode(node);
    node_count++;
    return node;
}

struct node *node_at(struct node *parent, const char *name, struct identity identity)
{
    struct node *node = node_with(identity);
    if (!node && (node = make_node(next_id, name, identity)))
        next_id++;
    if (node)
        node_move(node, parent, name);
    return node;
}

struct node *node_restore(uint64_t id, const char *name, struct identity identity)
{
    return node_find(id) ? NULL : make_node(id, name, identity);
}

void node_move(struct node *node, struct node *parent, const char *name)
{
    if (node == &root || (node->parent == parent && strcmp(node->name, name) == 0))
        return;
    /* Others may move directories meanwhile, so that what the guest knows could become a circle. */
    int depth = 0;
    for (const struct node *above = parent; above; above = above->parent)
        if (above == node || ++depth > DEPTH_MAX)
            return;
    char *copy = strdup(name);
    if (!copy)
        return;
    struct node *old = node->parent;
    free(node->name);
    node->name = copy;
    node->parent = parent;
    parent->child_count++;
    if (old) {
        old->child_count--;
        node_release(old);
    }
}

void node_identify(struct node *node, struct identity identity)
{
    remove_by_inode(node);
    node->inode = identity.inode;
    node->born = identity.born;
    insert_by_inode(node);
}

void node_lose(struct node *node)
{
    if (!node->is_gone)
        remove_by_inode(node);
    node->is_gone = true;
}

void node_forget(struct node *node, uint64_t count)
{
    node->lookups -= count < node->lookups ? count : node->lookups;
    node_release(node);
}

void node_release(struct node *node)
{
    while (node && node != &root && node->lookups == 0 && node->child_count == 0 && !node->handles) {
        struct node *parent = node->parent;
        if (!node->is_gone)
            remove_by_inode(node);
        for (struct node **at = &by_id[bucket_of(node->id)]; *at; at = &(*at)->next_by_id)
            if (*at == node) {
                *at = node->next_by_id;
                break;
            }
        if (node->ghost != -1)
            close(node->ghost);
        free(node->name);
        free(node);
        node_count--;
        if (parent)
            parent->child_count--;
        node = parent;
    }
}

void nodes_each(void (*visit)(struct node *node, void *context), void *context)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct node *node = by_id[i]; node; node = node->next_by_id)
            visit(node, context);
}

bool node_path(const struct node *node, char path[PATH_MAX])
{
    if (node == &root) {
        strcpy(path, ".");
        return true;
    }
    char *at = path + PATH_MAX - 1;
    *at = 0;
    for (const struct node *part = node; part != &root; part = part->parent) {
        if (!part->parent || part->is_gone)
            return errno = ESTALE, false;
        size_t length = strlen(part->name);
        if ((size_t)(at - path) < length + 1)
            return errno = ENAMETOOLONG, false;
        if (*at)
            *--at = '/';
        at -= length;
        memcpy(at, part->name, length);
    }
    memmove(path, at, strlen(at) + 1);
    return true;
}

static int open_below_root(const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
}

int node_open_any(const struct node *node, int flags)
{
    char path[PATH_MAX];
    return node_path(node, path) ? open_below_root(path, flags) : -1;
}

int node_open(const struct node *node, int flags)
{
    struct statx stat;
    int fd = node_open_any(node, flags);
    if (fd == -1)
        return -1;
    struct identity found;
    if (file_describe(fd, &stat) && (found = identity_of(&stat)).inode == node->inode && found.born == node->born)
        return fd;
    close(fd);
    errno = ESTALE;
    return -1;
}

int node_open_parent(const struct node *node)
{
    char path[PATH_MAX];
    if (!node->parent)
        return errno = ESTALE, -1;
    return node_path(node->parent, path) ? open_below_root(path, O_PATH | O_DIRECTORY) : -1;
}

bool file_describe(int fd, struct statx *stat)
{
    return statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, stat) == 0;
}

struct identity identity_of(const struct statx *stat)
{
    bool is_known = stat->stx_mask & STATX_BTIME;
    int64_t born = is_known ? stat->stx_btime.tv_sec * INT64_C(1000000000) + stat->stx_btime.tv_nsec : 0;
    return (struct identity){stat->stx_ino, born};
}
