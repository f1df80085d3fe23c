#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "guard-call.h"

/* A stopped thread in which system calls are made. */
struct live_calls {
    pid_t thread;
    /* Addresses of `dormouse_guard_enter` and `dormouse_guard_call` in it. */
    uint64_t enter, frame;
    struct user_regs_struct before;
    uint64_t signal_mask;
};

/*
 * Whether calls can be made in a stopped thread now. Not when it is not 64-bit code, is inside a restartable sequence,
 * handles its own system calls, or its guard is not as expected. Changes nothing in it.
 */
bool can_call(struct live_calls *calls);
/* Prepares the thread for calls. Pre: `can_call`, and it is stopped since. False: nothing has changed. */
bool begin_calls(struct live_calls *calls, const char *path);
/* Makes one system call. Returns what the kernel returns to the thread, or -EIO when the thread did not make it. */
long call_inside(struct live_calls *calls, long number, const uint64_t arguments[6]);
/* Post: the thread is stopped as before `begin_calls`, and continues a system call that the stop had interrupted. */
bool end_calls(struct live_calls *calls);
/* The address of the path in the thread's memory. */
uint64_t path_inside(const struct live_calls *calls);

bool read_inside(pid_t process, uint64_t address, void *bytes, size_t length);
bool write_inside(pid_t process, uint64_t address, const void *bytes, size_t length);
