#pragma once

/*
 * Runs `work` in a new thread and waits for it. A thread that has entered a namespace cannot be used for anything else,
 * so Node's own threads never enter one. Returns 0, or the errno of starting the thread.
 */
int in_own_thread(void *(*work)(void *), void *argument);
