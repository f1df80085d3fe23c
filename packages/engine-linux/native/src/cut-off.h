#pragma once

#include <sys/types.h>

/* What the exit status says when a dump was cut off and the burrow ended with it. src/criu/run-criu.ts knows it too. */
#define CUT_OFF 124

/*
 * Waits for a CRIU that saves. A dump that is cut off leaves foreign code in processes, which must never run: when it
 * takes longer than `seconds`, or a signal ends it, PID 1 of the burrow is killed, and with it everything in its pid
 * namespace. The server need not be alive for that. Returns the exit status to end with.
 */
int wait_for_saver(pid_t saver, int first_process, long seconds);
