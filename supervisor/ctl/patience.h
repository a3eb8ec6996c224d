/*
 * How long stepctl goes on asking a service that is away or busy: one outage at a time, told on
 * stderr when it begins and when it is over.
 */
#ifndef SUPERVISOR_CTL_PATIENCE_H
#define SUPERVISOR_CTL_PATIENCE_H

#include <signal.h>
#include <stdbool.h>

struct patience {
	unsigned seconds;		   /* for each outage; 0: none */
	const volatile sig_atomic_t *stop; /* not 0: somebody wants to stop; or NULL */
	double since;			   /* when this outage began, seconds; 0: there is none */
	unsigned tries;			   /* within it */
};

/* Sleeps until it is worth trying again: `asked` seconds if the service said so (0: it did not),
   else from half a second on, twice as long each time, 10 s at most. `why` begins the line of a new
   outage: "https://host: no answer: Couldn't connect". false, without a line, when patience is over
   or somebody wants to stop. */
bool patience_wait(struct patience *p, const char *why, unsigned asked);
/* An answer came: the outage, if there was one, is over. */
void patience_over(struct patience *p);

#endif
