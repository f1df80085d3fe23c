#ifndef DORMOUSE_CONTROL_H
#define DORMOUSE_CONTROL_H

#include <stddef.h>
#include <sys/types.h>

/* Makes the cgroup that the agent lives in. Without cgroups the limits of the machine are the only ones. */
void make_cgroup(void);
void join_cgroup(void);
/* Pre: the cgroup that was joined is the root of the namespace, and mounted. */
void join_programs_cgroup(void);
/* The process that answers while programs are held. */
void control_belongs_to(pid_t agent);
/* Does what the host asks and sends the answer: `ok …` or `error …`. */
void answer_control(const char *command, size_t length);

/* Where all programs of the sandbox are, and the agent. */
#define CGROUP "/sys/fs/cgroup/sandbox"

int write_text(const char *path, const char *text);

/* The number at the beginning of a file, or behind the first occurrence of `key`. 0 where there is none. */
long long read_number(const char *path, const char *key);

/* Memory that the kernel cannot take back from programs: no caches. */
long long held_bytes(void);

#endif
