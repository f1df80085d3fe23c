#ifndef DORMOUSE_GUEST_KEPT_H
#define DORMOUSE_GUEST_KEPT_H

#include <sys/types.h>

/*
 * Keeps `rm -rf /` from what a machine needs to start programs, to sleep and to wake: device files, and the sockets of the
 * agent and of volumes. Against accidents only: root of a machine can undo it. Pre: the agent is ready.
 */
int keep_files(pid_t agent);

#endif
