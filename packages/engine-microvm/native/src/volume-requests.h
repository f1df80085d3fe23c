#ifndef DORMOUSE_VOLUME_REQUESTS_H
#define DORMOUSE_VOLUME_REQUESTS_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "volume-nodes.h"

/* The relay in the guest (guest-volume.c) has the same numbers. */
#define IO_MAX_BYTES (128u << 10)
#define REQUEST_MAX_BYTES (IO_MAX_BYTES + 4096)
#define SLOTS 64

/* A request of the guest's kernel, as it came: nothing in it is checked but its length. */
struct request {
    const struct fuse_in_header *header;
    const void *body;
    size_t length;
};

/* Whether the body has at least this many bytes. Answers EINVAL otherwise. */
bool has_body(const struct request *request, size_t size);
/*
 * Whether there is a name at this offset of the body: a text with an end that names something in a directory. Answers
 * EINVAL otherwise.
 */
const char *name_at(const struct request *request, size_t offset);
void answer(const struct request *request, const void *data, size_t length);
void answer_error(const struct request *request, int error);
/* Success without content, or the error in errno. */
void answer_outcome(const struct request *request, int outcome);
void answer_entry(const struct request *request, struct node *parent, const char *name);
struct fuse_attr attributes_of(const struct statx *stat);
/* The node of the request. Answers ESTALE when there is none. */
struct node *node_of(const struct request *request);
/* Fills `entry` with a node that the guest knows once more afterwards. False with errno set. */
bool describe_entry(struct node *parent, const char *name, struct fuse_entry_out *entry);

/* Names: volume-names.c. */
void serve_lookup(const struct request *request);
void serve_forget(const struct request *request);
void serve_batch_forget(const struct request *request);
void serve_create(const struct request *request);
void serve_mknod(const struct request *request);
void serve_mkdir(const struct request *request);
void serve_symlink(const struct request *request);
void serve_link(const struct request *request);
void serve_remove(const struct request *request, int flags);
void serve_rename(const struct request *request);
void serve_readlink(const struct request *request);
/* Attributes: volume-attributes.c. */
void serve_getattr(const struct request *request);
void serve_setattr(const struct request *request);
void serve_statfs(const struct request *request);
/* Open files: volume-files.c. */
/*
 * The flags that a file is opened with here. What the guest's kernel handles itself, and what would make this process wait,
 * is left out. A file that is written can be read, too: its content may have to be saved.
 */
int server_flags(uint32_t flags);
void serve_open(const struct request *request, bool is_directory);
void serve_release(const struct request *request);
void serve_read(const struct request *request);
void serve_write(const struct request *request);
void serve_readdir(const struct request *request);
void serve_fsync(const struct request *request);
void serve_fallocate(const struct request *request);
void serve_seek(const struct request *request);

#endif
