#pragma once

/*
 * A namespace belongs to a thread. Runs `work` in one that does nothing else and ends afterwards, so that no thread of
 * Node's, on which anything may run next, is ever anywhere but at home. Waits for it. 0, or why it could not be
 * started.
 */
int in_own_thread(void *(*work)(void *), void *argument);
