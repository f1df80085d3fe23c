#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_LIST 64

/* The configuration that the engine writes to stdin: `key=value` records, each ended by NUL, and an empty one. */
struct config {
    const char *hostname;
    const char *root;      /* an empty host directory, for kernels where the overlay has to be mounted by its path */
    const char *overlay;   /* overlayfs mount options */
    const char *tools;     /* host directory shown read-only at /.dormouse */
    /*
     * Optional host directory shown at /.dormouse/run. Without it, dormouse-init mounts a tmpfs with room for one
     * socket.
     */
    const char *link;
    const char *memory;    /* optional host directory shown read-only at /.dormouse/memory: the mapped memory files */
    const char *kdat;      /* optional host directory shown read-only at /.dormouse/kdat: CRIU's kernel features */
    const char *limits;    /* optional host directory with the files that tell programs their limits (show-limits.h) */
    const char *volumes;   /* host directory that contains the volumes; may be missing when there are none */
    const char *volume[MAX_LIST + 1]; /* `<ro|rw> <name in volumes> <absolute path inside>` */
    size_t volume_count;
    const char *pid_file;  /* host file: the pid of the burrow's PID 1, as the host sees it */
    const char *end_file;  /* host file: why the burrow ended */
    const char *agent[MAX_LIST + 1];
    size_t agent_count;
    const char *env[MAX_LIST + 1];
    size_t env_count;
    int64_t monotonic_ns;  /* what the clocks inside show at the start */
    int64_t boottime_ns;
    int64_t last_pid;      /* the next pid in the burrow is the one after this; 0 leaves it unset */
};

/*
 * Reads the text of a configuration up to the empty record. Ends this process when `watched`, a socket, is closed at
 * its other end.
 */
char *config_read(int fd, int watched, size_t *length);
struct config config_parse(const char *text, size_t length);
