#ifndef DORMOUSE_GUEST_PRESSURE_H
#define DORMOUSE_GUEST_PRESSURE_H

#include <stdbool.h>

/*
 * Near its memory limit a sandbox may stand still for minutes: its kernel takes the pages of running programs back and
 * reads them from the disk again, and believes that it gets on. PID 1 ends a program when the sandbox has done little
 * else for some seconds. It uses no time while the limit is not reached.
 */

void watch_pressure(void);

/* To be polled for POLLPRI, or -1 while there is nothing to wait for. */
int pressure_fd(void);

/* When to call `relieve_pressure` at the latest; -1 for never. */
int pressure_wait_ms(void);

/* `has_event`: the descriptor is ready. */
void relieve_pressure(bool has_event);

#endif
