#ifndef DORMOUSE_VOLUME_LOCKS_H
#define DORMOUSE_VOLUME_LOCKS_H

#include "volume-handles.h"
#include "volume-requests.h"

/*
 * Locks of the guest's processes. They hold against processes of the host and of other guests, because each is a lock of
 * this process: `flock` on the descriptor of the open file, and the others on a descriptor per file and owner.
 */

/* Locks that are waited for. Each keeps one of the guest's slots, and the request that ends the wait needs one, too. */
#define WAITING_MAX 16
#define LOCK_FILES_MAX 1024
#define RANGES_MAX 256

struct range {
    uint64_t start, end;
    /* F_RDLCK or F_WRLCK. */
    uint32_t type;
};

struct lock_file {
    struct lock_file *next;
    struct node *node;
    uint64_t owner;
    int fd;
    size_t range_count;
    struct range ranges[RANGES_MAX];
};

void serve_lock(const struct request *request, bool waits);
void serve_get_lock(const struct request *request);
/* A process has closed the file: it loses its locks there. */
void serve_flush(const struct request *request);
void serve_interrupt(const struct request *request);
/* Answers those that have got their lock. Returns whether some still wait. */
bool locks_retry(void);
/* Whether this request waits for a lock already. */
bool locks_wait_for(uint64_t unique);
/* Before an open file is closed. */
void locks_end(struct handle *handle);
void lock_files_each(void (*visit)(struct lock_file *file, void *context), void *context);
/* For locks of a saved volume. Return false with errno set. */
bool lock_restore(struct node *node, uint64_t owner, const struct range *range);
bool flock_restore(struct handle *handle, int type);

#endif
