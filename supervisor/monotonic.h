/* Seconds of the clock that only goes forward: for deadlines and durations. */
#ifndef SUPERVISOR_MONOTONIC_H
#define SUPERVISOR_MONOTONIC_H

double monotonic_seconds(void);

#endif
