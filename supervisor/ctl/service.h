/*
 * A private stepd for one run: started beside stepctl on a free port of the loopback address, with
 * a token and a state folder of its own, and gone when stepctl is gone, however it ends.
 */
#ifndef SUPERVISOR_CTL_SERVICE_H
#define SUPERVISOR_CTL_SERVICE_H

#include <stdbool.h>
#include <sys/types.h>

#include "supervisor/ctl/client.h"

struct service {
	pid_t pid;	  /* 0 = not started */
	char state[4096]; /* its state folder, removed at the end */
	char model[512];  /* the model's name there */
	int failure;	  /* exit code, where it could not be started */
};

/* model: a folder or a GGUF file, or a name that $STEPD_MODEL_DIR or the Hugging Face cache knows.
   The state folder is made in `folder`; the log goes to `log`, or with NULL into the state folder.
   A client for it, or NULL after a line on stderr. */
struct client *service_start(
    struct service *s, const char *model, const char *folder, const char *log);
/* For signal handlers: ends a private stepd at once, so that a call that waits for it returns and
   its caller comes to service_stop(). Whether there is one that service_stop() has to clean up. */
bool service_kill(void);
/* Ctrl-C, TERM and a lost terminal go to handler; what reads our output may end before us. */
void service_signals(void (*handler)(int number));
/* Stops it and removes its state folder; may be called when it never started. */
void service_stop(struct service *s);

#endif
