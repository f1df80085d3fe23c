#pragma once

/*
 * For PID 1, which only waits for children and records why the burrow ended. Post: it can make no other system calls,
 * even if its memory is compromised.
 */
void seal_first_process(void);
