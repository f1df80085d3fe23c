#include "own-thread.h"

#include <pthread.h>
#include <signal.h>

#define STACK_BYTES (256 * 1024)

int in_own_thread(void *(*work)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    /* A new thread inherits the signal mask. This one blocks all signals: other threads handle them. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, work, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0)
        pthread_join(thread, NULL);
    return error;
}
