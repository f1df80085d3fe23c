#ifndef DORMOUSE_RELAY_H
#define DORMOUSE_RELAY_H

/* Serves the link on this port until the agent ends; then says how it ended and returns. */
void relay(int port, int agent_pid);

#endif
