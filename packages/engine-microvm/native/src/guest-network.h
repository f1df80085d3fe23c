#ifndef DORMOUSE_GUEST_NETWORK_H
#define DORMOUSE_GUEST_NETWORK_H

/* Brings up the loopback, and the network card with the burrow's addresses and default routes. Returns -1 with errno. */
int guest_network_up(void);

#endif
