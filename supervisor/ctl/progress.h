/*
 * The progress of a run, on stderr: one line that is drawn over on a terminal, plain lines in a
 * pipe.
 */
#ifndef SUPERVISOR_CTL_PROGRESS_H
#define SUPERVISOR_CTL_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	bool terminal;
	size_t total;	 /* steps to do */
	double started;	 /* monotonic seconds of the first step's start */
	uint64_t tokens; /* seen since then */
	size_t done;
};

void progress_start(struct progress *p, size_t total);
/* After a step: its number of all, its loss, its input tokens. */
void progress_step(struct progress *p, uint64_t step, double loss, uint64_t tokens);
/* Ends the line. */
void progress_end(struct progress *p);
double progress_tokens_per_second(const struct progress *p);

#endif
