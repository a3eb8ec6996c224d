#include "supervisor/ctl/patience.h"

#include <stdio.h>
#include <time.h>

#include "ipc/monotonic.h"

static const double FIRST = 0.5, LONGEST = 10;

static bool
stopped(const struct patience *p)
{
	return p->stop != NULL && *p->stop != 0;
}

/* Seconds to sleep before the next try. */
static double
pause_of(const struct patience *p, unsigned asked)
{
	double pause = FIRST;

	if (asked > 0)
		return (double)asked;
	for (unsigned i = 0; i < p->tries && pause < LONGEST; i++)
		pause *= 2;
	return pause < LONGEST ? pause : LONGEST;
}

bool
patience_wait(struct patience *p, const char *why, unsigned asked)
{
	double left, pause;
	struct timespec t;

	if (p->seconds == 0 || stopped(p))
		return false;
	if (p->since == 0) {
		p->since = monotonic_seconds();
		p->tries = 0;
		fprintf(stderr, "stepctl: %s; trying again for %u s\n", why, p->seconds);
	}
	left = p->since + (double)p->seconds - monotonic_seconds();
	if (left <= 0)
		return false;
	pause = pause_of(p, asked);
	if (pause > left)
		pause = left;
	p->tries++;
	t.tv_sec = (time_t)pause;
	t.tv_nsec = (long)((pause - (double)t.tv_sec) * 1e9);
	nanosleep(&t, NULL); /* a signal cuts it short: the next try comes sooner */
	return !stopped(p);
}

void
patience_over(struct patience *p)
{
	if (p->since != 0)
		fprintf(stderr, "stepctl: the service answers again, after %.0f s\n",
		    monotonic_seconds() - p->since);
	p->since = 0;
}
