#pragma once

/*
 * PID 1 has nothing left to do but wait for children and write why the burrow ended. Post: it can do nothing else,
 * whatever happens to its memory.
 */
void seal_first_process(void);
