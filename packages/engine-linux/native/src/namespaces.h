#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Forks like fork(2), the child in the new namespaces of `flags`. Its user namespace belongs to the uid `owner`. */
pid_t fork_into(int flags, uid_t owner);
/* Maps ids 0..count-1 of the child's new user namespace to base.. of ours. Needs CAP_SETUID here. */
void map_ids(pid_t child, uint32_t base, uint32_t count);
/* In the child, once mapped: become uid 0 of the new user namespace with no other group. */
void become_inner_root(void);
/* Writes a whole small file in one write(2), as /proc and cgroup files want it. */
void write_file(const char *path, const char *text);
