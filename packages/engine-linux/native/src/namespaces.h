#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Forks like fork(2), with the child in the new namespaces of `flags`. The uid `owner` owns its user namespace. */
pid_t fork_into(int flags, uid_t owner);
/* Maps ids 0..count-1 of the child's new user namespace to base.. of ours. Needs CAP_SETUID in our namespace. */
void map_ids(pid_t child, uint32_t base, uint32_t count);
/* In the child, once its ids are mapped: becomes uid 0 of the new user namespace, without supplementary groups. */
void become_inner_root(void);
/* Writes a small file with a single write(2), as /proc and cgroup files require. */
void write_file(const char *path, const char *text);
