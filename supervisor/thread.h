/* Threads of stepd. */
#ifndef SUPERVISOR_THREAD_H
#define SUPERVISOR_THREAD_H

#include <pthread.h>

/* Starts a thread that takes no signals: they are the event loop's. To be joined. 0 or -errno. */
int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif
