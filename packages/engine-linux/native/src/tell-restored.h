#pragma once

/*
 * Tells the engine that the memory and the files of all processes are restored, sockets included. None of them has run
 * yet. Does nothing when it was told before, and in a process that CRIU is restoring.
 */
void tell_restored(void);
