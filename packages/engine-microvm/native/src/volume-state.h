#ifndef DORMOUSE_VOLUME_STATE_H
#define DORMOUSE_VOLUME_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "volume-requests.h"

/*
 * What a guest knows of a volume, and has open there, over a sleep. Text that the engine reads, an empty line, and
 * records: see volume-state.c.
 */

/* An answer that the guest may not have received. */
#define KEPT_ANSWER_BYTES 256

struct slot {
    uint64_t unique;
    uint32_t length;
    unsigned char answer[KEPT_ANSWER_BYTES];
};

/* Writes everything to this descriptor, and closes it. Pre: no request is being answered. */
bool state_save(int fd, const struct slot *slots);
/* Reads what an earlier server saved. Ends the process if it is damaged, or if a lock cannot be had again. */
void state_load(FILE *from, struct slot *slots);

#endif
