/* Reads what volume-state.c writes. A hostile guest may have had the process that wrote it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"
#include "volume-handles.h"
#include "volume-records.h"
#include "volume-state.h"

static FILE *in;
static uint64_t ghost_bytes;
/* Parents, by the order of nodes: a child may come before its parent. */
static struct family {
    uint64_t child, parent;
} *families;
static size_t family_count;

static void get(void *record, size_t size)
{
    if (size > 0 && fread(record, size, 1, in) != 1)
        refuse("the state of the volume is cut off");
}

static void load_node(void)
{
    struct node_record record;
    char name[256];
    get(&record, sizeof(record));
    if (record.name_bytes == 0 || record.name_bytes >= sizeof(name) || family_count == NODES_MAX)
        refuse("the state of the volume is damaged");
    get(name, record.name_bytes);
    name[record.name_bytes] = 0;
    if (strlen(name) != record.name_bytes || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
        refuse("the state of the volume is damaged");
    struct node *node = node_restore(record.id, name, (struct identity){record.inode, record.born});
    if (!node)
        refuse("the state of the volume is damaged");
    node->lookups = record.lookups;
    if (record.is_gone)
        node_lose(node);
    if (family_count % 1024 == 0 && !(families = realloc(families, (family_count + 1024) * sizeof(*families))))
        fail("memory");
    families[family_count++] = (struct family){record.id, record.parent};
}

static void join_families(void)
{
    for (size_t i = 0; i < family_count; i++) {
        struct node *child = node_find(families[i].child), *parent = node_find(families[i].parent);
        char name[256];
        if (!child || !parent)
            continue;
        /* `node_move` replaces the name. */
        snprintf(name, sizeof(name), "%s", child->name);
        node_move(child, parent, name);
    }
    free(families);
    families = NULL;
    family_count = 0;
}

static struct node *node_or_refuse(uint64_t id)
{
    struct node *node = node_find(id);
    if (!node)
        refuse("the state of the volume is damaged");
    return node;
}

/* A file in memory instead of one that is not on the volume. */
static int make_ghost(struct node *node, mode_t mode)
{
    node->ghost = CHECK(memfd_create("deleted", MFD_CLOEXEC), "a deleted file");
    CHECK(fchmod(node->ghost, mode & 07777), "a deleted file");
    node_lose(node);
    return node->ghost;
}

/* Whether others have left a program as it was. */
static bool is_unchanged(const struct node *node, const struct ghost_record *record)
{
    struct statx stat;
    int fd = node_open(node, O_PATH);
    bool is_same = fd != -1 && file_describe(fd, &stat) && stat.stx_size == record->size &&
                   stat.stx_mtime.tv_sec * INT64_C(1000000000) + stat.stx_mtime.tv_nsec == record->modified;
    if (fd != -1)
        close(fd);
    return is_same;
}

static void load_content(bool is_program)
{
    static char data[IO_MAX_BYTES];
    struct ghost_record record;
    get(&record, sizeof(record));
    struct node *node = node_or_refuse(record.node);
    ghost_bytes += record.size;
    if (node->id == FUSE_ROOT_ID || node->ghost != -1 || record.size > NAMELESS_MAX_BYTES ||
        ghost_bytes > NAMELESS_MAX_BYTES + PROGRAMS_MAX_BYTES)
        refuse("the state of the volume is damaged");
    int fd = is_program && is_unchanged(node, &record) ? -1 : make_ghost(node, record.mode);
    if (fd != -1)
        CHECK(ftruncate(fd, (off_t)record.size), "a deleted file");
    if (fd != -1 && fchown(fd, record.uid, record.gid) == -1 && errno != EINVAL)
        fail("a deleted file");
    for (uint64_t at = 0; at < record.size;) {
        size_t count = record.size - at < sizeof(data) ? (size_t)(record.size - at) : sizeof(data);
        get(data, count);
        if (fd != -1 && CHECK(pwrite(fd, data, count, (off_t)at), "a deleted file") != (ssize_t)count)
            refuse("a deleted file");
        at += count;
    }
}

/* Opens it by its path. Another file may be there, which is the one from now on, if it is of the same kind. */
static int open_again(struct node *node, const struct handle_record *record)
{
    if (node->ghost != -1)
        return CHECK(fcntl(node->ghost, F_DUPFD_CLOEXEC, 0), "a deleted file");
    int flags = record->is_directory ? O_RDONLY | O_DIRECTORY : server_flags(record->flags & ~(uint32_t)O_TRUNC);
    int fd = node_open_any(node, flags);
    struct statx stat;
    if (fd != -1 && file_describe(fd, &stat) && (stat.stx_mode & S_IFMT) == (record->mode & S_IFMT)) {
        node_identify(node, identity_of(&stat));
        return fd;
    }
    if (fd != -1)
        close(fd);
    return node->id == FUSE_ROOT_ID ? -1 : CHECK(fcntl(make_ghost(node, record->mode), F_DUPFD_CLOEXEC, 0), "a deleted file");
}

static void load_handle(void)
{
    struct handle_record record;
    get(&record, sizeof(record));
    struct node *node = node_or_refuse(record.node);
    int fd = open_again(node, &record);
    struct handle *handle = fd == -1 ? NULL : handle_restore(record.id, node, fd, record.flags, record.is_directory);
    if (!handle)
        refuse("the state of the volume is damaged");
    bool is_lock = record.flock == LOCK_SH || record.flock == LOCK_EX;
    if (is_lock && !node->is_gone && !flock_restore(handle, record.flock))
        fail("lock");
}

static void load_lock(void)
{
    struct lock_record record;
    get(&record, sizeof(record));
    struct node *node = node_or_refuse(record.node);
    if (node->handles && !node->is_gone && !lock_restore(node, record.owner, &record.range))
        fail("lock");
}

static void load_slot(struct slot *slot)
{
    get(slot, sizeof(*slot));
    if (slot->length > sizeof(slot->answer))
        refuse("the state of the volume is damaged");
}

static void skip_text(void)
{
    char line[2 * PATH_MAX + 256];
    if (!fgets(line, sizeof(line), in) || strcmp(line, FIRST_LINE) != 0)
        refuse("this is not the state of a volume");
    while (fgets(line, sizeof(line), in))
        if (line[0] == '\n')
            return;
    refuse("the state of the volume is cut off");
}

void state_load(FILE *from, struct slot *slots)
{
    in = from;
    skip_text();
    size_t slot = 0;
    for (int kind, last = 'N'; (kind = fgetc(in)) != 'E'; last = kind) {
        if (last == 'N' && kind != 'N')
            join_families();
        if (kind == 'N' && last == 'N')
            load_node();
        else if (kind == 'G' || kind == 'P')
            load_content(kind == 'P');
        else if (kind == 'H')
            load_handle();
        else if (kind == 'L')
            load_lock();
        else if (kind == 'S' && slot < SLOTS)
            load_slot(&slots[slot++]);
        else
            refuse("the state of the volume is damaged");
    }
    struct end_record end;
    get(&end, sizeof(end));
    nodes_begin_at(end.next_node);
    handles_begin_at(end.next_handle);
}
