#ifndef DORMOUSE_TAP_H
#define DORMOUSE_TAP_H

/*
 * Makes the host's end of the guest's network card in the current network namespace, and routes the burrow's own
 * addresses to it. Everything that the guest sends to other addresses is then received in this namespace, where the gate
 * listens. Pre: network_up() succeeded. Returns the descriptor that QEMU sends and receives frames with.
 */
int tap_up(void);

#endif
