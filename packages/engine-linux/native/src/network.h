#pragma once

/*
 * Sets up the current network namespace: `lo`, the burrow's own addresses on it, and routes that make every other
 * address local. There is no other interface: traffic leaves through the gate's sockets. Pre: proc is mounted at proc/
 * below the current directory, writable.
 */
void network_up(void);
