#pragma once

#include <stddef.h>

/* What PID 1 gets when its burrow is needed: the text of the configuration, and descriptors that only root can open. */
struct order {
    char *text;
    size_t length;
    int mounts; /* its mount namespace */
    int end_fd; /* a host file: why the burrow ended */
};

/* Over a stream socket. */
void hand_over(int socket, const struct order *order);
/* Exits when the other end is closed first: the process there has reported why. */
struct order take_over(int socket);
