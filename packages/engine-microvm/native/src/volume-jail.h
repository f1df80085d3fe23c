#ifndef DORMOUSE_VOLUME_JAIL_H
#define DORMOUSE_VOLUME_JAIL_H

#include <stdbool.h>
#include <stdint.h>

struct volume_jail {
    const char *directory;
    bool is_read_only;
    /* The first id of sandboxes on this host, and how many there are. */
    uint32_t base, count;
    int pid_pipe;
};

/*
 * Continues in a child whose root is the volume: in namespaces of its own, as root of a user namespace with the ids of
 * sandboxes, with capabilities over files of those ids only, and unable to mount anything. The parent waits for
 * `volume_ready`, says so, and ends.
 */
void enter_volume(struct volume_jail *jail);
void volume_ready(const struct volume_jail *jail);

#endif
