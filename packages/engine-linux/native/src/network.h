#pragma once

/*
 * Makes the network of the network namespace we are in: `lo`, the burrow's own addresses on it, and routes that call
 * every other address local. There is no other interface and never will be: what goes out goes through a socket that
 * the server has in here. Pre: proc is mounted at proc/, below the current directory, and can be written.
 */
void network_up(void);
