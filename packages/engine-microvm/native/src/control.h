#ifndef DORMOUSE_CONTROL_H
#define DORMOUSE_CONTROL_H

#include <stddef.h>

/* Makes the cgroup that the agent lives in. Without cgroups the limits of the machine are the only ones. */
void make_cgroup(void);
void join_cgroup(void);
/* Does what the host asks and sends the answer: `ok …` or `error …`. */
void answer_control(const char *command, size_t length);

#endif
