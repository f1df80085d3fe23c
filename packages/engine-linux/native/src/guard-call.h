#pragma once

#include <stdint.h>

/*
 * What a thread of a sandbox needs to continue after system calls that dormouse-move made in it. The mover restores
 * the thread itself. Only if it is killed in the middle does the thread go on with `dormouse_guard_enter`, which
 * finishes the system call and restores the thread from here. Part of what the engine finds in a process by symbol.
 */
struct guard_call {
    uint64_t in_use; /* A process that has this set is left alone. */
    uint64_t flags, rsp, rip;
    uint64_t rax, rdi, rsi, rdx, r10, r8, r9, rcx, r11;
    uint64_t signal_mask;
    char path[248]; /* The argument of open. */
};
