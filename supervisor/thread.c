#include "supervisor/thread.h"

#include <signal.h>

int
thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}
