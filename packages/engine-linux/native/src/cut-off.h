#pragma once

#include <sys/types.h>

/* Exit status after a dump was cut off and the burrow killed. src/criu/run-criu.ts uses the same number. */
#define CUT_OFF 124

/*
 * Waits for a CRIU that saves. An interrupted dump leaves CRIU's code in the processes, which must never run. So when
 * the dump takes longer than `seconds`, or a signal ends it, this kills PID 1 of the burrow and with it every process
 * in its pid namespace. That works even when the server has ended. Returns the exit status to end with.
 */
int wait_for_saver(pid_t saver, int first_process, long seconds);
