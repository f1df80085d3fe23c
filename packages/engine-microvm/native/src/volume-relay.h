#ifndef DORMOUSE_VOLUME_RELAY_H
#define DORMOUSE_VOLUME_RELAY_H

/*
 * Passes requests of the kernel for one mounted volume to the client that connects to the listener, and answers back. Never
 * returns. A request stays here until its answer has come: a new connection gets it again, with the same slot, so that
 * the server knows whether it has done it already.
 */
void relay_volume(int fuse, int listener);

#endif
